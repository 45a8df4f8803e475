"""Operators of Relax on floats of 16 bits, by the same ones on float32, rounded once at the end.

TVM rounds each step of an operator to the operands' type: a mean's sum, and the squares of a
variance, are infinite beyond 65,504.  It also calls a function of the C library for each number
of 16 bits, where there are vectors of float32.
"""

from tvm import ir, relax

from tvm_iree_ext.programs.relax_import.relax_ops import rewritten

_NARROW = ("float16", "bfloat16")
_ACTIVATIONS = """sigmoid nn.silu nn.gelu nn.gelu_tanh nn.selu nn.softplus nn.softmax
    nn.log_softmax"""
_NORMS = "nn.batch_norm nn.layer_norm nn.group_norm nn.instance_norm nn.rms_norm"
_REDUCTIONS = "mean variance std prod nn.cross_entropy_with_logits nn.nll_loss"
_IMAGES = """nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.adaptive_avg_pool1d
    nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d image.resize2d image.resize3d image.grid_sample"""
_OF_EACH_ELEMENT = """exp log log_add_exp sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan
    asinh acosh atanh erf power"""
_WIDENED = frozenset(
    f"relax.{name}"
    for names in (_ACTIVATIONS, _NORMS, _REDUCTIONS, _IMAGES, _OF_EACH_ELEMENT)
    for name in names.split()
)


@relax.expr_functor.mutator
class _Widths(relax.PyExprMutator):
    """Puts conversions around calls of some operators."""

    def __init__(self, mod: ir.IRModule) -> None:
        super().__init__(mod)
        self._mod = mod

    def run(self) -> ir.IRModule:
        """The module."""
        return rewritten(self, self._mod)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """A call, in float32 where it is of 16 bits."""
        call = self.visit_expr_post_order(call)
        if getattr(call.op, "name", "") not in _WIDENED:
            return call
        wide = [self._wide(one) for one in call.args]
        if all(a is b for a, b in zip(wide, call.args, strict=True)):
            return call
        given = self.builder_.emit(relax.Call(call.op, wide, call.attrs, call.ty_args))
        if not isinstance(call.ty, ir.TupleType):
            return self._narrow(given, call.ty)
        fields = [relax.TupleGetItem(given, i) for i in range(len(call.ty.fields))]
        narrow = map(self._narrow, map(self.builder_.emit, fields), call.ty.fields)
        return relax.Tuple(list(narrow))

    def _wide(self, value: relax.Expr) -> relax.Expr:
        if not isinstance(value.ty, relax.TensorType) or str(value.ty.dtype) not in _NARROW:
            return value
        return self.builder_.emit(relax.op.astype(value, "float32"))

    def _narrow(self, value: relax.Expr, given: relax.TensorType) -> relax.Expr:
        return self.builder_.emit(relax.op.astype(value, str(given.dtype)))


@ir.transform.module_pass(opt_level=0)
def widen_narrow_floats(mod: ir.IRModule, _ctx: ir.transform.PassContext) -> ir.IRModule:
    """A pass by which operators of several steps compute in float32 what is of 16 bits."""
    return _Widths(mod).run()
