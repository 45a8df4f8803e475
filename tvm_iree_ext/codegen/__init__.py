"""From scheduled TIR to machine code; knows no schedule."""
