"""A second reader of everything: plain, slow, made from the format pages, sharing no code with journalfs.

What the product does fast is checked against what this does obviously. Nothing here may import `journalfs`.
"""
