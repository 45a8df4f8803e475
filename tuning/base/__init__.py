"""What is tuned, and the file of what was measured."""
