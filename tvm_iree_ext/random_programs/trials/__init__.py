"""Random programs tried, each in a process of its own, and made small."""
