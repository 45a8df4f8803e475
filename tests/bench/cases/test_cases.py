"""The cases: that each is checked before it is timed, how they are chosen, and their odd twins."""

import dataclasses

import pytest

from tvm_iree_ext import bench
from tvm_iree_ext.bench.base.bench_case import TORCH
from tvm_iree_ext.bench.cases.attention import (
    attention_case,
    numpy_attention,
    numpy_online,
    online_case,
    torch_online,
)
from tvm_iree_ext.bench.cases.listed import listed_pairs
from tvm_iree_ext.bench.measure.peaks import Peaks
from tvm_iree_ext.building.kernel_build import build


@pytest.mark.costly
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


def test_every_listed_case_has_a_twin_of_other_sizes():
    pairs = listed_pairs()
    assert [case.name for case, _ in pairs] == [c.name for c in bench.select_cases("peers")]
    assert len({case.name for case, _ in pairs}) == len(pairs) == 58
    for case, twin in pairs:
        listed, odd = (one.op.signature.operands for one in (case, twin))
        assert all(a.shape != b.shape for a, b in zip(listed, odd, strict=True) if a.shape)
        assert (twin.op.name, twin.name) == (case.op.name, f"{case.name}_odd")


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
