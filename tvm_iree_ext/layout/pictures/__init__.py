"""Layouts drawn: in a terminal, as SVG, as a report."""
