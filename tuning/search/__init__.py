"""MetaSchedule's search over a space, and its cost model."""
