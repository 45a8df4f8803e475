"""The pseudocode of AMD's ISA manuals read, and made into NumPy functions over waves and lanes."""
