"""Candidates measured on other machines."""
