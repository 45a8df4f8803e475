"""Arguments that a program updates in place."""
