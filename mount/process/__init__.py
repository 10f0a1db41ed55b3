"""Who asks and waits, as /proc tells, and what each user may hold."""
