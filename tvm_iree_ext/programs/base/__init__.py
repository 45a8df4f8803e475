"""The Relax that a program is, and what is done with any."""
