"""What depends on positions alone is computed where it is read, unless that costs more."""

import numpy as np
import pytest
from relax_programs import Maker, check, normal, program
from tvm import relax, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.programs import program_lowering
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.programs.fusion.position_functions import inline_positions

F32, I32 = "float32", "int32"


def operands(mod):
    """How many tensors each function reads that ``main`` calls, by its name."""
    bindings = [binding for block in mod["main"].body.blocks for binding in block.bindings]
    return {
        binding.value.args[0].name_hint: len(binding.value.args[1].fields)
        for binding in bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir"
    }


def wrapped(index, extent):
    """As NumPy has indices below zero."""
    wide = tirx.Cast("int64", index)
    return tirx.Select(index < 0, wide + extent, wide)


class Gathered:
    """``x[:, rows, columns]`` with rows that count, from ``reshaped`` counts, as PyTorch has it."""

    def __init__(self, n=3, rows=4, columns=6):
        self.n, self.rows, self.columns = n, rows, columns
        self.maker = Maker(x=((n, 9, columns), F32))

    def make(self, emit):
        """Backwards: ``x[:, 5 - arange(rows)[:, None], arange(columns)]``."""
        m, (n, rows, columns) = self.maker, (self.n, self.rows, self.columns)
        count = emit(m.nest([], (rows,), I32, lambda r, i: tirx.Cast(I32, i)))
        back = emit(m.nest([count], (rows,), I32, lambda r, i: tirx.const(5, I32) - r[0](i)))
        tall = m.builder.emit(relax.op.reshape(back, relax.ShapeExpr(m.shape((rows, 1)))))
        across = emit(m.nest([], (columns,), I32, lambda r, i: tirx.Cast(I32, i)))

        def body(load, i, row, column):
            extents = load[0](i, 0, 0).source.ty.shape
            at = wrapped(load[1](row, 0), extents[1]), wrapped(load[2](column), extents[2])
            return load[0](i, *at) + tirx.const(1.0, F32)

        return [emit(m.nest([m["x"], tall, across], (n, rows, columns), F32, body))]

    @property
    def results(self):
        return [((self.n, self.rows, self.columns), F32)]


def test_indices_that_count_are_read_from_nowhere():
    case = Gathered()
    found = operands(inline_positions(program(case.maker, case.make, case.results).module))
    assert list(found.values())[-1] == 1


def built_gather(tmp_path, **extents):
    case = Gathered(**extents)
    x = normal(3, 9, 6)
    want = x[:, 5 - np.arange(4)] + 1
    return check(case.maker, case.make, case.results, [x], [want], tmp_path)


def test_a_gather_by_such_indices_is_right(tmp_path):
    assert built_gather(tmp_path).resources["kernels"] == 1


def test_a_gather_of_extents_known_at_the_call_only_is_right(tmp_path):
    built_gather(tmp_path, n="n", columns="columns")


def test_programs_compute_the_same_without(tmp_path, monkeypatch):
    monkeypatch.setattr(program_lowering, "inline_positions", lambda mod: mod)
    built_gather(tmp_path)


def masked(emit, m, length):
    """``x`` where a column is no later than a row, else a large negative number."""
    square = (length, length)
    rows = emit(m.nest([], square, I32, lambda r, i, j: tirx.Cast(I32, i)))
    columns = emit(m.nest([], square, I32, lambda r, i, j: tirx.Cast(I32, j)))
    both = [rows, columns]
    mask = emit(m.nest(both, square, "bool", lambda r, *at: r[1](*at) <= r[0](*at)))
    low = emit(m.nest([], (), F32, lambda r, *_: tirx.const(-1e9, F32)))

    def body(load, n, i, j):
        return tirx.Select(load[1](i, j), load[0](n, i, j), load[2]())

    return emit(m.nest([m["x"], mask, low], (2, length, length), F32, body))


@pytest.mark.parametrize("length", [7, "length"])
def test_masks_and_fills_are_computed_where_they_are_read(length, tmp_path):
    def make(emit):
        return [masked(emit, m, length)]

    m = Maker(x=((2, length, length), F32))
    mod = inline_positions(program(m, make, [((2, length, length), F32)]).module)
    assert list(operands(mod).values())[-1] == 1
    m = Maker(x=((2, length, length), F32))
    x = normal(2, 7, 7)
    want = np.where(np.tri(7, dtype=bool), x, np.float32(-1e9))
    check(m, make, [((2, length, length), F32)], [x], [want], tmp_path)


