"""NestedLayout: its algebra, conversions between layouts, pictures.  Pure Python and NumPy."""
