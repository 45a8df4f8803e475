"""Probes of what a chip reaches: what they say they compute is what they compute."""

import json
import re
from math import prod

import numpy as np
import pytest

from tvm_iree_ext.codegen.gpu.cuda import assemble, find_tool
from tvm_iree_ext.emulator.runs.emulated_devices import emulated_driver
from tvm_iree_ext.gpu_day.packed_probes import packed_probe, probe_tasks
from tvm_iree_ext.gpu_day.probe_ptx import probes
from tvm_iree_ext.on_gpu.resident_call import ResidentCall
from tvm_iree_ext.runtime.launch.launcher import Kernels

PRODUCT = re.compile(r"(wgmma\.mma_async|mma)\.sync\.aligned\.m(\d+)n(\d+)k(\d+)")
NAMES = [(arch, name) for arch in ("sm_80", "sm_90a") for name in probes(arch)]


@pytest.mark.parametrize(("arch", "name"), NAMES, ids=[f"{arch} {name}" for arch, name in NAMES])
def test_operations_are_those_of_the_loop(arch, name):
    probe = probes(arch)[name]
    loop = probe.ptx.partition("rounds:")[2].partition("bra rounds")[0]
    found = PRODUCT.findall(loop)
    lanes = {"wgmma.mma_async": 128, "mma": 32}
    count = sum(prod(map(int, sizes)) * probe.lanes // lanes[kind] for kind, *sizes in found)
    count += loop.count("fma.rn") * probe.lanes
    assert probe.operations == 2 * count
    assert (arch == "sm_90a") == ("wgmma" in loop) or name in ("float32", "float64")


@pytest.mark.skipif(not find_tool("ptxas"), reason="no ptxas")
def test_a_probe_is_an_artifact_that_is_launched(tmp_path):
    tasks = list(probe_tasks(["cuda:sm_90a", "rocm:gfx942"], tmp_path))
    assert [one.dtype for one in tasks if one.target == "rocm:gfx942"] == ["copy"]
    (task,) = (one for one in tasks if (one.dtype, one.target) == ("float16", "cuda:sm_90a"))
    assert packed_probe(task).problem == ""
    folder = tmp_path / task.folder.rpartition("/")[2]
    case = json.loads((folder / "case.json").read_text())
    assert case["rounds"] * case["operations"] * case["workgroups"] > 4e9
    (folder / "kernel.cubin").unlink()  # PTX is emulated
    probe = probes("sm_90a")["float16"]
    (folder / "kernel.ptx").write_text(probe.ptx)
    kernels = Kernels(folder, library=emulated_driver("cuda", "sm_90a", inputs_stay=False))
    results = []
    for rounds in (1, 2):
        result = np.zeros(2 * probe.lanes, np.uint32)
        values = {"result": result, "rounds": rounds, "cores": 2}
        with kernels.memory() as allocate:
            call = ResidentCall(kernels, values, allocate)
            call()
            call.read("result", result)
        results.append(result.view(np.float32))
    once, twice = results
    assert np.isfinite(once).all()
    assert len(np.unique(once[: probe.lanes])) == probe.lanes  # random numbers, not zeros
    np.testing.assert_array_equal(once[: probe.lanes], once[probe.lanes :])
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-4)


@pytest.mark.skipif(not find_tool("ptxas"), reason="no ptxas")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_probes_are_assembled_without_spills(arch):
    for probe in probes(arch).values():
        usage = assemble(probe.ptx, arch).usage["probe"]
        assert usage["stack_bytes"] == usage["spill_stores"] == 0
        assert usage["registers"] * probe.lanes * probe.workgroups <= 65536
