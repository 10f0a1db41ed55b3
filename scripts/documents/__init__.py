"""The documents: what is read out of them, and the pages that are made from them and from the sources."""
