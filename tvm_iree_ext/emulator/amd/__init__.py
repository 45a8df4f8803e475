"""AMD's code objects executed: decoders and pseudocode are AMD's own, as tinygrad carries them."""
