"""The programs, with random weights: a file for each domain, a function for each program."""
