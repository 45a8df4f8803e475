"""What is simulated must compile, too: a part of it by turns, since compilers take their time."""

import datetime
import os
import zlib

import pytest

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.simulator.runs import simulated_ops

TURNS = 12
TURN = "TVM_IREE_EXT_TURN"
"""The environment's variable for another turn than today's, or ``all``."""


@pytest.fixture(autouse=True)
def compiled_by_turns(request, monkeypatch):
    """Compile what a test simulates on the day of its turn."""
    turn = os.environ.get(TURN) or str(datetime.date.today().toordinal() % TURNS)
    own = zlib.crc32(request.node.nodeid.encode()) % TURNS
    if turn not in ("all", str(own)):
        return
    planned = simulated_ops._planned

    def also_compiled(func, target):
        made = planned(func, target)
        try:
            compile_device(func, target).plan()
        except ExtError as error:
            pytest.fail(f"what is simulated does not compile ({TURN}={own} does it again): {error}")
        return made

    monkeypatch.setattr(simulated_ops, "_planned", also_compiled)
