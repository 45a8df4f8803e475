"""Imported programs: rewritten, fused, scheduled, built into one library."""
