"""The benchmark: what it reports, and that it times nothing that computes something wrong.

Nothing here depends on how long anything takes.
"""

import argparse
import dataclasses
import json
import math
import os
import re
import shlex
import statistics
import sys

import numpy as np
import pytest

from tvm_iree_ext import bench, ops
from tvm_iree_ext.bench import case as case_module
from tvm_iree_ext.bench import compare, suites
from tvm_iree_ext.bench.attention import (
    attention_case,
    numpy_attention,
    numpy_online,
    online_case,
    torch_online,
)
from tvm_iree_ext.bench.case import NUMPY, TORCH, Library, Peer
from tvm_iree_ext.bench.compare import OtherLoad, Outcome, Row
from tvm_iree_ext.bench.costs import MEMORY_SHAPE, Costs, Memory, measure_costs
from tvm_iree_ext.bench.footprint import extra_bytes
from tvm_iree_ext.bench.listed import listed_pairs
from tvm_iree_ext.bench.peaks import Peaks
from tvm_iree_ext.bench.turns import Spread, settle, speedup
from tvm_iree_ext.builder import build
from tvm_iree_ext.cli.bench import add_bench
from tvm_iree_ext.errors import BuildError, ExtError


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture
def known_peaks(monkeypatch):
    """Peaks that need not be measured."""
    known = {"float32": 100.0, "float64": 50.0}
    monkeypatch.setattr(
        suites, "measure_peaks", lambda threads: [Peaks(count, known, 10.0) for count in threads]
    )


@pytest.fixture(scope="module")
def tiny():
    case = attention_case(2, 16, 24, 16, "float32")
    return dataclasses.replace(case, peers=case.peers[:3])  # the others take a while to set up


def run_one(case, **options):
    return bench.run([case], quick=True, costs=False, **options)


def outcomes(report):
    return {outcome.name: outcome for row in report.rows for outcome in row.outcomes}


def test_a_quick_run_fills_every_field_of_the_json(tiny, tmp_path):
    report = run_one(tiny, suite="tiny")
    path = tmp_path / "new" / "report.json"
    report.save_json(path)
    data = json.loads(path.read_text())
    assert data["schema"] == 2
    assert data["suite"] == "tiny"
    assert data["quick"] is True
    assert data["complete"] is True
    assert data["costs"] is None
    assert set(data["machine"]) == {"cpu", "processors", "system", "python", "versions"}
    assert {"apache-tvm", "numpy", "torch"} <= set(data["machine"]["versions"])
    (peaks,) = data["peaks"]
    assert peaks["threads"] == 1
    assert {"float32", "float64"} <= set(peaks["gflops"])
    rates = (*peaks["gflops"].values(), peaks["read_gbps"], *peaks["cached_gbps"].values())
    assert len(peaks["cached_gbps"]) == 4
    assert min(rates) > 0
    (row,) = data["rows"]
    assert (row["case"], row["threads"]) == ("attn_h2_s24_d16_f32", 1)
    assert row["flops"] == 4 * 2 * 16 * 24 * 16
    assert row["bytes"] == 4 * 2 * 16 * (16 + 24 + 24 + 16)
    assert row["limited_by"] in ("compute", "memory")
    assert row["unit"] in ("GFLOP/s", "GB/s")
    assert row["rate"] > 0
    assert row["share_of_limit"] > 0
    assert (row["op"], row["provenance"]) == ("iree_linalg_ext.attention", "heuristic")
    assert row["bar"] == (0.85 if row["limited_by"] == "compute" else 0.8)
    assert row["heuristic"] is None
    timed = [peer for peer in row["peers"] if peer["status"] == "timed"]
    fastest = min(timed, key=lambda peer: peer["speedup"]["median"], default={"name": None})
    assert row["fastest"] == fastest["name"]  # no peer is timed where none is installed
    (summary,) = data["summary"]
    assert (summary["threads"], summary["cases"]) == (1, min(1, len(timed)))
    assert summary["untimed"] == []
    assert (summary["geometric_mean"] or 0.0) > 0 or not timed
    ours = row["ours"]
    assert (ours["name"], ours["status"], ours["speedup"]) == ("tvm_iree_ext", "timed", None)
    assert 0 < ours["seconds"]["low"] <= ours["seconds"]["median"] <= ours["seconds"]["high"]
    assert ours["calls"] >= 2
    assert [peer["name"] for peer in row["peers"]] == ["NumPy", "PyTorch", "IREE"]


