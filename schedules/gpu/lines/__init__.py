"""Ops along lines on GPUs: how lines are shared among workgroups and lanes."""
