"""Relax modules as programs: operators become loops, tensors of functions the operands."""

import itertools
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.base.dtypes import FLOATS, is_dtype
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.base.signature import Extent, Operand, Signature
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE, EntryPoint, Imported
from tvm_iree_ext.mlir.scalars.arith_floats import extreme
from tvm_iree_ext.programs.base.relax_passes import prim_functions, relax_functions, with_functions
from tvm_iree_ext.programs.relax_import.canonical_functions import with_canonical_ops
from tvm_iree_ext.programs.relax_import.op_families import lowered_families
from tvm_iree_ext.programs.relax_import.recognised_products import RecognisedProducts
from tvm_iree_ext.programs.relax_import.relax_activations import ACTIVATIONS
from tvm_iree_ext.programs.relax_import.relax_ops import OpCalls
from tvm_iree_ext.programs.relax_import.relax_widths import widen_narrow_floats
from tvm_iree_ext.programs.relax_import.separate_nests import SeparateNests
from tvm_iree_ext.tir.nan_comparisons import with_nan_comparisons


def from_relax(mod: ir.IRModule, name: str = "module") -> Imported:
    """The program of a Relax module, each public function of which can be called.

    All parameters are a caller's; constants may be bound before, by ``relax.transform.BindParams``.

    Raises:
        BuildError: for a module without functions, operands that are no tensors of known rank and
            type, and operators that TVM has no loops for.
    """
    calls = OpCalls()
    lowered = {**lowered_families(calls), **ACTIVATIONS}
    try:
        mod = ir.transform.Sequential(
            [
                relax.transform.ConvertToDataflow(min_size=1),
                widen_narrow_floats,
                _normalize_by_batch,
                relax.transform.DecomposeOpsForInference(),
                relax.transform.LegalizeOps(lowered),
            ]
        )(mod)
    except (RuntimeError, ValueError, TypeError) as error:  # TVM's checks raise all three
        raise BuildError(f"{name}: TVM cannot lower the module: {error}") from error
    mod = SeparateNests(with_canonical_ops(mod, calls)).run()
    products = RecognisedProducts(mod, calls)
    mod = relax.transform.CanonicalizeBindings()(products.run())  # a call's result has one name
    mod = with_functions(mod, {v: _like_numpy(f) for v, f in prim_functions(mod).items()})
    points = []
    for var, function in relax_functions(mod).items():
        if "global_symbol" not in (function.attrs or {}):
            continue
        mod[var] = function.with_attr("num_input", len(function.params))
        points.append(EntryPoint(var.name_hint, _signature(var.name_hint, function)))
    if not points:
        raise BuildError(f"{name}: has no function that is public")
    return Imported(name, mod, tuple(points), calls.ops, fallbacks=tuple(products.fallbacks))


@relax.expr_functor.mutator
class _BatchNorms(relax.PyExprMutator):
    """Batch norms in training as loops: TVM decomposes all of them as if they were inference."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Loops for a batch norm in training; what was there for all else."""
        call = self.visit_expr_post_order(call)
        if call.op != _BATCH_NORM or not call.attrs.training:
            return call
        return _BATCH_NORM.get_attr("FLegalize")(self.builder_, call)


_BATCH_NORM = ir.Op.get("relax.nn.batch_norm")


@ir.transform.module_pass(opt_level=0)
def _normalize_by_batch(mod: ir.IRModule, _ctx: ir.transform.PassContext) -> ir.IRModule:
    """A pass that makes loops of batch norms that normalize by the mean of their operand."""
    mutator = _BatchNorms(mod)
    for var, function in relax_functions(mod).items():
        mutator.builder_.update_func(var, mutator.visit_expr(function))
    return mutator.builder_.get()


