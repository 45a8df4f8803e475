"""The ops, a folder or a file for each family."""
