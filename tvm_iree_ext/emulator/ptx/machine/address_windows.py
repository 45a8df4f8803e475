"""Where the state spaces lie among generic addresses.

Source: PTX ISA 9.0, *Generic Addressing*: windows within the generic address space, wherever they
are.
"""

SHARED_WINDOW = 1 << 40
"""Of shared memory; its own addresses begin at 0."""

LOCAL_WINDOW = 1 << 41
"""Of a lane's memory, whose own addresses are the generic ones here."""

PARAMETER_WINDOW = 1 << 42
"""Of a kernel's parameters, likewise."""

GLOBAL_WINDOW = 1 << 46
"""The first address that global memory may have."""
