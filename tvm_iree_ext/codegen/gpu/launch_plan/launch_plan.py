"""The host side of GPU kernels as data: what is allocated and launched, in which order.

A launch plan is JSON, so that a deployment follows it without TVM:

    {"parameters": [{"name": "x", "dtype": "float16", "shape": ["n", 64]},
                    {"name": "scale", "dtype": "float32"}, ...],       without a shape: a number
     "symbols": ["n"],                                      extents that the arrays' shapes give
     "steps": [{"let": "tiles", "value": "(n + 7) // 8"},
               {"allocate": "partial", "bytes": "tiles * 256"},
               {"launch": "kernel", "grid": ["tiles", 1, 1], "block": [64, 4, 1], "shared": 0,
                "arguments": [{"array": "x"}, {"array": "partial"},
                              {"value": "scale", "dtype": "float32"}]},
               {"launch": "of_pairs", ..., "cluster": [2, 1, 1]},      workgroups that run together
               {"if": "n > 1", "then": [...], "else": [...]},
               {"for": "i", "from": 0, "count": "n", "steps": [...]},
               {"tensor_map": "x_map", "array": "x", ...}]}    CUDA's, which a kernel takes by value

Programs whose loops and branches hang on what kernels compute have further steps, with which the
host waits for the GPU or works on its memory:

    {"read": "count", "array": "x", "dtype": "int64", "at": 0}     a number for a name
    {"write": "x", "dtype": "int64", "value": "turn"}              a number into an array
    {"copy": "y", "array": "x", "bytes": "n * 4"}                  an array into another's memory
    {"while": "turn < count", "before": [...], "steps": [...]}     ``before`` each look, steps after
    {"require": "count > 0", "message": "..."}                     else the call fails

Where only a run tells the extents of results, they are no parameters; the plan says how they are
named, and how long they are, when all is done:

    "results": [{"name": "state", "dtype": "float32", "shape": ["extent", 4]}]

A name that is given a number again has that from then on, and memory that is allocated again may
be the same.

Numbers are integers, or texts in Python's arithmetic over names: ``+ - * / // % & | ^ << >>``,
comparisons, ``and or not``, ``a if c else b``, ``min``, ``max``, ``int`` and ``float``.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from tvm import DataType, ir, tirx

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.launch_plan.clusters import AXES, cluster_of
from tvm_iree_ext.codegen.gpu.launch_plan.plan_expressions import Names, called

Plan = dict[str, Any]

_AXES = "xyz"
SHARED_MEMORY = "tirx.use_dyn_shared_memory"
"""The launch parameter that asks for shared memory; the last of them."""


def launch_plan(host: tirx.PrimFunc, kernels: Mapping[str, tirx.PrimFunc]) -> Plan:
    """The plan of a function that launches kernels, its parameters still buffers.

    Raises:
        BuildError: for what a plan cannot say: another statement or expression on the host, an
            extent that no array's shape gives, a launch parameter that drivers do not take.
    """
    return _HostPlanner(kernels).plan(host)


def host_plans(hosts: ir.IRModule, kernels: ir.IRModule) -> dict[str, Plan]:
    """How each function launches kernels, by name.

    Raises:
        BuildError: for one that does more than a plan can say.
    """
    by_name = {str(name.name_hint): kernel for name, kernel in kernels.functions.items()}
    return {
        str(name.name_hint): launch_plan(host, by_name) for name, host in hosts.functions.items()
    }


class _HostPlanner(Names):
    def __init__(self, kernels: Mapping[str, tirx.PrimFunc]) -> None:
        super().__init__()
        self.kernels = kernels
        self.roots: dict[Any, Any] = {}  # an alias's buffer

    def plan(self, host: tirx.PrimFunc) -> Plan:
        for parameter in host.params:
            self.name(parameter)
        symbols = []
        for parameter in host.params:
            if isinstance(parameter.ty, tirx.BufferType):
                for extent in parameter.shape:
                    if isinstance(extent, ir.Var) and extent not in self.names:
                        symbols.append(self.name(extent))
        parameters = [self.parameter(parameter) for parameter in host.params]
        return {"parameters": parameters, "symbols": symbols, "steps": self.steps(host.body)}

    def parameter(self, parameter: Any) -> dict[str, Any]:
        name = self.names[parameter]
        if not isinstance(parameter.ty, tirx.BufferType):
            return {"name": name, "dtype": str(parameter.ty.dtype)}
        shape = [self.number(extent) for extent in parameter.shape]
        return {"name": name, "dtype": str(parameter.dtype), "shape": shape}

    def steps(self, node: Any) -> list[dict[str, Any]]:
        kind = type(node).__name__
        if kind == "SeqStmt":
            return [step for part in node.seq for step in self.steps(part)]
        if kind == "Bind" and called(node.value) == "tvm_stack_alloca":
            self.name(node.var)  # of a tensor map, which is encoded later
            return []
        if kind == "Bind":
            value = self.number(node.value)
            return [{"let": self.name(node.var), "value": value}]
        if kind == "AttrStmt":
            return self.steps(node.body)
        if kind == "AllocBuffer":
            return [self.allocation(node.buffer)]
        if kind == "DeclBuffer":
            base = _pointed_to(node.data)
            self.roots[node.buffer] = self.roots.get(base, base)
            return []
        if kind == "For":
            start, count = self.number(node.min), self.number(node.extent)
            variable = self.name(node.loop_var)
            return [
                {"for": variable, "from": start, "count": count, "steps": self.steps(node.body)}
            ]
        if kind == "IfThenElse":
            otherwise = [] if node.else_case is None else self.steps(node.else_case)
            condition = self.number(node.condition)
            return [{"if": condition, "then": self.steps(node.then_case), "else": otherwise}]
        if kind == "Evaluate" and isinstance(node.value, tirx.IntImm):
            return []
        if kind == "Evaluate" and called(node.value) == "buffer_data":
            return []  # only says that the memory is still in use
        if kind == "Evaluate" and called(node.value) == "call_ffi_kernel":
            return [self.launch(node.value)]
        if kind == "Evaluate" and called(node.value) == "tensormap_encode_tiled":
            return [self.tensor_map(node.value)]
        raise BuildError(f"a launch plan has no {kind}: {_line(node)}")

    def allocation(self, buffer: Any) -> dict[str, Any]:
        dtype = DataType(str(buffer.dtype))
        known = [int(extent) for extent in buffer.shape if isinstance(extent, tirx.IntImm)]
        size: Any = tirx.const(prod(known) * -(-dtype.bits * dtype.lanes // 8), "int64")
        for extent in buffer.shape:
            if not isinstance(extent, tirx.IntImm):
                size = tirx.Cast("int64", extent) * size
        return {"allocate": self.name(buffer), "bytes": self.number(size)}

    def tensor_map(self, call: Any) -> dict[str, Any]:
        """A tensor map for cuTensorMapEncodeTiled: the fastest dim first, strides in bytes."""
        made, data, *numbers = call.args
        rank, attrs = int(call.attrs.rank), call.attrs
        values = [self.number(one) for one in numbers]
        return {
            "tensor_map": self.names[made],
            **self.pointer(data),
            "dtype": str(attrs.descriptor_dtype),
            "extents": values[:rank],
            "strides": values[rank : 2 * rank - 1],
            "box": values[2 * rank - 1 : 3 * rank - 1],
            "steps": values[3 * rank - 1 :],
            "interleave": int(attrs.interleave),
            "swizzle": int(attrs.swizzle),
            "l2_promotion": int(attrs.l2_promotion),
            "fill": int(attrs.oob_fill),
        }

    def launch(self, call: Any) -> dict[str, Any]:
        name = str(call.args[0].value)
        kernel = self.kernels[name]
        given = list(call.args[1:])
        arguments = [
            self.argument(value, parameter)
            for value, parameter in zip(given, kernel.params, strict=False)
        ]
        tags = [str(tag) for tag in kernel.attrs["tirx.kernel_launch_params"]]
        extents = dict(zip(tags, map(self.number, given[len(arguments) :]), strict=True))
        step: dict[str, Any] = {
            "launch": name,
            "grid": [extents.pop(f"blockIdx.{axis}", 1) for axis in _AXES],
            "block": [extents.pop(f"threadIdx.{axis}", 1) for axis in _AXES],
            "shared": extents.pop(SHARED_MEMORY, 0),
            "arguments": arguments,
        }
        if (cluster := cluster_of(kernel)) is not None:
            step["cluster"] = list(cluster)
        for axis in AXES:
            extents.pop(axis, None)
        if extents:
            raise BuildError(f"{name}: a launch plan has no {', '.join(extents)}")
        return step

    def argument(self, value: Any, parameter: Any) -> dict[str, Any]:
        if not isinstance(parameter.ty, ir.PointerType):
            return {"value": self.number(value), "dtype": str(parameter.ty.dtype)}
        if isinstance(parameter.ty.element_type, tirx.TensorMapType):
            return {"tensor_map": self.names[value]}
        return self.pointer(value)

    def pointer(self, value: Any) -> dict[str, Any]:
        base = _pointed_to(value)
        root = self.roots.get(base, base)
        if root not in self.names:
            raise BuildError(f"a launch plan has no {value}")
        return {"array": self.names[root]}


def _pointed_to(data: Any) -> Any:
    """The buffer, or the variable, that a pointer to its first element is of."""
    while called(data) in ("buffer_data", "reinterpret") or isinstance(data, tirx.Cast):
        data = data.value if isinstance(data, tirx.Cast) else data.args[0]
    return data


def _line(node: Any) -> str:
    return " ".join(str(node).split())[:200]
