"""Rows of a run as tables, pictures and summaries."""
