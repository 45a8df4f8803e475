"""Programs made by hand, as an importer would give them: nests of loops, ops of the registry."""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE, EntryPoint, Imported
from tvm_iree_ext.programs.program_build import build_program

RNG = np.random.default_rng(1)


class Maker:
    """A Relax function of one dataflow block, whose calls are nests given by a callable."""

    def __init__(self, **inputs: tuple[Sequence, str]) -> None:
        self.builder = relax.BlockBuilder()
        self.symbols: dict[str, tirx.Var] = {}
        self.inputs = inputs
        self.ops: dict[str, object] = {}
        self.parameters: dict[str, np.ndarray] = {}
        self.vars = [relax.Var(n, self._type(*t)) for n, t in inputs.items()]
        self.extra: list[relax.Var] = []
        self.count = 0

    def __getitem__(self, name):
        return next(v for v in [*self.vars, *self.extra] if v.name == name)

    def shape(self, shape):
        return [
            self.symbols.setdefault(e, tirx.Var(e, "int64")) if isinstance(e, str) else e
            for e in shape
        ]

    def _type(self, shape, dtype):
        return relax.TensorType(self.shape(shape), dtype)

    def parameter(self, name, array):
        self.parameters[name] = array
        self.extra.append(relax.Var(name, self._type(array.shape, str(array.dtype))))
        return self.extra[-1]

    def nest(self, arguments, shape, dtype, body: Callable, reduced=(), init=None):
        """``body(load, at)`` is stored at ``at``; ``load[i](...)`` reads argument i."""
        self.count += 1
        name = f"nest{self.count}"
        own: dict[str, tirx.Var] = {}

        def extents(of):
            return [
                tirx.const(int(e), "int64")
                if isinstance(e, int | tirx.IntImm)
                else own.setdefault(str(e), tirx.Var(str(e), "int64"))
                for e in of
            ]

        def declared(called, shape, kind):
            buffer = I.buffer(extents(shape), kind, align=item_bytes(kind))
            return I.arg(called, buffer)

        with IRBuilder() as builder, I.prim_func(s_tir=True):
            I.func_name(name)
            I.func_attr({"tirx.noalias": True})
            buffers = [
                declared(f"a{place}", argument.ty.shape.values, str(argument.ty.dtype))
                for place, argument in enumerate(arguments)
            ]
            out = declared("out", self.shape(shape), dtype)
            spatial, rest = extents(self.shape(shape)), extents(self.shape(reduced))
            loops = [*spatial, *rest] or [tirx.const(1, "int64")]
            with I.sblock("root"), I.grid(*loops) as found:
                variables = [found] if isinstance(found, ir.Var) else list(found)
                with I.sblock(name):
                    kinds = [I.axis.spatial] * len(spatial) + [I.axis.reduce] * len(rest)
                    axes = [
                        axis(extent, variable)
                        for axis, extent, variable in zip(
                            kinds or [I.axis.spatial], loops, variables, strict=True
                        )
                    ]
                    at, over = axes[: len(spatial)], axes[len(spatial) :]
                    loads = [lambda *i, b=b: b[tuple(i)] for b in buffers]
                    if reduced:
                        with I.init():
                            I.buffer_store(out, tirx.const(init, dtype), at)
                        loads, over = (out[tuple(at)], loads), over
                        I.buffer_store(out, body(*loads, *at, *over), at)
                    else:
                        I.buffer_store(out, body(loads, *at), at)
        func = builder.get()
        return self._call(func, name, arguments, shape, dtype)

    def op(self, key, op, arguments, shape, dtype):
        """A call of an op's canonical PrimFunc."""
        self.ops[key] = op
        func = op.prim_func().without_attr("global_symbol").with_attr(OP_ATTRIBUTE, key)
        return self._call(func, key, arguments, shape, dtype)

    def _call(self, func, name, arguments, shape, dtype):
        var = self.builder.add_func(func, name)
        return "emit", var, list(arguments), self._type(shape, dtype)


def program(maker, make, results, name="main"):
    """Build the Imported of one function; ``make(emit)`` returns its results' variables."""
    builder = maker.builder
    given = len(maker.vars)
    with builder.function(
        name, [*maker.vars, *maker.extra], attrs={"num_input": given, "global_symbol": name}
    ):
        with builder.dataflow():

            def emit(call):
                _, var, arguments, kind = call
                return builder.emit(relax.call_tir(var, arguments, kind))

            made = make(emit)
            out = builder.emit_output(relax.Tuple(made) if len(made) != 1 else made[0])
        builder.emit_func_output(out)
    operands = [Operand(n, tuple(s), d) for n, (s, d) in maker.inputs.items()]
    operands += [Operand(f"out{i}", tuple(s), d, "result") for i, (s, d) in enumerate(results)]
    entry = EntryPoint(name, Signature(tuple(operands)))
    return Imported("test", builder.get(), (entry,), maker.ops, maker.parameters)


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def check(maker, make, results, arguments, expected, tmp_path, **tolerance):
    """Build a program, compare what it gives with what is expected; returns it.

    A sum's error goes with its terms, not with the sum, which may be near 0: by default the
    absolute tolerance is 1e-6 of the largest result (of 1 at least).
    """
    built = build_program(program(maker, make, results), folder=tmp_path / "p")
    got = built(*arguments)
    got = got if isinstance(got, tuple) else (got,)
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        largest = max(1.0, float(np.abs(other).max(initial=0.0)))
        loose = {"rtol": 2e-5, "atol": 1e-6 * largest, **tolerance}
        np.testing.assert_allclose(one, other, **loose)
    return built
