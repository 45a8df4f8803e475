"""Functions of float64 in vectors, by double-double arithmetic: within 0.85 ULP.

What is rounded twice in float64 shows in the last digit, so sums, products and quotients that a
result hangs on keep what they are rounded by, and polynomials give only what is small beside them.
Special values are those of C.  ``scripts/fit_math.py`` prints the polynomials; the number behind
each is its relative error.
"""
