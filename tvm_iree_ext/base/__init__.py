"""Foundations of all folders: errors, element types, signatures, comparisons, files and limits."""
