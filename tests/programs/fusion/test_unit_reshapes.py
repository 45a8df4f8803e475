"""Loops write what is read behind a reshape of single axes, where nothing else reads it."""

import numpy as np
import pytest
from relax_programs import Maker, check, normal, program
from tvm import relax

from tvm_iree_ext.programs import program_lowering
from tvm_iree_ext.programs.fusion.unit_reshapes import fold_unit_reshapes

F32 = "float32"


class Sliced:
    """``(2 x)[:, 1:2]`` as (rows, 5), and what is read of both of its columns."""

    def __init__(self, rows, *, is_read_twice=False, shape=None):
        self.rows, self.is_read_twice = rows, is_read_twice
        self.shape = shape or (rows, 5)
        self.maker = Maker(x=((rows, 3, 5), F32))

    def make(self, emit):
        m = self.maker
        shape = (self.rows, 1, 5)
        y = emit(m.nest([m["x"]], shape, F32, lambda r, i, j, k: r[0](i, j + 1, k) * 2.0))
        z = m.builder.emit(relax.op.reshape(y, relax.ShapeExpr(m.shape(self.shape))))
        if self.is_read_twice:
            return [z, emit(m.nest([y], shape, F32, lambda r, i, j, k: r[0](i, j, k) + 1.0))]
        return [z]

    @property
    def results(self):
        own = [(self.shape, F32)]
        return own + ([((self.rows, 1, 5), F32)] if self.is_read_twice else [])

    def expected(self, x):
        y = 2 * x[:, 1:2]
        z = y.reshape(*(n if isinstance(n, int) else len(x) for n in self.shape))
        return [z, y + 1] if self.is_read_twice else [z]


def reshapes(case):
    mod = fold_unit_reshapes(program(case.maker, case.make, case.results).module)
    return str(mod["main"]).count("R.reshape")


@pytest.mark.parametrize("rows", [4, "rows"])
@pytest.mark.parametrize("is_folded", [True, False])
def test_results_are_the_same_with_and_without(rows, is_folded, tmp_path, monkeypatch):
    case = Sliced(rows)
    assert reshapes(case) == 0
    if not is_folded:
        monkeypatch.setattr(program_lowering, "fold_unit_reshapes", lambda mod: mod)
    case, x = Sliced(rows), normal(4, 3, 5)
    check(case.maker, case.make, case.results, [x], case.expected(x), tmp_path)


def test_what_is_read_before_the_reshape_too_keeps_its_shape(tmp_path):
    case = Sliced(4, is_read_twice=True)
    assert reshapes(case) == 1
    case, x = Sliced(4, is_read_twice=True), normal(4, 3, 5)
    check(case.maker, case.make, case.results, [x], case.expected(x), tmp_path)


def test_a_reshape_that_joins_axes_stays():
    assert reshapes(Sliced(4, shape=(20,))) == 1


def test_axes_are_added_as_well():
    case = Sliced(4, shape=(1, 4, 1, 5, 1))
    assert reshapes(case) == 0
    x = normal(4, 3, 5)
    np.testing.assert_array_equal(case.expected(x)[0].shape, (1, 4, 1, 5, 1))