@pytest.mark.parametrize(
    ("gflops", "limited_by", "unit"), [(1.0, "compute", "GFLOP/s"), (1e6, "memory", "GB/s")]
)
def test_the_limit_is_the_larger_of_compute_and_memory(tiny, monkeypatch, gflops, limited_by, unit):
    peaks = [Peaks(1, {"float32": gflops}, 10.0)]
    monkeypatch.setattr(suites, "measure_peaks", lambda _: peaks)
    (row,) = run_one(tiny).rows
    assert (row.limited_by, row.unit) == (limited_by, unit)
    compute, memory = tiny.flops / gflops / 1e9, tiny.bytes / 10.0 / 1e9
    assert row.limit_seconds == max(compute, memory)
    assert row.share_of_limit == row.limit_seconds / row.ours.seconds.median
    work = tiny.flops if unit == "GFLOP/s" else tiny.bytes
    assert row.rate == work / row.ours.seconds.median / 1e9


def test_the_bandwidth_is_that_of_the_next_larger_array():
    peak = Peaks(1, {}, 10.0, {1 << 20: 80.0, 4 << 20: 40.0})
    sizes = (1, 1 << 20, (1 << 20) + 1, 4 << 20, 5 << 20)
    assert [peak.gbps(size) for size in sizes] == [80.0, 80.0, 40.0, 40.0, 10.0]
    assert Peaks(1, {}, 10.0).gbps(1) == 10.0


def test_narrow_types_may_be_computed_in_float32():
    peak = Peaks(1, {"float32": 100.0, "float64": 50.0, "bfloat16": 60.0, "int8": 400.0}, 10.0)
    rates = [peak.multiply_adds(t) for t in ("float32", "float64", "bfloat16", "int8", "float16")]
    assert rates == [100.0, 50.0, 100.0, 400.0, 100.0]


def test_a_tuned_kernel_is_timed_beside_the_heuristics(tiny, known_peaks, monkeypatch):
    def built(op, database=None):
        kernel = build(op)
        if database is None:
            manifest = dataclasses.replace(kernel.manifest, provenance="record exact")
            monkeypatch.setattr(kernel, "manifest", manifest)
        return kernel

    monkeypatch.setattr(compare.builder, "build", built)
    report = run_one(dataclasses.replace(tiny, peers=()))
    (row,) = report.rows
    assert row.provenance == "record exact"
    assert (row.ours.status, row.heuristic.status) == ("timed", "timed")
    assert row.heuristic.speedup is not None
    header, (cells,) = report.table()
    assert "(" in cells[header.index("heuristic ms")]
    assert "(" in cells[header.index("tuned ms")]


def row_of(case, threads, share, *ratios, op="x.matmul", limited_by="compute", status="timed"):
    """A row of ours at a share of its limit, of 1 s, and of peers A, B at ratios to ours."""
    seconds = Spread(1 / share, 1 / share, 1 / share)
    ours = Outcome("ours", status, seconds=seconds if status == "timed" else None)
    peers = [
        Outcome(name, "timed", seconds=Spread(r / share, 0, 0), speedup=Spread(r, r, r))
        for name, r in zip("AB", ratios, strict=False)
    ]
    return Row(case, op, threads, 10**9, 10**8, limited_by, 1.0, ours, peers=peers)