def _like_numpy(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with extremes and truth as NumPy and PyTorch have them, too.

    The larger and smaller of floats of which one is NaN is NaN: TVM's own drop it in another
    operand on a CPU than on a GPU.  What is not 0 is true: TVM takes no constant but 0 and 1 for
    a bool.
    """

    def either(chosen: tirx.Max | tirx.Min) -> ir.Expr:
        if "float" not in str(chosen.ty.dtype):
            return chosen
        name, dtype = "max" if isinstance(chosen, tirx.Max) else "min", str(chosen.ty.dtype)
        if dtype in FLOATS and dtype != "bfloat16":
            return extreme(chosen.a, chosen.b, name, keeps_nan=True)
        a, b = (tirx.Cast("float32", one) for one in (chosen.a, chosen.b))  # isnan takes no other
        return tirx.Cast(dtype, extreme(a, b, name, keeps_nan=True))

    def unmarked(attribute: tirx.AttrStmt) -> Any:
        # TVM's scatters say so that their loops stay loops, of which LLVM's code knows nothing.
        return attribute.body if attribute.attr_key == "pragma_scope" else attribute

    def truth(cast: tirx.Cast) -> ir.Expr:
        kind = str(cast.value.ty.dtype)
        if str(cast.ty.dtype) != "bool" or kind == "bool":
            return cast
        return tirx.NE(cast.value, tirx.const(0, kind))

    if OP_ATTRIBUTE in (function.attrs or {}):
        return function
    body = tvm_ffi.structural_map(
        with_nan_comparisons(function.body),
        [((tirx.Max, tirx.Min), either), (tirx.Cast, truth), (tirx.AttrStmt, unmarked)],
    )
    return function.with_body(body)


def _signature(name: str, function: relax.Function) -> Signature:
    named = _Names()
    operands = [_operand(name, p.name, p.ty, "input", named) for p in function.params]
    ret = function.ret_ty
    results = list(ret.fields) if isinstance(ret, relax.TupleType) else [ret]
    known = {e for operand in operands for e in operand.shape if isinstance(e, str)}
    for place, result in enumerate(results):
        operand = _operand(name, f"out{place}", result, "result", named)
        shape = tuple(
            # What follows from no argument has a name of its own.
            e if isinstance(e, int) or e in known else f"out{place}_axis{axis}"
            for axis, e in enumerate(operand.shape)
        )
        operands.append(Operand(operand.name, shape, operand.dtype, "result"))
    return Signature(tuple(operands))


class _Names:
    """Names of extents: two variables that a module gives one name have different ones here."""

    def __init__(self) -> None:
        self._variables: dict[ir.Var, ir.Var] = {}
        self._taken: set[str] = set()

    def __call__(self, extent: Any) -> Extent:
        """An extent as a number, or by its variables' names."""
        if isinstance(extent, tirx.IntImm):
            return int(extent)
        return str(tvm_ffi.structural_map(extent, (ir.Var, self._renamed)))

    def _renamed(self, var: ir.Var) -> ir.Var:
        if var not in self._variables:
            numbered = (f"{var.name}_{n}" for n in itertools.count(1))
            names = itertools.chain([str(var.name)], numbered)
            name = next(one for one in names if one not in self._taken)
            self._taken.add(name)
            self._variables[var] = tirx.Var(name, str(var.ty.dtype))
        return self._variables[var]


def _operand(function: str, name: str, kind: Any, role: Any, named: _Names) -> Operand:
    shape = getattr(kind, "shape", None)
    dtype = str(getattr(kind, "dtype", ""))
    if not isinstance(kind, relax.TensorType) or kind.ndim < 0:
        raise BuildError(f"{function}: {name} is {kind}; expected a tensor of known rank")
    if not isinstance(shape, relax.ShapeExpr):
        raise BuildError(
            f"{function}: {name} is {kind}, whose extents follow from data; expected extents that"
            " are numbers or follow from those of the arguments"
        )
    if not is_dtype(dtype):
        raise BuildError(f"{function}: {name} has elements of {dtype}, which no array has")
    return Operand(name, tuple(map(named, shape.values)), dtype, role)
