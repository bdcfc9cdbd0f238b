"""The passes, one idea a file, and the table of them."""
