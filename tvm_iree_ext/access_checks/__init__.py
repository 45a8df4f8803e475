"""Kernels whose every access is checked, stage by stage of the pass pipeline.

A schedule may name an element that is not there, and a pass that moves, shares or retypes storage
may be wrong.  Neither need show in the results.  A checked kernel asks of every index whether its
buffer has it, local buffers too, and begins every buffer as noise.  Put in after the schedule, or
after any pass, the checks tell which of them is at fault.  Kernels for GPUs are simulated so.
"""
