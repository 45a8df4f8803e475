"""The state of an import, and what comes of it."""
