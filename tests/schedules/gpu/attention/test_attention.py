import re
from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.attention import run_reference, tolerance
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.attention.attention_planning import plan_attention
from tvm_iree_ext.schedules.gpu.attention.attention_products import Feed
from tvm_iree_ext.schedules.gpu.attention.attention_rule import GpuAttention
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import check_op

RULE = GpuAttention()
CHIPS = ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100", "rocm:gfx1201")


def simulated(op, target, extents=None, config=None, rounding=0.0):
    """The op's results on random operands, against the reference; no finding is allowed.

    ``rounding`` is of the operands, beyond what the op's tolerance has.
    """
    target = make_target(target)
    rng = np.random.default_rng(0)
    operands = {}
    for operand in op.signature.arguments:
        dtype = numpy_dtype(operand.dtype)
        shape = tuple((extents or {}).get(extent, extent) for extent in operand.shape)
        if operand.role == "scalar":
            operands[operand.name] = 0.3
        elif operand.dtype == "bool":
            operands[operand.name] = rng.random(shape) < 0.7
        else:
            operands[operand.name] = rng.standard_normal(shape).astype(dtype)
    if "sum_init" in operands:
        operands["sum_init"] = np.abs(operands["sum_init"])
    want = run_reference(op, operands)
    got = {
        operand.name: np.zeros(want[operand.name].shape, numpy_dtype(operand.dtype))
        for operand in op.signature.results
    }
    module = RULE.lower(op, target, config or RULE.heuristic(op, target))
    done = simulate_function(module[op.entry], target, {**operands, **got})
    assert [finding for one in done for finding in one.findings] == []
    allowed = tolerance(op, operands, want)
    for name, value in want.items():
        limits = allowed[name]
        np.testing.assert_allclose(
            got[name].astype(np.float64),
            value,
            limits.relative + rounding,
            limits.absolute + rounding,
        )
    return done


@pytest.mark.costly
@pytest.mark.parametrize("target", CHIPS)
def test_agrees_with_the_reference(target):
    shape = (1, 1, 80, 32)
    simulated(ops.attention(shape, shape, shape, dtype="float16", causal=True), target)


def test_extents_may_be_known_at_call_time():
    shape = ("batch", 2, "rows", 16)
    keys = ("batch", 1, "keys", 16)
    op = ops.attention(shape, keys, keys, dtype="float16", causal="lower_right")
    simulated(op, "rocm:gfx1201", extents={"batch": 1, "rows": 5, "keys": 70})


