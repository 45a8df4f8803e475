"""Tuning tasks, and the file of measured records."""
