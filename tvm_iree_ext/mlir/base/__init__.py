"""IR as plain values, element types, errors: what reading and importing share."""