def test_the_fastest_peer_is_the_one_nearest_to_us_or_ahead():
    assert row_of("x", 1, 0.5, 3.0, 2.0).fastest.name == "B"
    assert row_of("x", 1, 0.5).fastest is None


def test_a_summary_has_the_mean_of_ratios_and_who_is_behind_or_below():
    rows = [
        row_of("a", 1, 0.9, 4.0, 8.0, op="tvm_iree_ext.contraction"),
        row_of("b", 1, 0.84, 0.25, 8.0, op="tvm_iree_ext.contraction"),
        row_of("c", 1, 0.79, op="iree_linalg_ext.scan", limited_by="memory"),
        row_of("d", 1, 0.1, 8.0, op="iree_linalg_ext.sort", limited_by="memory"),
        row_of("e", 1, 0.1, op="tvm_iree_ext.fft_transform"),
        row_of("f", 2, 1.0, 2.0, status="wrong"),
    ]
    one, two = bench.summaries(rows)
    assert one.cases == 3
    assert one.geometric_mean == pytest.approx(2.0)  # of 4, 1/4 and 8
    assert [row.case for row in one.behind] == ["b"]
    assert [row.case for row in one.below] == ["b", "c"]
    assert (two.threads, two.untimed) == (2, ("f",))
    text = "\n".join(bench.summary_lines([one]))
    assert "2.00 times as long as ours, the geometric mean of 3 cases; it is ahead in 1" in text
    assert "b 0.25x A" in text
    assert "b 84% of compute (bar 85%), c 79% of memory (bar 80%)" in text


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_roofline_is_drawn_with_and_without_cases_that_compute(known_peaks, tmp_path, suffix):
    pytest.importorskip("matplotlib", reason="draws the picture: scripts/setup dev bench")
    moving = dataclasses.replace(row_of("moved", 1, 0.5, 0.5), flops=0)
    machine = bench.Machine("a machine", 2, "", "", {})
    for rows in ([row_of("ours_ahead", 1, 0.5, 2.0), moving], [moving]):
        report = bench.Report("x", False, machine, suites.measure_peaks([1]), rows)
        path = tmp_path / f"roofline.{suffix}"
        bench.save_roofline(report, path)
        start = path.read_bytes()[:400]
        assert start.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in start
    with pytest.raises(ValueError, match="'doc' is none of"):
        bench.check_roofline(tmp_path / "roofline.doc")


def test_the_command_draws_and_refuses_before_it_measures(command, tmp_path):
    pytest.importorskip("matplotlib", reason="draws the picture: scripts/setup dev bench")
    picture = tmp_path / "roofline.svg"
    status, text = command("attention", "--quick", "--threads", 1, "--roofline", picture)
    assert status == 0
    assert f"written: {picture}" in text
    assert picture.exists()
    with pytest.raises(ExtError, match="bench: roofline x: 'no suffix' is none of"):
        command("attention", "--roofline", "x")


def test_the_command_times_odd_sizes(command, monkeypatch, tiny, tmp_path):
    twin = dataclasses.replace(attention_case(2, 17, 23, 15, "float32"), name="twin")
    monkeypatch.setattr(suites, "listed_pairs", lambda: ((tiny, twin),))
    monkeypatch.setattr(suites, "listed_cases", lambda: (tiny,))
    page = tmp_path / "odd.md"
    status, text = command("peers", "--odd", "--quick", "--threads", 1, "--markdown", page)
    assert status == ("above 1.25x" in text)
    assert f"| {tiny.name} | 1 | " in page.read_text()


