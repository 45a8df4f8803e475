"""Docstrings and the page about layouts say what is true."""

import doctest
import importlib
import pkgutil

import pytest

import tvm_iree_ext.layout
from tvm_iree_ext.layout import NestedLayout, svg_picture

MODULES = [
    f"tvm_iree_ext.layout.{found.name}"
    for found in pkgutil.iter_modules(tvm_iree_ext.layout.__path__)
]
# the layout of the page's picture
PAGE = NestedLayout((2, 1), (1, 2), (1, 1), (4, 2), (1, 4), (1, 0), (1, 4))


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


def test_the_pages_picture_is_up_to_date(root):
    """After a change: ``save_svg("docs/layout.svg", PAGE)``, and look at it."""
    assert (root / "docs" / "layout.svg").read_text("utf-8") == svg_picture(PAGE)
