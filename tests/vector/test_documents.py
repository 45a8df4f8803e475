"""The examples in the modules run."""

import doctest
import importlib

import pytest

NAMES = ("stages", "article_programs", "analysis.op_counts", "programs.builder")
MODULES = [f"tvm_iree_ext.vector.{name}" for name in NAMES]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_modules_run(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert result.failed == 0
