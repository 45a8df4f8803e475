"""What IREE's compiler refuses, and what is not installed."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import frontends
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.mlir.reading import reader


def test_says_what_iree_does_not_lower():
    with pytest.raises(MlirError, match=r"(?s)IREE does not lower it:.*'oops' is unknown"):
        frontends.import_lowered("module { oops }", "stablehlo")


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("COMPILER_MEMORY", 1 << 20, r"^IREE's compiler takes more than the 1 MB that it may$"),
        ("COMPILER_LIMIT_S", 0.001, r"^IREE's compiler takes more than 0\.001 s$"),
    ],
)
def test_says_which_limit_the_compiler_is_beyond(monkeypatch, limit, value, said):
    monkeypatch.setattr(reader, limit, value)
    with pytest.raises(MlirError, match=said):
        frontends.import_lowered("module {}", "stablehlo")


@pytest.mark.parametrize(
    ("build", "missing", "said"),
    [
        (ext.from_jax, "jax", r"JAX is not installed.*tvm-iree-ext\[jax\]"),
        (ext.from_torch, "iree.turbine", r"iree-turbine is not installed.*tvm-iree-ext\[pytorch\]"),
    ],
)
def test_says_what_is_not_installed(monkeypatch, build, missing, said):
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    with pytest.raises(MlirError, match=said):
        build(lambda x: x, np.zeros(3))