def test_an_index_of_another_type_is_one_of_the_type_that_is_counted_in(tmp_path):
    m = Maker(x=((6,), F32))

    def make(emit):
        count = emit(m.nest([], (6,), "int64", lambda r, i: (i + 2) % 6))
        body = lambda r, i: r[0](r[1](tirx.Cast(I32, i)))  # noqa: E731
        return [emit(m.nest([m["x"], count], (6,), F32, body))]

    x = normal(6)
    built = check(m, make, [((6,), F32)], [x], [np.roll(x, -2)], tmp_path)
    assert built.resources["kernels"] == 1


def test_sums_over_what_counts(tmp_path):
    """Loops that reduce, and a result that nothing is read for."""
    m = Maker(x=((4, 9), F32))

    def make(emit):
        count = emit(m.nest([], (9,), F32, lambda r, j: tirx.Cast(F32, j)))

        def weighted(out, load, i, j):
            return out + load[0](i, j) * load[1](j)

        def total(out, load, j):
            return out + load[0](j)

        return [
            emit(m.nest([m["x"], count], (4,), F32, weighted, reduced=(9,), init=0.0)),
            emit(m.nest([count], (), F32, total, reduced=(9,), init=0.0)),
            count,
        ]

    x, count = normal(4, 9), np.arange(9, dtype=F32)
    results = [((4,), F32), ((), F32), ((9,), F32)]
    want = [x @ count, np.float32(36), count]
    check(m, make, results, [x], [want[0], np.asarray(want[1]), want[2]], tmp_path, rtol=1e-4)


# What stays.


def left(first, extra=()):
    """How many tensors the reader of what ``first`` computes is called with, and that itself."""
    m = Maker(x=((8,), F32))

    def make(emit):
        table = emit(m.nest([m[name] for name in extra], (8,), F32, first))
        return [emit(m.nest([m["x"], table], (8,), F32, lambda r, i: r[0](i) + r[1](i)))]

    return operands(inline_positions(program(m, make, [((8,), F32)]).module))


def test_what_has_an_operand_stays():
    assert left(lambda r, i: r[0](7 - i), ["x"])["nest2"] == 2


def test_what_takes_too_many_operations_stays():
    def many(load, i):
        value = i
        for k in range(2, 40):
            value = value * k + i
        return tirx.Cast(F32, value)

    assert left(many)["nest2"] == 2


@pytest.mark.parametrize("function", [tirx.sin, lambda x: tirx.pow(number(2), x)])
def test_a_table_of_a_function_stays(function):
    """As of rotary embeddings: each head of each layer would compute sines."""
    assert left(lambda r, i: function(tirx.Cast(F32, i)))["nest2"] == 2


def number(value):
    return tirx.const(value, F32)


def test_an_op_reads_its_operands():
    op = ops.matmul((8, 8), (8, 8))
    m = Maker(x=((8, 8), F32))

    def make(emit):
        eye = emit(m.nest([], (8, 8), F32, lambda r, i, j: tirx.Cast(F32, i.equal(j))))
        return [emit(m.op("product", op, [m["x"], eye], (8, 8), F32))]

    mod = inline_positions(program(m, make, [((8, 8), F32)]).module)
    assert operands(mod)["product"] == 2
    assert len(prim_functions(mod)) == 2


@pytest.mark.parametrize("shape", [(2, 4), (8,)])
def test_a_reshape_is_seen_through_where_axes_stay(shape):
    """Where others become two, the reader reads memory."""
    m = Maker(x=(shape, F32))

    def make(emit):
        count = emit(m.nest([], (8, 1), F32, lambda r, i, j: tirx.Cast(F32, i)))
        flat = m.builder.emit(relax.op.reshape(count, relax.ShapeExpr(shape)))
        return [emit(m.nest([m["x"], flat], shape, F32, lambda r, *at: r[0](*at) * r[1](*at)))]

    mod = inline_positions(program(m, make, [(shape, F32)]).module)
    assert operands(mod).popitem()[1] == (1 if shape == (8,) else 2)
