"""When CPU kernels are worth threads: the table of amounts, and what rules make of it."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.schedules.cpu.base.parallel import LAUNCH_US, SERIAL_WORK, outweighs_launch
from tvm_iree_ext.schedules.dispatch import RULES, choose
from tvm_iree_ext.targets.names import make_target

TARGET = make_target("llvm:znver4")


def test_amounts_are_of_rules_of_their_parts_or_of_loops():
    rules = {rule.name for rule in RULES}
    assert {name.split()[0] for name in SERIAL_WORK} - rules == {"cpu.loops"}


def test_what_one_thread_does_alone_takes_no_longer_than_a_few_launches():
    timed = [work.us for work in SERIAL_WORK.values() if work.us is not None]
    least, most = LAUNCH_US
    assert min(timed) > least
    assert max(timed) < 3 * most


def test_the_amount_itself_is_done_by_one_thread():
    work = SERIAL_WORK["cpu.scan"]
    assert not outweighs_launch("cpu.scan", work.most)
    assert outweighs_launch("cpu.scan", work.most + 1)


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (lambda length: ops.sort(TensorType((length,), "float32"), dimension=0), 4096),
        (lambda length: ops.topk((1, length), k=8, dimension=1), 16384),
        (lambda width: ops.pack((64, width), inner_dims_pos=[0], inner_tiles=[8]), 513),
    ],
    ids=["sort", "topk", "pack"],
)
def test_rules_take_threads_from_the_amount_on(make, least):
    parallel = [
        choose(op, TARGET).heuristic(op, TARGET).parallel for op in (make(least - 1), make(least))
    ]
    assert parallel == [False, True]


def test_open_extents_are_worth_threads():
    op = ops.matmul(("m", 8), (8, 8))
    assert choose(op, TARGET).heuristic(op, TARGET).parallel
