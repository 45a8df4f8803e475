"""What the lanes of a workgroup do together: reduce, vote, exchange."""
