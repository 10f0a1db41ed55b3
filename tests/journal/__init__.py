"""Writing journals: bytes, bookkeeping, durability, crashes."""
