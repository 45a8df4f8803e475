"""What all others speak: errors, element types, signatures, comparisons, files and limits."""
