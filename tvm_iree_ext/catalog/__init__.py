"""Per op family: what ties op, reference and cases together; read through the registry."""
