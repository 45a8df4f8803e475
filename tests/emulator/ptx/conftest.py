"""Kernels of a few lines of PTX, executed on arrays."""

import numpy as np
import pytest

from tvm_iree_ext.emulator.driver import EmulatedDevice, EmulatedLaunch
from tvm_iree_ext.emulator.ptx.running.launch import load_ptx
from tvm_iree_ext.targets.gpu import gpu_chip

_REGISTERS = """
.reg .pred %p<20>; .reg .b16 %rs<50>; .reg .b32 %r<100>; .reg .b64 %rd<50>;
.reg .f32 %f<100>; .reg .f64 %fd<50>;
"""


def module_text(body, arguments, *, chip="sm_90a", shared="", functions=""):
    """A module with the kernel ``k``: its pointers are in ``%rd0`` and up, the lane in ``%r0``."""
    parameters, loads = [], []
    for n, one in enumerate(arguments):
        if isinstance(one, bytes):
            parameters.append(f".param .align 64 .b8 k_param_{n}[{len(one)}]")
            loads.append(f"mov.b64 %rd{n}, k_param_{n};")
        else:
            parameters.append(f".param .u64 k_param_{n}")
            loads.append(f"ld.param.u64 %rd{n}, [k_param_{n}];")
    return f""".version 9.0
.target {chip}
.address_size 64
{functions}
.visible .entry k({", ".join(parameters)}) .maxntid 1024, 1, 1 {{
{_REGISTERS}
{shared}
{" ".join(loads)}
mov.u32 %r0, %tid.x;
{body}
ret;
}}
"""


@pytest.fixture
def run_ptx():
    """``run_ptx(body, *arrays, lanes=32)``: the arrays as the kernel leaves them.

    ``maps`` make tensor maps of the arrays' addresses, which are parameters behind these.
    """

    def run(
        body, *arrays, lanes=32, groups=1, order=0, dynamic=0, chip="sm_90a", shared="",
        functions="", check=True, maps=(),
    ):  # fmt: skip
        most = gpu_chip(chip).shared_memory_bytes
        device = EmulatedDevice("cuda", chip, seed=order, order=order, shared_bytes=most)
        memory = device.memory
        addresses = []
        for array in arrays:
            addresses.append(memory.allocate(array.nbytes))
            memory.write(addresses[-1], np.ascontiguousarray(array).tobytes())
        arguments = [address.to_bytes(8, "little") for address in addresses]
        arguments += [make(*addresses) for make in maps]
        places = [*addresses, *arguments[len(addresses) :]]
        text = module_text(body, places, chip=chip, shared=shared, functions=functions)
        kernel = load_ptx(text.encode(), device)["k"]
        launch = EmulatedLaunch(device, "k", (groups, 1, 1), (lanes, 1, 1), dynamic, arguments)
        kernel.launch(launch)
        if check:
            device.memory.findings.check("k")
        found = [
            np.frombuffer(device.memory.read(address, array.nbytes), array.dtype)
            .reshape(array.shape)
            .copy()
            for address, array in zip(addresses, arrays, strict=True)
        ]
        return found if check else (found, device.memory.findings.all())

    return run


@pytest.fixture
def each_lane(run_ptx):
    """``each_lane(line, *columns, gives=dtype)``: a line of PTX on values, one for each lane.

    It reads ``%a``, ``%b`` and ``%c``, registers of the columns' types, and writes ``%d``.
    """

    def run(line, *columns, gives):
        names = {2: ("u16", "b16"), 4: ("u32", "b32"), 8: ("u64", "b64")}
        count = len(columns[0])
        result = np.zeros(count, gives)
        body = ["mov.u32 %r1, %ctaid.x;", "mad.lo.u32 %r2, %r1, 32, %r0;"]
        for place, (name, column) in enumerate(zip("abc", columns, strict=False)):
            load_type, kind = names[column.dtype.itemsize]
            body.append(f".reg .{kind} %{name};")
            body.append(f"mad.wide.u32 %rd20, %r2, {column.dtype.itemsize}, %rd{place};")
            body.append(f"ld.global.{load_type} %{name}, [%rd20];")
        size = result.dtype.itemsize
        kind = names[size][1]
        body.append(f".reg .{kind} %d;")
        body.append(line)
        body.append(f"mad.wide.u32 %rd20, %r2, {size}, %rd{len(columns)};")
        body.append(f"st.global.{names[size][0]} [%rd20], %d;")
        assert count % 32 == 0
        return run_ptx("\n".join(body), *columns, result, groups=count // 32)[-1]

    return run
