"""Models of ONNX: read, brought into the words that front ends take, and through a door."""
