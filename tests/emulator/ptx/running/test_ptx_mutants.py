"""PTX made wrong, one change at a time: its results are wrong then, or something is found.

Some changes change nothing: a barrier beside another, a guard that no operand reaches, rows of
padding.  How many of a kind may be so is said for each.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.emulator.driver import EmulatedDriver
from tvm_iree_ext.emulator.ptx.running.launch import load_ptx
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.targets.names import make_target

pytestmark = pytest.mark.skipif(
    bool(cuda.nvrtc_obstacle()), reason=f"PTX is made by NVRTC: {cuda.nvrtc_obstacle()}"
)
_MOST = 5  # mutants of a kind

WARPGROUPS = {
    "mma_kind": "NV_WGMMA_F32_64x64x16_F16", "workgroup_tile": {"m": 64, "n": 64},
    "subgroups": {"m": 4, "n": 1}, "stages": 2,
}  # fmt: skip


def product():
    return ops.matmul((40, 136), (136, 48), dtype="float16"), "sm_80", None


def warpgroup_product():
    target, rule = make_target("cuda:sm_90a"), GpuContraction()
    large = ops.matmul((2048, 256), (256, 2048), dtype="float16")
    config = rule.heuristic(large, target)
    op = ops.matmul((70, 200), (200, 48), dtype="float16")
    return op, "sm_90a", replace(config, **WARPGROUPS, algorithm="warpgroup_tma")


KERNELS = {"product": product, "warpgroup product": warpgroup_product}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Folders of the kernels, each built once, and their results."""
    made = {}

    def kernel(name):
        if name not in made:
            op, chip, config = KERNELS[name]()
            folder = tmp_path_factory.mktemp("kernel") / "kernel"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cuda, "find_tool", lambda name: None)  # no cubin: it is not executed
                build(op, f"cuda:{chip}", config, folder=folder)
            text = (folder / "kernel.ptx").read_text()
            made[name] = folder, chip, text, results(folder, chip, text, 0)
        return made[name]

    return kernel


def results(folder, chip, text, order):
    """What a kernel gives, of operands that are small integers."""
    image = text.encode()
    driver = EmulatedDriver(
        "cuda", chip, lambda _image, device: load_ptx(image, device), seed=order, order=order
    )
    called = Kernels(folder, library=driver)
    rng = np.random.default_rng(0)
    arrays = []
    for one in called.plan["parameters"]:
        values = rng.integers(1, 8, one["shape"]) * rng.choice([-1, 1], one["shape"])
        arrays.append(values.astype(one["dtype"]))
    called(*arrays)
    return arrays[-1]


def is_caught(kernel, text):
    """Whether a changed kernel is found to be wrong, in one of two orders."""
    folder, chip, _, want = kernel
    for order in (0, 1):
        try:
            got = results(folder, chip, text, order)
        except EmulationError:
            return True
        if not np.array_equal(got, want):
            return True
    return False


def without(line):
    return ""


def with_less(line):
    return re.sub(r"(\d+);", lambda found: f"{int(found[1]) + 1};", line)


def not_waiting(line):
    return re.sub(r".*b64 (\w+), .*", r"setp.eq.u32 \1, 0, 0;", line)


def moved(line):
    """An access a place further on."""
    bits = int(re.search(r"\.[a-z](8|16|32|64)\b", line)[1])
    size = bits // 8 * (4 if ".v4" in line else 2 if ".v2" in line else 1)
    change = lambda found: f"[{found[1]}+{int(found[2] or 0) + size}]"  # noqa: E731
    return re.sub(r"\[(%rd?\d+)(?:\+(-?\d+))?\]", change, line)


def transposed(line):
    """Matrices the other way round."""
    return line.replace(".trans", "") if ".trans" in line else line.replace(".x", ".trans.x")


def exchanged(line):
    """A product's registers of A in another order."""
    return re.sub(r"(\}, \{)(%\w+)(, )(%\w+)", r"\1\4\3\2", line, count=1)


# Kind -> which lines, what becomes of them, and which part of them is caught at least.
CHANGES = {
    "a wait dropped": (r"^\s*(cp\.async|wgmma)\.wait", without, 0.5),
    "a wait for less": (r"^\s*cp\.async\.wait_group\s+0", with_less, 1.0),
    "a commit dropped": (r"^\s*(cp\.async|wgmma)\.commit", without, 0.5),
    "a barrier dropped": (r"^\s*bar\.sync", without, 0.3),
    "a phase not waited for": (r"^\s*mbarrier\.try_wait", not_waiting, 0.5),
    "bytes that are not expected": (r"arrive\.expect_tx", lambda a: a.replace(".expect_tx", ""), 1),
    "an offset of shared memory": (r"^\s*(ld|st)\.shared.*\[%rd?\d+", moved, 0.8),
    "an offset of global memory": (r"^\s*(ld|st)\.global.*\[%rd?\d+", moved, 0.8),
    "matrices transposed": (r"^\s*ldmatrix", transposed, 0.8),
    "registers exchanged": (r"^\s*mma\.sync", exchanged, 0.8),
    "a store without its guard": (r"^\s*setp\.(lt|gt|ge|le)", lambda a: re.sub(
        r"setp\.(lt|gt|ge|le)\.", lambda m: "setp." + {"lt": "ge", "ge": "lt", "gt": "le",
        "le": "gt"}[m[1]] + ".", a), 0.8),
}  # fmt: skip


ONE_ALONE = {
    "product": ("a wait for less", "matrices transposed", "registers exchanged"),
    "warpgroup product": (
        "a phase not waited for", "bytes that are not expected", "an offset of shared memory",
    ),
}  # fmt: skip
PLACES = [
    (name, change)
    for name in KERNELS
    for change in CHANGES
    if all(change not in own for other, own in ONE_ALONE.items() if other != name)
]


@pytest.mark.costly
@pytest.mark.parametrize(("name", "change"), PLACES)
def test_a_change_is_caught(kernels, name, change):
    kernel = kernels(name)
    pattern, make, least = CHANGES[change]
    lines = kernel[2].splitlines()
    places = [n for n, line in enumerate(lines) if re.search(pattern, line) and make(line) != line]
    assert places
    chosen = [places[n * len(places) // _MOST] for n in range(_MOST)]
    chosen = list(dict.fromkeys(chosen))
    caught = [
        is_caught(kernel, "\n".join([*lines[:n], make(lines[n]), *lines[n + 1 :]])) for n in chosen
    ]
    shown = [lines[n] for n, one in zip(chosen, caught, strict=True) if not one]
    assert sum(caught) >= least * len(chosen), shown
