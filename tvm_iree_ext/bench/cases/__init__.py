"""The cases that are timed, a file for each family."""
