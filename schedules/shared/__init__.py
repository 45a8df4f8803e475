"""What the rules of several targets share for a family's ops."""
