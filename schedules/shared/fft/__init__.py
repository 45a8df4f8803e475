"""Fourier transforms on any target: codelets, roots of unity, operands."""
