"""What each kind of target offers: vector width, registers, limits."""