@pytest.mark.parametrize(("gflops", "work"), [(100.0, 128 / 80), (1.0, 2.0)])
def test_odd_sizes_are_compared_by_their_work(monkeypatch, tiny, gflops, work):
    times = {tiny.name: [[1.0], [2.0]], "double": [[3.0], [6.0]]}
    monkeypatch.setattr("tvm_iree_ext.bench.odd.take_turns", lambda *_, **__: times)
    double = dataclasses.replace(attention_case(2, 16, 48, 16, "float32"), name="double")
    peaks = [Peaks(1, {"float32": gflops}, 10.0)]  # memory limits, then compute
    (found,) = bench.measure_odd((tiny, double), peaks, quick=True)
    assert found.relative.median == pytest.approx(3.0 / work)
    assert found.sizes.split()[:2] == ["1x2x16x16", "1x2x48x16"]
    assert not found.is_within
    wrong = dataclasses.replace(double, check=lambda _: lambda _: "all wrong")
    (found,) = bench.measure_odd((tiny, wrong), peaks, quick=True)
    assert not found.is_within
    assert "wrong: double: all wrong" in bench.odd_markdown([found])


def test_every_listed_case_has_a_twin_of_other_sizes():
    pairs = listed_pairs()
    assert [case.name for case, _ in pairs] == [c.name for c in bench.select_cases("peers")]
    assert len({case.name for case, _ in pairs}) == len(pairs) == 57
    for case, twin in pairs:
        listed, odd = (one.op.signature.operands for one in (case, twin))
        assert all(a.shape != b.shape for a, b in zip(listed, odd, strict=True) if a.shape)
        assert (twin.op.name, twin.name) == (case.op.name, f"{case.name}_odd")


