"""What IREE takes as it is costs no second tracing, and what it does not take is still replaced."""

import pytest

from tvm_iree_ext.frontends.torch import torch_modules
from tvm_iree_ext.frontends.torch.torch_export import exported

torch = pytest.importorskip("torch")
pytest.importorskip("iree.turbine")
F = torch.nn.functional
functional_export = pytest.importorskip("torch._dynamo.functional_export")
from tvm_iree_ext.frontends.torch.operators.torch_unknown import unknown  # noqa: E402

X = torch.randn(2, 4, 8)
WHOLE = torch.arange(64).reshape(2, 4, 8)
MASK = torch.ones(4, 4, dtype=torch.bool)
CASES = [
    (lambda x: F.scaled_dot_product_attention(x, x, x), X, True),
    (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), X, True),
    (lambda x: F.scaled_dot_product_attention(x, x, x, MASK.to(x.device)), X, False),
    (lambda x: F.scaled_dot_product_attention(x, x, x), X.double(), False),
    (lambda x: F.gelu(x), X, True),
    (lambda x: F.gelu(x, approximate="tanh"), X, True),
    (lambda x: F.gelu(x, approximate="tanh"), X.half(), False),
    (lambda x: x > 0.5, X, True),
    (lambda x: x > 1, X, True),
    (lambda x: torch.kron(x, x), X, False),
    (lambda x: x > 1, WHOLE, True),
    (lambda x: x.double(), X, True),
    (lambda x: x.to(torch.int64), X, True),
    (lambda x: x.to(torch.int8), X, False),
    (lambda x: x.to(torch.int8), WHOLE, True),
]


class Computed(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.fixture
def tracings(monkeypatch):
    """The tables of decompositions that graphs are traced anew with."""
    seen = []
    run = torch.export.ExportedProgram.run_decompositions

    def noted(self, table=None, *rest):
        seen.append(table)
        return run(self, table, *rest)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", noted)
    return seen


@pytest.mark.costly
@pytest.mark.parametrize(("function", "x", "is_taken"), CASES)
def test_only_what_is_not_taken_is_traced_anew(tracings, function, x, is_taken):
    exported(Computed(function), (x,), {})
    assert any(one is unknown() for one in tracings) is not is_taken


def test_a_number_that_floats_are_compared_with_is_a_float():
    program = exported(Computed(lambda x: x > 1), (X,), {})
    (node,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.gt.Scalar)
    assert type(node.args[1]) is float


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x[None], scale_factor=2, mode="linear"),
        lambda x: torch.special.ndtri(x),  # by a function of ours that writes a & b
    ],
)
def test_what_iree_has_not_is_exported_once(monkeypatch, function):
    attempts = []
    once = torch_modules._import_exported
    monkeypatch.setattr(
        torch_modules, "_import_exported", lambda *given: attempts.append(given) or once(*given)
    )
    torch_modules.import_torch(Computed(function), X.reshape(2, -1), strict_export=False)
    assert len(attempts) == 1


def test_what_is_replaced_early_is_replaced(tracings):
    program = exported(Computed(lambda x: F.gelu(x, approximate="tanh")), (X,), {})
    assert len(tracings) == 1
    assert torch.ops.aten.gelu.default not in {node.target for node in program.graph.nodes}


def test_no_guards_are_made_where_extents_are_known(monkeypatch):
    made = []
    check = functional_export._suggest_or_raise_constraint_violation
    monkeypatch.setattr(
        functional_export,
        "_suggest_or_raise_constraint_violation",
        lambda *arguments: made.append(arguments) or check(*arguments),
    )
    exported(Computed(F.gelu), (X,), {})
    assert not made
    exported(Computed(F.gelu), (X,), {"dynamic_shapes": {"x": {0: torch.export.Dim("n")}}})
    assert made


def test_an_extent_that_must_be_a_number_is_refused_when_it_is_declared_open():
    options = {"dynamic_shapes": {"x": {0: torch.export.Dim("n")}}}
    with pytest.raises(torch._dynamo.exc.UserError, match="onstraint"):
        exported(Computed(lambda x: x.reshape(2, 32)), (X,), options)


def test_a_tensor_that_is_marked_open_is_checked():
    x = X.clone()
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(torch._dynamo.exc.UserError, match="onstraint"):
        exported(Computed(lambda x: x.reshape(2, 32)), (x,), {})
