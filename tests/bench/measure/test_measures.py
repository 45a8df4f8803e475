"""How times, rates and memory are taken: turns, spreads, peaks, growth, costs."""

import dataclasses
import math
import statistics
from contextlib import nullcontext

import numpy as np
import pytest

from tvm_iree_ext import bench, ops
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.bench.cases.attention import attention_case
from tvm_iree_ext.bench.measure.compare import OtherLoad
from tvm_iree_ext.bench.measure.footprint import extra_bytes
from tvm_iree_ext.bench.measure.kernel_costs import measure_costs
from tvm_iree_ext.bench.measure.peaks import Peaks
from tvm_iree_ext.bench.measure.turns import Spread, settle, speedup
from tvm_iree_ext.building.kernel_build import build


def test_the_bandwidth_is_that_of_the_next_larger_array():
    peak = Peaks(1, {}, 10.0, {1 << 20: 80.0, 4 << 20: 40.0})
    sizes = (1, 1 << 20, (1 << 20) + 1, 4 << 20, 5 << 20)
    assert [peak.gbps(size) for size in sizes] == [80.0, 80.0, 40.0, 40.0, 10.0]
    assert Peaks(1, {}, 10.0).gbps(1) == 10.0


def test_narrow_types_may_be_computed_in_float32():
    peak = Peaks(1, {"float32": 100.0, "float64": 50.0, "bfloat16": 60.0, "int8": 400.0}, 10.0)
    rates = [peak.multiply_adds(t) for t in ("float32", "float64", "bfloat16", "int8", "float16")]
    assert rates == [100.0, 50.0, 100.0, 400.0, 100.0]


class Within:
    """A context that writes down its turns."""

    def __init__(self, log, name):
        self.log, self.name = log, name

    def __call__(self):
        return self

    def __enter__(self):
        self.log.append(f"<{self.name}")

    def __exit__(self, *_):
        self.log.append(f">{self.name}")


class Clock:
    """Stands in for the module ``time``: it advances by what calls say that they take."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def process_time(self):
        return 0.0

    thread_time = process_time

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("tvm_iree_ext.bench.measure.turns.time", clock)
    return clock


def test_contenders_take_turns_and_each_begins_in_turn(clock):
    log = []
    contenders = {
        name: bench.Contender(lambda: clock.sleep(0.01), Within(log, name)) for name in "abc"
    }
    times = bench.take_turns(contenders, seconds=0.0, min_rounds=3)
    assert {name: len(rounds) for name, rounds in times.items()} == {"a": 3, "b": 3, "c": 3}
    assert [entry[1] for entry in log if entry[0] == "<"] == [*"abc", *"bca", *"cab"]


def turn_of(clock, seconds):
    """Of one contender whose calls take so long: the times of a turn, and all that it called."""
    calls = []

    def call():
        calls.append(seconds(len(calls)))
        clock.sleep(calls[-1])

    ((turn,),) = bench.take_turns(
        {"one": bench.Contender(call, nullcontext)}, seconds=0.0, min_rounds=1
    ).values()
    return turn, calls


def test_calls_are_counted_once_threads_are_on_processors_of_their_own(clock):
    turn, calls = turn_of(clock, lambda number: 2**-9 if number < 13 else 2**-10)
    assert turn == pytest.approx([2**-10] * len(turn))
    assert sum(calls) - sum(turn) >= 0.025
    assert sum(turn) >= 0.05


def test_a_long_call_is_counted_though_it_is_the_first(clock):
    turn, calls = turn_of(clock, lambda _: 2.0)
    assert turn == calls == [2.0]


def test_a_speedup_compares_within_a_round():
    ours, theirs = [[1.0, 2.0, 3.0], [10.0]], [[4.0], [30.0, 30.0]]
    assert speedup(ours, theirs) == Spread(2.5, 2.25, 2.75)


def test_a_spread_is_a_median_with_quartiles():
    samples = [float(number) for number in range(9)]
    assert Spread.of(samples) == Spread(4.0, 2.0, 6.0)
    assert Spread.of([3.0]) == Spread(3.0, 3.0, 3.0)
    assert Spread.of(samples).median == statistics.median(samples)


def test_waiting_for_other_threads_ends():
    assert settle() in (True, False)


def test_the_load_of_others_is_a_share():
    share = OtherLoad().share()
    assert share is None or 0.0 <= share <= 1.0


def test_growth_is_the_slope_between_sizes_that_double(monkeypatch):
    linear = bench.Subject(lambda n: ops.scan((n,), dimension=0), 2**15, "elements")
    monkeypatch.setitem(bench.SUBJECTS, "scan", linear)
    found = bench.measure_growth("scan", doublings=2, seconds=0.01)
    assert found.sizes == (2**15, 2**16, 2**17)
    assert len(found.seconds) == 3
    assert np.isfinite(found.exponent)
    assert found.operand_bytes == 2 * 4 * (2**17 + 1)
    assert 0 < found.extra_bytes < 8 << 20
    text = bench.growth_markdown([found])
    assert text.count("\n") == 3
    assert "| scan | 1 | elements | 32768 ... 131072 |" in text


def test_costs_are_measured_in_fresh_processes():
    costs = measure_costs((1,), repeats=1)
    assert costs.memory[0].threads == 1
    numbers = [v for k, v in dataclasses.asdict(costs).items() if k != "memory"]
    assert all(math.isfinite(number) and number > 0 for number in numbers)


def test_memory_of_a_call_is_more_than_nothing_and_less_than_its_scores(tiny):
    case = attention_case(16, 1024, 1024, 64, "float32")  # code that is paged in may be 10 MB
    took = extra_bytes(build(case.op).folder, 1)
    assert 0 <= took < 16 * 1024 * 1024 * 4


def test_a_process_that_fails_is_an_error(tmp_path):
    with pytest.raises(BuildError, match=r"cannot measure the memory of .*manifest"):
        extra_bytes(tmp_path, 1)
