"""Docstrings and the page about layouts say what is true."""

import doctest
import importlib
import pkgutil

import pytest

import tvm_iree_ext.layout
from tvm_iree_ext.layout import NestedLayout, svg_picture
from tvm_iree_ext.targets.mma.mma_table import mma_kind

MODULES = [
    f"tvm_iree_ext.layout.{found.name}"
    for found in pkgutil.iter_modules(tvm_iree_ext.layout.__path__)
]
# the layout of the page's picture
PAGE = NestedLayout((2, 1), (1, 2), (1, 1), (4, 2), (1, 4), (1, 0), (1, 4))
MMA = "MFMA_F32_32x32x8_F16"  # of the page about GPUs


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_some_docstrings_have_examples():
    examples = [doctest.testmod(importlib.import_module(name)).attempted for name in MODULES]
    assert sum(examples) > 20


def test_page(root):
    result = doctest.testfile(str(root / "docs" / "layouts.md"), module_relative=False)
    assert result.attempted > 30
    assert result.failed == 0


@pytest.mark.parametrize("name", ["layout", "accumulator"])
def test_a_pages_picture_is_up_to_date(root, name):
    """After a change: ``save_svg("docs/NAME.svg", layout)``, and look at it."""
    layout = PAGE if name == "layout" else mma_kind(MMA).acc.layout()
    assert (root / "docs" / f"{name}.svg").read_text("utf-8") == svg_picture(layout)
