"""A second reader of everything, written from the format pages alone: plain, slow, and sharing no code with journalfs.

What the product does fast is checked against what this does obviously. Nothing here may import `journalfs`.
"""
