"""Relax modules as programs."""
