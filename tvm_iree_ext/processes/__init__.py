"""Processes of our own: with limits, without PyTorch, that may crash."""