@pytest.mark.parametrize("form", ["", "mask", "causal"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_ours_and_numpy_are_right_in_every_form(dtype, form):
    case = attention_case(3, 40, 40, 24, dtype, form)
    values = case.operands()
    check = case.check(values)
    got = build(case.op)(*(values[operand.name] for operand in case.op.signature.arguments))
    assert check(got) is None
    assert check(numpy_attention(values, form == "causal")()) is None


@pytest.mark.parametrize("form", ["", "mask", "causal"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_pytorch_is_right_in_every_form(dtype, form):
    pytest.importorskip("torch", reason="PyTorch is an optional peer: scripts/setup dev bench")
    case = attention_case(3, 40, 40, 24, dtype, form)
    values = case.operands()
    (peer,) = [peer for peer in case.peers if peer.library is TORCH]
    assert case.check(values)(peer.make(values)()) is None


def test_online_attention_is_right_and_so_is_numpy():
    case = online_case(2, 24, 16)
    values = case.operands()
    check = case.check(values)
    output, largest, total = build(case.op)(*values.values())
    assert check((output, largest, total)) is None
    assert check(numpy_online(values)()) is None
    assert "output" in check((output, largest, 2 * total))


def test_pytorchs_online_attention_is_right():
    pytest.importorskip("torch", reason="PyTorch is an optional peer: scripts/setup dev bench")
    case = online_case(2, 24, 16)
    values = case.operands()
    assert case.check(values)(torch_online(values)()) is None


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


def test_the_command_prints_growth(command, monkeypatch, tmp_path):
    monkeypatch.setattr("tvm_iree_ext.bench.growth.DOUBLINGS", 1)
    file = tmp_path / "growth.md"
    status, text = command(
        "growth", "--cases", "linalg_ext.scan", "--threads", 1, "--markdown", file
    )
    assert status == 0
    assert "exponent" in text
    assert "| iree_linalg_ext.scan |" in file.read_text()


def test_the_check_finds_what_is_wrong(tiny):
    values = tiny.operands()
    check = tiny.check(values)
    good = numpy_attention(values, False)()
    assert check(good) is None
    bad = good.copy()
    bad[0, -1, -1, -1] += 1e-3
    assert "output of the checked rows" in check(bad)
    bad[0, -1, -1, -1] = np.nan
    assert "nan" in check(bad)
    assert "has shape (1, 2, 16, 15)" in check(good[..., :15])


def test_a_peer_that_is_wrong_is_not_timed(tiny, known_peaks):
    library = Library("Wrong", "numpy", NUMPY.limit)
    called = []

    def make(values):
        def call():
            called.append(1)
            return np.zeros(values["query"].shape, np.float32)

        return call

    report = run_one(dataclasses.replace(tiny, peers=(Peer(library, make),)))
    found = outcomes(report)["Wrong"]
    assert found.status == "wrong"
    assert "expected" in found.reason
    assert found.seconds is None
    assert len(called) == 1  # for the check
    assert report.wrong == [f"{tiny.name}: Wrong: {found.reason}"]
    header, (cells,) = report.table()
    assert cells[header.index("Wrong")] == "wrong"
    assert cells[header.index("fastest peer")] == ""


def test_a_peer_that_is_not_installed_is_skipped_by_name(tiny, known_peaks, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    report = run_one(tiny)
    assert outcomes(report)["PyTorch"].status == "skipped"
    assert report.machine.versions["torch"] == "not installed"
    assert not report.wrong
    header, (cells,) = report.table()
    assert cells[header.index("PyTorch")] == "not installed"
    assert "scripts/setup dev bench" in report.markdown()


def test_numpy_without_threadpoolctl_is_timed_with_all_threads_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    monkeypatch.setattr(case_module.runtime, "available_processors", lambda: 4)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with NUMPY.limit(4):
        pass
    with pytest.raises(case_module.Skipped, match="needs threadpoolctl"):
        NUMPY.limit(1)


def test_refuses_more_threads_than_processors(tiny):
    processors = len(os.sched_getaffinity(0))
    for count in (0, processors + 1):
        with pytest.raises(ValueError, match=f"threads is {count}; .* 1 to {processors} proc"):
            run_one(tiny, threads=(count,))


def test_contenders_take_turns_and_each_begins_in_turn():
    log = []
    contenders = {
        name: bench.Contender(lambda name=name: log.append(name), Within(log, name))
        for name in "abc"
    }
    times = bench.take_turns(contenders, seconds=0.0, min_rounds=3)
    assert {name: len(rounds) for name, rounds in times.items()} == {"a": 3, "b": 3, "c": 3}
    turns = [entry[1] for entry in log if entry[0] == "<"]
    assert turns == [*"abc", *"bca", *"cab"]
    calls = [entry for entry in log if len(entry) == 1]
    timed = sum(len(one) for rounds in times.values() for one in rounds)
    assert len(calls) == timed + 9  # one of each turn is not counted


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


def test_cases_are_chosen_by_name():
    names = [case.name for case in bench.select_cases("attention", "h16_s2048_d128_f16")]
    stem = "attn_h16_s2048_d128_f16"
    assert names == [stem, f"{stem}_mask", f"{stem}_causal"]
    everything = bench.select_cases("attention")
    assert len(everything) == len({case.name for case in everything}) == 22
    quick = bench.select_cases("attention", quick=True)
    assert {case.name for case in everything} - {case.name for case in quick} == {
        case.name for case in everything if "_h16_" in case.name
    }


def test_refuses_cases_that_there_are_not():
    with pytest.raises(ValueError, match="no case has 'f8' in its name; there are attn_h8"):
        bench.select_cases("attention", "f8")
    with pytest.raises(ValueError, match="a quick run leaves out all of attn_h16"):
        bench.select_cases("attention", "h16", quick=True)
    with pytest.raises(ValueError, match="no suite 'sorting'; there are attention"):
        bench.select_cases("sorting")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.json"
    bench.write_whole(path, "first")
    with pytest.raises(UnicodeEncodeError):
        bench.write_whole(path, "\ud800")
    assert path.read_text() == "first"
    bench.write_whole(path, "second")
    assert path.read_text() == "second"
    assert [entry.name for entry in tmp_path.glob("*report*")] == ["report.json"]
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_costs_are_measured_in_fresh_processes():
    costs = measure_costs((1,), repeats=1)
    assert costs.memory[0].threads == 1
    numbers = [v for k, v in dataclasses.asdict(costs).items() if k != "memory"]
    assert all(math.isfinite(number) and number > 0 for number in numbers)


def test_memory_of_a_call_is_more_than_nothing_and_less_than_its_scores(tiny):
    case = attention_case(4, 512, 512, 64, "float32")
    took = extra_bytes(build(case.op).folder, 1)
    assert 0 <= took < 4 * 512 * 512 * 4


def test_a_process_that_fails_is_an_error(tmp_path):
    with pytest.raises(BuildError, match=r"cannot measure the memory of .*manifest"):
        extra_bytes(tmp_path, 1)


def test_markdown_has_both_tables(tiny, known_peaks):
    report = run_one(tiny)
    report.costs = Costs([Memory(2, 3 << 20)], *range(1, 11))
    lines = report.markdown().splitlines()
    assert any(line.startswith(f"| {tiny.name} | 1 | ") for line in lines)
    shape = "x".join(map(str, MEMORY_SHAPE))
    assert f"| memory of a call at {shape} f32, 2 threads | 1.50 MiB per thread |" in lines
    assert "A quick run: fewer cases, measured briefly." in lines


def test_a_report_warns_of_busy_neighbours(tiny, known_peaks):
    report = run_one(tiny)
    report.other_load = 0.5
    assert "Other processes took 50% of the processors" in report.markdown()
    report.other_load = 0.01
    assert "Other processes" not in report.markdown()


@pytest.fixture
def command(capsys, monkeypatch, tiny, known_peaks):
    """Runs ``bench`` with the tiny case for a suite; returns its status and what it prints."""
    monkeypatch.setitem(bench.SUITES, "attention", lambda: (tiny,))
    parser = argparse.ArgumentParser()
    add_bench(parser.add_subparsers(required=True))

    def run(*arguments):
        args = parser.parse_args(["bench", *map(str, arguments)])
        status = args.run(args)
        return status, capsys.readouterr().out

    return run


def test_the_command_prints_the_table_and_writes_the_files(command, tiny, tmp_path):
    files = tmp_path / "a.json", tmp_path / "a.md"
    status, text = command(
        "attention", "--quick", "--threads", 1, "--json", files[0], "--markdown", files[1]
    )
    assert status == 0
    assert "1/1 attn_h2_s24_d16_f32: time, 1 thread" in text
    assert "PyTorch" in text
    assert "multiply-adds float32" in text
    assert json.loads(files[0].read_text())["rows"][0]["case"] == tiny.name
    assert tiny.name in files[1].read_text()


def test_the_command_ends_with_1_where_something_is_wrong(command, monkeypatch, tiny):
    wrong = dataclasses.replace(tiny, check=lambda _: lambda _: "all wrong")
    monkeypatch.setitem(bench.SUITES, "attention", lambda: (wrong,))
    status, text = command("attention", "--quick", "--threads", 1)
    assert status == 1
    assert f"wrong: {tiny.name}: tvm_iree_ext: all wrong" in text


def test_the_page_has_commands_that_are_taken(root):
    parser = argparse.ArgumentParser()
    add_bench(parser.add_subparsers(required=True))
    page = (root / "docs" / "performance.md").read_text()
    lines = re.findall(r"^scripts/(bench .*?)\s*(?:#.*)?$", page, re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        parser.parse_args(shlex.split(line))


def test_the_command_refuses_in_one_line(command):
    with pytest.raises(ExtError, match="bench: no suite 'sorting'; there are attention"):
        command("sorting")
    with pytest.raises(ExtError, match="bench: the number of threads is 99"):
        command("attention", "--threads", 99)
    with pytest.raises(ExtError, match="bench: --odd is for the suite peers, not attention"):
        command("attention", "--odd")
    with pytest.raises(SystemExit):
        command("attention", "--threads", "two")
