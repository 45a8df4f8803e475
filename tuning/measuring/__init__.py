"""Candidates built, checked and timed in processes that may crash."""
