import importlib
import sys

import pytest

from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.runtime import cache
from tvm_iree_ext.schedules import dispatch


@pytest.fixture
def faulty(monkeypatch, tmp_path):
    """The module of an op whose candidates do all that one can do: registered in the test alone."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(dispatch, "RULES", dispatch.RULES)
    module = importlib.import_module("faulty_ops")
    yield module
    del sys.modules[module.__name__], ENTRIES[module.Doubled.name]
