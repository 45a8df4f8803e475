"""PyTorch's operators by others, where IREE's front end takes them not, or wrongly."""
