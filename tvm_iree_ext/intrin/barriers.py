"""How a kernel says that it places its own barriers."""

OWN_BARRIERS = "tvm_iree_ext.own_barriers"
"""On a PrimFunc: TVM adds no barriers between its accesses to shared memory."""
