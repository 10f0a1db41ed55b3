"""One module for each kind of file or directory."""
