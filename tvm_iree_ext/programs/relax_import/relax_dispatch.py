"""A pass for TVM's own pipeline: some of a Relax module becomes this package's kernels."""

import itertools

import tvm
from tvm import ir, relax

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.building.artifact_identity import is_gpu
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.programs.base.tir_calls import is_tir_call
from tvm_iree_ext.programs.relax_import.canonical_functions import with_canonical_ops
from tvm_iree_ext.programs.relax_import.op_families import lowered_families
from tvm_iree_ext.programs.relax_import.recognised_products import RecognisedProducts
from tvm_iree_ext.programs.relax_import.relax_ops import Lower, OpCalls, by_default, rewritten
from tvm_iree_ext.programs.relax_import.separate_nests import SeparateNests
from tvm_iree_ext.records.record_choice import lowered
from tvm_iree_ext.records.record_files import DatabaseLike
from tvm_iree_ext.targets.names import TargetLike, make_target

_PRODUCTS = ("relax.matmul", "relax.einsum")
_numbers = itertools.count()  # of the kernels that this process has made so


class Dispatch:
    """Sends to this package what an op of its registry computes, and leaves the rest to TVM.

    ``Dispatch(target)(mod)`` is the module with calls of compiled kernels, which
    ``tvm.compile`` links in: attention, convolutions, products, sorts, scans, canonical functions
    of ops, as ``tvm_iree_ext.build`` finds them.  That fuses and plans the rest, too.

    Args:
        target: a CPU; see :mod:`tvm_iree_ext.targets.names`.
        database: files of records, as ``build`` takes them.

    Raises:
        BuildError: for a GPU, whose kernels are launched by plans and not by TVM's host code.
    """

    def __init__(self, target: TargetLike = "llvm", database: DatabaseLike = None) -> None:
        self._target, self._database = make_target(target), database
        if is_gpu(self._target):
            raise BuildError("relax.Dispatch is for CPUs; tvm_iree_ext.build takes GPUs")

    def __call__(self, mod: ir.IRModule) -> ir.IRModule:
        """The module; what it has of external libraries stays."""
        calls = OpCalls()
        known = lowered_families(calls)
        mod = relax.transform.ConvertToDataflow(min_size=1)(mod)
        mod = _OpsAlone(mod, {**known, **dict.fromkeys(_PRODUCTS, by_default)}).run()
        mod = SeparateNests(with_canonical_ops(mod, calls)).run()
        mod = relax.transform.CanonicalizeBindings()(RecognisedProducts(mod, calls).run())
        names = {}
        functions = {}
        for var, function in prim_functions(mod).items():
            key = (function.attrs or {}).get(OP_ATTRIBUTE)
            if key is not None:
                op = calls.ops[str(key)]
                name = f"tvm_iree_ext_{op.entry}_{next(_numbers)}"
                module, _ = lowered(op, self._target, database=self._database)
                functions[name] = module[op.entry].with_attr("global_symbol", name)
                names[var.name_hint] = name
        if not names:
            return mod
        mod = _Linked(mod, names).run()
        kept = {v: f for v, f in mod.functions.items() if v.name_hint not in names}
        external = list((mod.attrs or {}).get("external_mods", []))
        mod = ir.IRModule(kept, attrs=mod.attrs)
        return mod.with_attr("external_mods", [*external, self._compiled(functions)])

    def _compiled(self, functions: dict[str, tvm.tirx.PrimFunc]) -> tvm.runtime.Module:
        """The kernels, by this package's passes."""
        cpu_pipeline.register()
        pipeline = cpu_pipeline.CPU_PIPELINE
        try:
            made = tvm.compile(ir.IRModule(functions), target=self._target, tir_pipeline=pipeline)
        except (RuntimeError, ValueError, TypeError) as error:  # TVM's checks raise all three
            raise BuildError(f"TVM cannot compile {', '.join(functions)}: {error}") from error
        return made.mod


@relax.expr_functor.mutator
class _OpsAlone(relax.PyExprMutator):
    """Lowers calls of some operators, and leaves the others."""

    def __init__(self, mod: ir.IRModule, known: dict[str, Lower]) -> None:
        super().__init__(mod)
        self._mod, self._known = mod, known

    def run(self) -> ir.IRModule:
        """The module."""
        return rewritten(self, self._mod)

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call of an operator."""
        call = self.visit_expr_post_order(call)
        how = self._known.get(getattr(call.op, "name", ""))
        return call if how is None else how(self.builder_, call)


@relax.expr_functor.mutator
class _Linked(relax.PyExprMutator):
    """Calls compiled functions, by their names, in the place of a module's own."""

    def __init__(self, mod: ir.IRModule, names: dict[str, str]) -> None:
        super().__init__(mod)
        self._mod, self._names = mod, names

    def run(self) -> ir.IRModule:
        """The module."""
        return rewritten(self, self._mod)

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call of a function."""
        call = super().visit_call_(call)
        name = self._names.get(call.args[0].name_hint) if is_tir_call(call) else None
        if name is None:
            return call
        kinds = call.ty_args[0]
        results = list(kinds.fields) if isinstance(kinds, relax.TupleType) else kinds
        return relax.call_dps_packed(relax.ExternFunc(name), call.args[1], results)
