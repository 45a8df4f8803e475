"""Attention in bfloat16 by the instruction that multiplies tiles (AMX)."""

import re
import subprocess
import sys
from dataclasses import replace

import agreement
import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.runtime.machine import cpu_flags
from tvm_iree_ext.schedules.cpu.attention.attention_rule import CpuAttention
from tvm_iree_ext.targets.names import make_target

RULE = CpuAttention()
RNG = np.random.default_rng(9)
BF16 = numpy_dtype("bfloat16")
FEATURES = ["+amx-tile", "+amx-bf16"]
TILES = make_target({"kind": "llvm", "mcpu": "cooperlake", "mattr": FEATURES, "num-cores": 2})

runs = pytest.mark.skipif(
    not {"avx512_bf16", "amx_bf16"} <= cpu_flags(),
    reason="this CPU has no AMX for bfloat16, or the system withholds it",
)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(BF16)


def arrays(rows, keys, width=16, columns=16):
    return numbers(1, 2, rows, width), numbers(1, 2, keys, width), numbers(1, 2, keys, columns)


def check(op, *arguments, kernel=None, **changes):
    """Run a kernel of this form and compare with the reference; returns its results."""
    kernel = kernel or build(op, TILES, config=replace(RULE.heuristic(op, TILES), **changes))
    assert kernel.config.algorithm == "tiles"
    return agreement.check(op, *arguments, kernel=kernel)


# Of keys a tile of them, pairs, tiles of 32 and 256, and one more or less; of k1 and n no tile.
@runs
def test_one_kernel_serves_every_length():
    keys, values = ("batch", 2, "keys", 34), ("batch", 2, "keys", 17)
    op = ops.attention(("batch", 2, "rows", 34), keys, values, dtype="bfloat16", scale="operand")
    kernel = build(op, TILES)
    for batch, rows, count, scale in (
        (2, 1, 1, 0.5),
        (1, 33, 31, -1.0),
        (1, 32, 256, 0.25),
        (1, 70, 257, 0.1),
        (2, 513, 66, 0.1),
    ):
        key, value = numbers(batch, 2, count, 34), numbers(batch, 2, count, 17)
        check(op, numbers(batch, 2, rows, 34), key, value, scale, kernel=kernel)


@pytest.mark.costly
@runs
@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        ((64, 512, 64, 64), {}),
        ((33, 71, 3, 1), {"register_tile": {"k2": 1, "n": 1, "m": 3}, "workgroup_tile": {"m": 48}}),
        (
            (50, 40, 131, 72),
            {
                "register_tile": {"k2": 3, "n": 3, "m": 1},
                "workgroup_tile": {"m": 16},
                "reduction_tile": {"k2": 96},
                "parallel": False,
            },
        ),
    ],
)
def test_shapes_and_configs(shape, changes):
    query, key, value = arrays(*shape)
    check(ops.attention(query, key, value), query, key, value, **changes)


@runs
def test_a_band_reads_no_key_outside():
    query, key, value = arrays(63, 200)
    op = ops.attention(query, key, value, window=(5, 8))
    check(op, query, key, value)
    key[:, :, 72:], value[:, :, 72:] = np.nan, np.nan
    assert np.isfinite(build(op, TILES)(query, key, value).astype(np.float32)).all()


@runs
def test_masks_leave_rows_without_keys():
    query, key, value = arrays(70, 99)
    mask = RNG.random((70, 99)) < 0.8
    mask[7] = False
    op = ops.attention(query, key, value, mask=ops.TensorType(mask.shape, "bool"))
    (got,) = check(op, query, key, value, mask)
    assert np.isnan(got[0, :, 7].astype(np.float32)).all()


@runs
def test_grouped_query_and_transposed_value():
    query, key, value = numbers(2, 3, 40, 16), numbers(2, 33, 16), numbers(2, 24, 33)
    op = ops.attention(
        query,
        key,
        value,
        indexing_maps=[
            f"(b, g, m, k, l, n) -> ({dims})"
            for dims in ("b, g, m, l", "b, k, l", "b, n, k", "", "b, g, m, n")
        ],
    )
    check(op, query, key, value)


