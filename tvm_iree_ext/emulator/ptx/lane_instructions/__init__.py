"""Instructions that know of lanes: memory, warps, barriers, copies, matrices."""
