"""Collectives of a workgroup's lanes: reductions, votes, exchanges."""
