"""Importers of operations, a file for each dialect or group of operations."""
