"""From a PyTorch module to the torch dialect: exported, its operators by simpler ones, written.

PyTorch is imported when it is asked for.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.torch.torch_weights import lazy_clones
from tvm_iree_ext.mlir.importing.boundary import Boundary, Given
from tvm_iree_ext.mlir.reading import form

_OF_TRACING = ("kwargs", "dynamic_shapes")  # options that are torch.export's
_MARK = "_dynamo_dynamic_indices"  # of tensors whose extents are said to be open
_FLOATS_OF_NUMPY = ("torch.float16", "torch.float32", "torch.float64")


def exported(module: Any, examples: Sequence[Any], options: dict[str, Any]) -> Any:
    """Export a module with ``torch.export``; options of tracing are taken out of ``options``."""
    import torch
    from iree.turbine import aot

    from tvm_iree_ext.frontends.torch.torch_traced import Traceable

    if not isinstance(module, torch.nn.Module):
        if examples:
            raise MlirError("what is exported already takes no arguments to trace with")
        is_program = isinstance(module, torch.export.ExportedProgram)
        return _corrected(module.run_decompositions({})) if is_program else module
    tracing = {name: options.pop(name) for name in _OF_TRACING if name in options}
    tracing["strict"] = options.pop("strict_export", True)
    state = (*module.parameters(), *module.buffers())
    examples, tracing["kwargs"] = _distinct((tuple(examples), tracing.get("kwargs")), state)
    with without_fast_path(), lazy_clones(), _without_guards(), Traceable():
        traced = torch.export.export(module, args=examples, **tracing)
    if decompositions := aot.decompositions.current_aot_decompositions():
        from tvm_iree_ext.frontends.torch.base.torch_decomposed import decomposed
        from tvm_iree_ext.frontends.torch.torch_decompositions import replaced_early

        traced = decomposed(replaced_early(traced), decompositions)
    return _corrected(traced)


@contextmanager
def without_own_deprecations() -> Iterator[None]:
    """Without what PyTorch's exporter complains of in PyTorch itself, which no user can mend."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*treespec, LeafSpec", FutureWarning)
        yield


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Transformer layers as their parts: without gradients they are one operator of PyTorch's."""
    import torch

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _without_guards() -> Iterator[None]:
    """Have PyTorch's tracer make no guards where none can fail: where all extents are known.

    It makes them, of each weight and each module, to check what was said of extents.
    """
    import torch
    from torch._dynamo import functional_export as tracer

    name = "_suggest_or_raise_constraint_violation"
    check = getattr(tracer, name, None)
    if check is None:
        yield
        return

    def checked(module: Any, function: Any, mode: Any, *rest: Any) -> None:
        environment, (_, *arguments, shapes) = getattr(mode, "shape_env", None), rest
        is_marked = any(hasattr(one, _MARK) for one in torch.utils._pytree.tree_leaves(arguments))
        if shapes or is_marked or environment is None or environment.var_to_range:
            check(module, function, mode, *rest)

    setattr(tracer, name, checked)
    try:
        yield
    finally:
        setattr(tracer, name, check)


def _corrected(program: Any) -> Any:
    from tvm_iree_ext.frontends.torch.torch_decompositions import replaced

    return replaced(program)


