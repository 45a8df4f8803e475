"""The operations: per file a group of definitions, and the builder's methods that make them."""
