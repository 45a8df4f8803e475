"""What the ops of all families are made of: types, maps, regions, padding."""