def _distinct(examples: Any, state: Sequence[Any]) -> Any:
    """The examples, each tensor another: one that comes twice would be taken for one argument."""
    import torch
    from torch.utils import _pytree

    known = {id(one) for one in state}

    def other(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        if id(one) in known:
            one = one.detach().clone().requires_grad_(one.requires_grad)
        known.add(id(one))
        return one

    return _pytree.tree_map(other, examples)


def is_recurrent(program: Any) -> bool:
    """Whether an exported program holds a recurrent layer as one operator: IREE takes none."""
    from tvm_iree_ext.frontends.torch.operators.torch_unknown import RECURRENT

    graph = getattr(program, "graph", None)
    return graph is not None and any(node.target in RECURRENT for node in graph.nodes)


def rewritten_text(program: Any) -> Callable[[str], str] | None:
    """What brings an exported program's text to IREE's dialects, where it holds operators of ours.

    These are operations on scalars of MLIR's dialects, and ops of the registry.
    """
    from tvm_iree_ext.frontends.torch.base.torch_loops import graphs_of
    from tvm_iree_ext.frontends.torch.base.torch_scalars import as_linalg, is_scalar
    from tvm_iree_ext.frontends.torch.operators.torch_groups import as_calls, is_declared

    targets = [node.target for graph in graphs_of(program) for node in graph.nodes]
    if any(map(is_declared, targets)):
        return lambda text: as_calls(as_linalg(text))
    return as_linalg if any(map(is_scalar, targets)) else None


def simpler(program: Any) -> Any:
    """An exported program of fewer, simpler operators: PyTorch's core, less some of these."""
    from tvm_iree_ext.frontends.torch.base.torch_loops import graphs_of
    from tvm_iree_ext.frontends.torch.torch_decompositions import allow_other_strides

    allow_other_strides(graphs_of(program))
    return _corrected(program.run_decompositions(_decompositions()))


def _decompositions() -> Any:
    """PyTorch's operators by those of its core, less some of these that IREE does not lower."""
    import torch

    def squeezed(x: Any, dims: Sequence[int]) -> Any:
        gone = {dim % x.dim() for dim in dims if x.shape[dim] == 1}
        return x.reshape([extent for axis, extent in enumerate(x.shape) if axis not in gone])

    aten = torch.ops.aten
    normal = (aten._native_batch_norm_legit.no_stats, aten.native_group_norm)
    return {
        **torch.export.default_decompositions(),
        **torch._decomp.get_decompositions(normal),
        aten.squeeze.dims: squeezed,
    }


def boundary(program: Any) -> Boundary | None:
    """Types at the boundary of an exported program's calls; None for any other program."""
    import torch

    if not isinstance(program, torch.export.ExportedProgram):
        return None
    nodes = {node.name: node for node in program.graph.nodes}
    kinds = torch.export.graph_signature
    arguments = [
        Given(_type(nodes[one.arg.name].meta["val"]))
        for one in program.graph_signature.input_specs
        if one.kind is kinds.InputKind.USER_INPUT and isinstance(one.arg, kinds.TensorArgument)
    ]
    results = [
        _dtype(nodes[one.arg.name].meta["val"].dtype)
        for one in program.graph_signature.output_specs
        if one.kind is kinds.OutputKind.USER_OUTPUT and isinstance(one.arg, kinds.TensorArgument)
    ]
    return Boundary(tuple(arguments), tuple(results))


def _type(value: Any) -> form.ParsedTensorType:
    shape = [extent if isinstance(extent, int) else None for extent in value.shape]
    return form.ParsedTensorType(tuple(shape), _dtype(value.dtype))


def _dtype(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@contextmanager
def written(program: Any) -> Iterator[None]:
    """Have ``iree.turbine`` write what it does not know: more types, and weights of such."""
    import torch
    from iree.compiler.extras import fx_importer

    from tvm_iree_ext.frontends.torch.base.torch_loops import all_carried

    types, numbers = fx_importer.TORCH_DTYPE_TO_MLIR_TYPE_ASM, fx_importer.TORCH_DTYPE_TO_INT
    added = [
        (table, dtype, value)
        for dtype, name, number in (
            (torch.uint16, "ui16", 27),
            (torch.uint64, "ui64", 29),
            (torch.complex128, "complex<f64>", 10),
        )
        for table, value in ((types, name), (numbers, number))
        if dtype not in table
    ]
    for table, dtype, value in added:
        table[dtype] = value
    try:
        with _weights_as_words(program), all_carried(program):
            yield
    finally:
        for table, dtype, _ in added:
            del table[dtype]


@contextmanager
def _weights_as_words(program: Any) -> Iterator[None]:
    """Show weights of types that NumPy has not, such as bfloat16, to it as their words.

    ``iree.turbine`` takes the bytes of weights through NumPy.
    """
    import torch
    from iree.turbine.aot.tensor_traits import ExternalTensorTrait

    class Words(torch.Tensor):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            word = torch.int16 if self.itemsize == 2 else torch.uint8
            return self.as_subclass(torch.Tensor).view(word).numpy()

    weights = {
        name: weight
        for name, weight in getattr(program, "state_dict", {}).items()
        if weight.dtype.is_floating_point
        and str(weight.dtype) not in _FLOATS_OF_NUMPY
        and ExternalTensorTrait.get(weight) is None
    }
    try:
        for name, weight in weights.items():
            words = weight.detach().as_subclass(Words)
            is_parameter = isinstance(weight, torch.nn.Parameter)
            program.state_dict[name] = (
                torch.nn.Parameter(words, requires_grad=False) if is_parameter else words
            )
        yield
    finally:
        for name, weight in weights.items():
            program.state_dict[name] = weight
