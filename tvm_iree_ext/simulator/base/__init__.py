"""State of a simulated workgroup: lane values, memory, findings, traffic."""
