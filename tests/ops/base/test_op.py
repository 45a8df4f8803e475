"""Ops say what they compute; the canonical TensorIR is registered by each family."""

import pickle
from inspect import isabstract

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.ops.base.empty_operands import OfNothing
from tvm_iree_ext.ops.base.op import Op, canonical, register_canonical


class Negation(Op):
    """An op that nobody has registered."""

    name = "test.negation"
    signature = Signature((Operand("x", ("n",), "int8"), Operand("y", ("n",), "int8", "result")))
    attributes = property(lambda self: {})

    def flops(self, extents=None):
        return 0


def classes(kind):
    yield from kind.__subclasses__()
    for inner in kind.__subclasses__():
        yield from classes(inner)


def test_every_op_has_a_canonical_function_of_its_own_family():
    assert ops.__all__
    ours = [kind for kind in classes(Op) if kind.__module__.startswith("tvm_iree_ext.ops.")]
    families = [kind for kind in ours if not isabstract(kind)]
    assert len(families) > 20
    for kind in families:
        register_canonical(kind)
        function = canonical.dispatch(kind)
        assert function is not canonical.dispatch(object), kind
        both = {module.rpartition(".")[0] for module in (kind.__module__, function.__module__)}
        assert len(both) == 1, kind


def test_an_op_without_a_canonical_function_says_so():
    with pytest.raises(NotImplementedError, match=r"test\.negation: Negation has no canonical"):
        Negation().prim_func()


def test_counts_the_bytes_of_each_operand_once():
    assert Negation().bytes({"n": 5}) == 10


def test_an_operand_is_at_most_what_a_process_can_address():
    assert ops.sort((2**45,), dimension=0).bytes() == 2**48
    with pytest.raises(OpError, match=r"takes 140737488355332 bytes; expected 2\*\*47 at most"):
        ops.sort((2**45 + 1,), dimension=0)


def test_a_sum_of_no_terms_is_its_init():
    op = ops.scan((3, 0), dimension=1)
    assert op.is_of_nothing
    assert OfNothing(op).inits == {"accumulator": "accumulator_init"}
    assert "copy_accumulator" in OfNothing(op).prim_func().script()


SAME = [
    lambda: ops.attention((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), region="30 * tanh(arg0 / 30)"),
    lambda: ops.matmul(("m", 8), (8, 4), [(4,)], epilogue="max(arg0 + arg1, 0)"),
    lambda: ops.scan((3, 4), lambda a, b: a + b),
    lambda: ops.topk((3, 40), 5),
    lambda: ops.map_load((4, 8), (8, 4), "arg1, arg0, 0.0"),
]


@pytest.mark.parametrize("make", SAME)
def test_ops_are_equal_by_value_and_can_be_pickled(make):
    first, second = make(), make()
    assert first == second
    assert hash(first) == hash(second)
    assert {first: 1}[second] == 1
    again = pickle.loads(pickle.dumps(first))
    assert again == first
    assert again.signature == first.signature
    assert again.prim_func() is not None


def test_other_ops_are_other_values():
    one = ops.scan((3, 4))
    others = [ops.scan((3, 5)), ops.scan((3, 4), "mul"), ops.scan((3, 4), dtype="int32")]
    assert all(one != other for other in [*others, ops.sort((3, 4), dimension=0), "scan"])


def test_the_module_shows_its_ops_and_suggests_them():
    assert {"attention", "matmul", "scan"} <= set(dir(ops))
    assert not {"on_demand", "did_you_mean", "Any"} & set(dir(ops))
    with pytest.raises(AttributeError, match="no attribute 'attenton'; did you mean 'attention'"):
        ops.attenton  # noqa: B018


def test_an_op_of_nothing_multiplies_the_numbers_that_the_op_multiplies():
    kind = ops.TensorType(("m", "k"), "float8_e4m3fn")
    product = ops.matmul(kind, ops.TensorType(("k", 4), "float8_e4m3fn"))
    none = OfNothing(product, "k")
    assert none.in_words is none
    assert [str(one.ty.dtype) for one in none.prim_func().params[:1]] == ["float8_e4m3fn"]
