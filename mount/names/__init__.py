"""What a file's name says, and names that are being written."""