@runs
def test_online_steps_a_region_and_a_float_mask():
    query, key, value = arrays(40, 61)
    state = tuple(RNG.random(shape).astype("float32") for shape in ((1, 2, 40, 16), (1, 2, 40)))
    mask = numbers(40, 61)
    op = ops.online_attention(
        query, key, value, region="2 * tanh(arg0)", mask=ops.TensorType(mask.shape, "bfloat16")
    )
    check(op, query, key, value, mask, *state, state[1])


@runs
def test_special_numbers_stay_in_their_row():
    query, key, value = arrays(40, 71)
    query[0, 0, 1, 3], query[0, 1, 7, 0] = np.nan, np.inf
    (got,) = check(ops.attention(query, key, value), query, key, value)
    assert np.isnan(got[0, 0, 1].astype(np.float32)).all()
    assert np.isnan(got[0, 1, 7].astype(np.float32)).all()
    assert np.isfinite(np.delete(got, (1, 7), 2).astype(np.float32)).all()


SHAPE = (1, 8, 1024, 64)
OP = ops.attention(SHAPE, SHAPE, SHAPE, dtype="bfloat16")


def test_tiles_are_configured_multiplied_and_released_by_each_task():
    cpu_pipeline.register()
    target = make_target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})
    config = RULE.heuristic(OP, target)
    assert config.algorithm == "tiles"
    library = tvm.compile(
        RULE.lower(OP, target, config), target, tir_pipeline=cpu_pipeline.CPU_PIPELINE
    )
    text = library.mod.inspect_source("asm")
    assert text.count("tdpbf16ps") >= 8
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1
    assert "syscall" in text
    assert "vdpbf16ps" not in text
    assert not re.search(r"call\w*\s+tvm_iree_ext", text)


@pytest.mark.parametrize(
    ("cpu", "features", "forms"),
    [
        ("sapphirerapids", [], ["tiles", "lanes"]),
        ("sapphirerapids", ["-amx-bf16"], ["lanes"]),
        ("cooperlake", FEATURES, ["tiles", "pairs", "lanes"]),
        ("cooperlake", [], ["pairs", "lanes"]),
    ],
)
def test_the_fastest_form_of_a_cpu_is_taken(cpu, features, forms):
    target = make_target({"kind": "llvm", "mcpu": cpu, "mattr": features, "num-cores": 2})
    assert RULE.heuristic(OP, target).algorithm == forms[0]
    names = [one.base.algorithm for one in RULE.space(OP, target).forms]
    assert sorted(names) == sorted(forms)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"promote": ("value",)}, r"promote is \('value',\); expected key and value in tiles"),
        ({"vector_lanes": 8}, "vector_lanes is 8; expected a power of two from 16 up to 16"),
        (
            {"reduction_tile": {"k2": 48}},
            r"reduction_tile\['k2'\] is 48; expected a multiple of 32",
        ),
        (
            {"register_tile": {"k2": 2, "n": 3, "m": 2}},
            "3 by 2 tiles do not fit 8 registers of tiles",
        ),
    ],
)
def test_configs_that_do_not_fit(changes, message):
    with pytest.raises(ScheduleError, match=f"cpu.attention: {message}"):
        RULE.lower(OP, TILES, replace(RULE.heuristic(OP, TILES), **changes))


# A thread with a small stack for signals keeps Linux from making room for tiles.
REFUSED = """
import ctypes, sys
class Stack(ctypes.Structure):
    _fields_ = [("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(4096)
stack = Stack(ctypes.addressof(memory), 0, 4096)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
import ml_dtypes, numpy
from tvm_iree_ext.base import errors
from tvm_iree_ext.runtime import kernel, machine
try:
    kernel.load(sys.argv[1])
except errors.ArtifactError as error:
    print(error)
machine.lacking = lambda features: []
array = numpy.zeros((1, 1, 40, 32), ml_dtypes.bfloat16)
try:
    kernel.load(sys.argv[1])(array, array, array)
except errors.CallError as error:
    print(error)
"""


@runs
def test_a_process_without_leave_is_told_so(tmp_path):
    shape = (1, 1, 40, 32)
    build(ops.attention(shape, shape, shape, dtype="bfloat16"), TILES, folder=tmp_path / "kernel")
    command = [sys.executable, "-c", REFUSED, str(tmp_path / "kernel")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loading, calling = done.stdout.splitlines()
    assert "uses amx-tile, amx-bf16, which the system does not let this process use" in loading
    assert "the system does not let this process use them" in calling
