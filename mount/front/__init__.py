"""C that answers before Python is asked (`native/front`), and what Python lends it."""
