"""Device TIR as Python source over all lanes of a workgroup."""
