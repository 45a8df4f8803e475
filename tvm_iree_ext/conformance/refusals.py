"""Who refused, and why: exceptions as verdicts."""

import re
import traceback

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.conformance.outcomes import Verdict

# What messages begin with where a front end's words are passed on.
_NOT_LOWERED = "IREE does not lower it:"
_DOOR = re.compile(r"^(\w+)'s front end: (.*)$", re.MULTILINE)
_PACKAGES = {
    "torch": "PyTorch",
    "jax": "JAX",
    "iree": "IREE",
    "tvm": "TVM",
    "onnx": "onnx",
    "numpy": "NumPy",
}
_PLACE = re.compile(r"^\S+\.\w+:\d+:\d+: |^[\w./ -]*:\d+(:\d+)?: ")
_VARYING = (
    (re.compile(r"tensor<[^>]*>|vtensor<[^>]*>+"), "tensor"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "'...'"),
    (re.compile(r"0x[0-9a-f]+|%[\w#]+"), "..."),
    (re.compile(r"(?<![A-Za-z])-?\d+(\.\d+)?(e[-+]?\d+)?"), "N"),
)


def refused(error: BaseException) -> Verdict:
    """The verdict of what a case raised: our own refusal, a front end's, or what broke."""
    text = str(error)
    if doors := _DOOR.findall(text):
        by = " and ".join(name for name, _ in doors)
        return Verdict("refused", "; ".join(f"{name}: {said}" for name, said in doors), by)
    if isinstance(error, ExtError):
        if _NOT_LOWERED in text:
            said = text.split(_NOT_LOWERED, 1)[1]
            return Verdict("refused", _first_line(said), _front_end(said))
        return Verdict("refused", _first_line(text), "ours")
    message = f"{type(error).__name__}: {_first_line(text)}"
    return Verdict("refused", message, _raiser(error))


def _front_end(said: str) -> str:
    """Which part of IREE's front ends: torch-mlir's lowerings, StableHLO's, or the importer."""
    if "torch" in said.split("\n")[0] or "failed to legalize operation 'torch" in said:
        return "torch-mlir"
    return "IREE"


def _raiser(error: BaseException) -> str:
    """The package that raised an error: of the innermost frame that is of a known one."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = frame.filename.replace("\\", "/").split("/")
        if "tvm_iree_ext" in parts:
            return "ours"
        if "site-packages" in parts:
            package = parts[parts.index("site-packages") + 1]
            if package == "torch" and "export" in parts:
                return "torch.export"
            if package in _PACKAGES:
                return _PACKAGES[package]
    return "ours"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def reason(message: str) -> str:
    """A message without what varies from case to case: names, numbers, types of tensors."""
    said = _PLACE.sub("", message)
    for pattern, word in _VARYING:
        said = pattern.sub(word, said)
    return said