OPTIONS = {
    "odd extents, grouped heads": lambda: ops.attention(
        (1, 2, 17, 40), (1, 1, 70, 40), (1, 1, 70, 24), dtype="float16", causal="lower_right"
    ),
    "a window, and several heads in a row": lambda: ops.attention(
        (1, 20, 2, 16), (1, 50, 2, 16), (1, 50, 2, 16), dtype="bfloat16", layout="bshd",
        window=(7, 9),
    ),
    "a bool mask, scale at call time": lambda: ops.attention(
        (1, 1, 17, 16), (1, 1, 33, 16), (1, 1, 33, 16), dtype="float16", mask=(17, 33),
        scale="operand",
    ),
    "a mask in runs of two": lambda: ops.attention(
        (1, 1, 17, 16), (1, 1, 42, 16), (1, 1, 42, 16), dtype="float16", mask=(17, 42)
    ),
    "a mask in runs of eight": lambda: ops.attention(
        (1, 1, 17, 16), (1, 1, 40, 16), (1, 1, 40, 16), dtype="float16",
        mask=TensorType((17, 40), "bfloat16"),
    ),
    "a float mask and a region": lambda: ops.attention(
        (1, 1, 17, 16), (1, 1, 33, 16), (1, 1, 33, 16), dtype="float16",
        mask=TensorType((33,), "float32"), score_domain="log2",
        region="30 * tanh(arg0 / 30) + exp(-abs(d2 - d4))",
    ),
    "everything transposed": lambda: ops.attention(
        (2, 16, 24), (2, 16, 40), (2, 32, 40), dtype="float16",
        indexing_maps=[
            "(b,m,n,k,l)->(b,k,m)", "(b,m,n,k,l)->(b,k,l)", "(b,m,n,k,l)->(b,n,l)",
            "(b,m,n,k,l)->()", "(b,m,n,k,l)->(b,n,m)",
        ],
    ),
    "running state": lambda: ops.online_attention(
        (1, 2, 17, 16), (1, 2, 33, 16), (1, 2, 33, 16), dtype="float16", causal=True
    ),
    "float32": lambda: ops.attention((1, 1, 9, 12), (1, 1, 70, 12), (1, 1, 70, 20)),
    "float64": lambda: ops.attention(
        (1, 1, 9, 12), (1, 1, 35, 12), (1, 1, 35, 20), dtype="float64"
    ),
    "a region in float64": lambda: ops.attention(
        (1, 1, 9, 12), (1, 1, 35, 12), (1, 1, 35, 20), dtype="float64", region="8 * erf(arg0 / 8)"
    ),
    "three types": lambda: ops.attention(
        TensorType((1, 1, 9, 12), "float16"), TensorType((1, 1, 35, 12), "float32"),
        TensorType((1, 1, 35, 20), "bfloat16"),
    ),
    "wide heads": lambda: ops.attention(
        (1, 1, 16, 256), (1, 1, 32, 256), (1, 1, 32, 320), dtype="float16"
    ),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize(
    ("option", "target"),
    [(option, CHIPS[number % 3]) for number, option in enumerate(OPTIONS)],
)
def test_every_option_agrees_with_the_reference(option, target):
    simulated(OPTIONS[option](), target)


@pytest.mark.parametrize(
    ("target", "kind"),
    [("cuda:sm_80", "NV_MMA_SYNC_F32_16x8x8_TF32"), ("rocm:gfx942", "MFMA_F32_16x16x8_XF32")],
)
def test_floats_are_multiplied_with_fewer_digits_on_request(target, kind):
    op, made = ops.attention((1, 1, 9, 12), (1, 1, 37, 12), (1, 1, 37, 20)), make_target(target)
    config = replace(RULE.usual(op, made), mma_kind=kind, column_major=False)
    assert plan_attention(op, made, config).feed is Feed.REGISTERS
    simulated(op, target, config=config.lowering(), rounding=2.0**-8)


def test_rows_without_a_key_are_not_numbers():
    op = ops.attention((1, 1, 8, 16), (1, 1, 4, 16), (1, 1, 4, 16), dtype="float16", window=(2, 0))
    simulated(op, "rocm:gfx942")  # rows from 6 on see no key


@pytest.mark.parametrize(
    ("target", "feed"),
    [
        ("cuda:sm_80", Feed.REGISTERS),
        ("rocm:gfx942", Feed.REGISTERS),
        ("rocm:gfx950", Feed.REGISTERS),
        ("rocm:gfx1201", Feed.REGISTERS),
        ("rocm:gfx1100", Feed.SHUFFLE),
    ],
)
def test_weights_stay_in_registers_where_the_layouts_allow_it(target, feed):
    shape = (1, 1, 64, 64)
    op = ops.attention(shape, shape, shape, dtype="float16")
    target = make_target(target)
    assert plan_attention(op, target, RULE.usual(op, target)).feed is feed


def test_the_hot_loop_of_a_code_object_is_lean():
    shape = (1, 1, 256, 64)
    mask = TensorType((256, 256), "float16")
    op = ops.attention(shape, shape, shape, dtype="float16", mask=mask)
    target = make_target("rocm:gfx1201")
    code = compile_device(RULE.lower(op, target, RULE.heuristic(op, target)), target)
    (kernel,) = code.resources
    hot = code.instructions(kernel).hot_loop
    assert (code.resources[kernel].spills, code.resources[kernel].scratch_bytes) == (0, 0)
    assert hot.flops_per_instruction > 550  # of which the mask takes a fifth
    assert (hot.narrowest("shared"), hot.narrowest("global")) == (16, 16)
    assert "v_exp_f32" in code.assembly


def refusal(text, op, target="rocm:gfx1100"):
    assert re.search(text, RULE.applies(op, make_target(target)) or "")


def test_what_does_not_apply_says_why():
    shape = (1, 1, 64, 64)
    dynamic = ops.attention((1, 1, 64, "d"), (1, 1, 64, "d"), shape, dtype="float16", scale=1.0)
    refusal("k1 extent d is dynamic; it must be a number", dynamic)
    wide = (1, 1, 64, 8192)
    refusal("shared memory", ops.attention(wide, wide, wide, dtype="float16"))
    refusal("llvm is not a GPU target", ops.attention(shape, shape, shape), "llvm")


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_head_dims_may_be_known_at_call_time(target):
    types = [TensorType((1, 2, e, d), "float16") for e, d in ((9, "k1"), (20, "k1"), (20, "n"))]
    rng = np.random.default_rng(0)
    shapes = ((1, 2, 9, 12), (1, 2, 20, 12), (1, 2, 20, 7))
    operands = {
        name: rng.standard_normal(shape).astype("float16")
        for name, shape in zip(("query", "key", "value"), shapes, strict=True)
    }
    report = check_op(ops.attention(*types, scale=0.3), operands, target, simulate=True)
    assert report.status == "passed", report


def test_head_dims_beyond_shared_memory_have_a_kernel():
    shape = (1, 1, 2, 8192)
    op = ops.attention(shape, shape, shape, dtype="float16")
    assert choose(op, make_target("cuda:sm_80")).name == "gpu.attention_loops"


REFUSED = {
    "24 keys are no multiple of 32 and 16": {"reduction_tile": {"k2": 24}},
    "48 rows are no multiple of 2 subgroups of 32": {"workgroup_tile": {"m": 48, "n": 64}},
    r"subgroups\['m'\] is None; expected a number from 1": {"subgroups": {}},
    "splits is 0; expected a number from 1": {"splits": 0},
    "promote is .'key',.; expected query, or nothing": {"promote": ("key",)},
    "algorithm is 'lanes'; expected one of online_softmax, warpgroups": {"algorithm": "lanes"},
    "16x8x16_F16 on gfx942 does not multiply float16": {"mma_kind": "NV_MMA_SYNC_F32_16x8x16_F16"},
    "2048 keys take [0-9]+ bytes of shared memory": {"reduction_tile": {"k2": 2048}},
    "a lane needs some [0-9]+ registers": {"workgroup_tile": {"m": 512, "n": 64}},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_config_that_does_not_fit_is_refused(message):
    shape = (1, 1, 64, 64)
    op, target = ops.attention(shape, shape, shape, dtype="float16"), make_target("rocm:gfx942")
    config = replace(RULE.heuristic(op, target), **REFUSED[message])
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, target, config)


def test_exponentials_of_doubles_have_registers():
    """``ptxas`` spills with tiles of 32 keys."""
    shape = (1, 2, 100, 64)
    op, target = ops.online_attention(shape, shape, shape, dtype="float64"), make_target(CHIPS[0])
    config = RULE.usual(op, target)
    assert config.keys == 16
    with pytest.raises(ScheduleError, match="a lane needs some 256 registers for 2 x 8 rows"):
        plan_attention(op, target, replace(config, keys=32))


@pytest.mark.parametrize(
    ("target", "make"), [(CHIPS[0], ops.attention), (CHIPS[1], ops.online_attention)]
)
def test_few_rows_share_their_keys_among_workgroups(target, make):
    keys = (1, 1, 600, 16)
    op = make((1, 1, 2, 16), keys, keys, dtype="float16", causal="lower_right")
    assert RULE.heuristic(op, make_target(target)).splits > 1
    parts, merging = simulated(op, target)
    assert "barrier" in parts.counts
    assert "barrier" not in merging.counts


# The heuristic's tiles of a long sequence, one workgroup of them, and two steps of keys.
@pytest.mark.costly
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("target", ["rocm:gfx942", "rocm:gfx950", "rocm:gfx1100", "rocm:gfx1201"])
def test_main_loops_meet_in_no_bank(target, width):
    shape = (8, 16, 4096, width)
    large = ops.attention(shape, shape, shape, dtype="float16")
    config = RULE.heuristic(large, make_target(target))
    rows, keys = config.workgroup_tile["m"], 2 * config.reduction_tile["k2"]
    op = ops.attention(
        (1, 1, rows, width), (1, 1, keys, width), (1, 1, keys, width), dtype="float16"
    )
    (done,) = simulated(op, target, config=config)
    assert done.bank_conflicts == 0
