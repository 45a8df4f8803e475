"""Exceptions for requests that cannot be met.

Each message names the op, the operand or the file, what was expected, and what came.
"""


class ExtError(Exception):
    """Base of every error that a user can cause or mend."""


class OpError(ExtError, ValueError):
    """An attribute or operand breaks one of the op's rules; raised when the op is made."""


class LayoutError(ExtError, ValueError):
    """A layout is malformed, or two layouts do not fit each other."""


class TargetError(ExtError, ValueError):
    """A target is unknown, or this installation cannot build or run for it."""


class ScheduleError(ExtError, ValueError):
    """No schedule rule applies, or a lowering config does not fit op and target."""


class BuildError(ExtError, RuntimeError):
    """The compiler, the linker or the file system refused."""


class MlirError(ExtError, ValueError):
    """MLIR that cannot be read, or holds what cannot be imported; says what, and where."""


class OnnxError(ExtError, ValueError):
    """A model of ONNX that cannot be read, or holds what no front end takes; says which node."""


class RecordError(ExtError, ValueError):
    """A file of arrays, or of how they are compared, does not fit what it is used for."""


class TuningError(ExtError, ValueError):
    """Records of tuning, or a request to tune, that cannot be used; says which and why."""


class SimulationError(ExtError, RuntimeError):
    """A kernel cannot be simulated, or the simulation found something wrong with it."""


class EmulationError(ExtError, RuntimeError):
    """Machine code cannot be emulated, or its emulation found something wrong with it."""


class AccuracyError(ExtError, ValueError):
    """A function, type or target whose accuracy is not measured; says which are."""


class CallError(ExtError, ValueError):
    """The arrays of a kernel call do not fit its signature; nothing was computed."""


class ArtifactError(ExtError, RuntimeError):
    """An artifact is damaged, incomplete, foreign, or cannot be written."""


KERNEL_ERROR = "tvm_iree_ext.CallError"
"""The kind of error that a kernel raises for operands whose values do not fit: a CallError."""
