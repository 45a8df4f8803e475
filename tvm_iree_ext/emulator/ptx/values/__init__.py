"""Instructions that compute values, whichever lane they are of."""
