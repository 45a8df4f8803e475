"""Lowering configs, their checks and tuning spaces, below the rules of all targets."""
