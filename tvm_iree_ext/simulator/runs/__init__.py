"""Ops, launch plans and programs run on the simulator."""
