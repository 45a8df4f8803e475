"""Schedules of TIR blocks by a NestedLayout: copies, fragments, elementwise."""
