"""Tuning with MetaSchedule."""
