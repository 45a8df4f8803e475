"""Schedule rules: how an op runs on a kind of target."""
