"""Kernels and programs as operators of PyTorch's."""

import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError

torch = pytest.importorskip("torch", reason="no PyTorch: scripts/setup dev bench installs it")


def is_sound(op, *arguments, **named):
    found = torch.library.opcheck(op, arguments, named)
    return set(found.values()) == {"SUCCESS"}


@pytest.fixture(scope="module")
def scatter():
    return ext.build(ext.ops.scatter(("n", 4), ("n", 1), (16, 4)))


def test_a_kernel_is_an_operator(toys):
    op = toys.scale.torch_op("ext_test::scale")
    assert str(op._schema) == "ext_test::scale(Tensor x, float factor) -> Tensor"
    assert op is torch.ops.ext_test.scale.default
    x = torch.randn(3, 4)
    torch.testing.assert_close(op(x, 2.0), 2 * x)
    assert is_sound(op, x, 2.0)


def test_types_and_several_results(toys):
    op = toys.shift.torch_op("ext_test::shift")
    assert str(op._schema).endswith("(Tensor x, SymInt offset, bool negate) -> (Tensor, Tensor)")
    x = torch.tensor([1, 2, 3], dtype=torch.int32)
    low, high = op(x, 5, True)
    assert (low.tolist(), high.tolist()) == ([4, 3, 2], [6, 7, 8])
    assert is_sound(op, x, 5, True)
    choose = toys.choose.torch_op("ext_test::choose")
    meta = [torch.empty(4, dtype=t, device="meta") for t in (torch.bfloat16, torch.bfloat16)]
    chosen = choose(*meta, torch.empty(4, dtype=torch.bool, device="meta"))
    assert (chosen.dtype, chosen.device.type) == (torch.bfloat16, "meta")


def test_is_part_of_a_whole_graph_of_any_extent(toys):
    op = toys.scale.torch_op("ext_test::scale")
    graphs = []

    def count(graph, examples):
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda x: op(x + 1, 2.0) - 1, backend=count, fullgraph=True)
    for rows in (2, 3, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), 2 * (x + 1) - 1)
    assert len(graphs) == 2  # of the first extent, and of any


def test_is_exported_with_its_open_extent(toys):
    op = toys.scale.torch_op("ext_test::scale")

    class Model(torch.nn.Module):
        def forward(self, x):
            return op(x, 3.0)

    rows = torch.export.Dim("rows")
    program = torch.export.export(Model(), (torch.randn(3, 4),), dynamic_shapes=({0: rows},))
    assert op in [node.target for node in program.graph.nodes]
    x = torch.randn(7, 4)
    torch.testing.assert_close(program.module()(x), 3 * x)


def test_a_result_in_place_is_what_the_operator_mutates(scatter):
    op = scatter.torch_op("ext_test::scatter_", mutates_args=["original"])
    updates, indices = torch.ones(2, 4), torch.tensor([[3], [5]], dtype=torch.int32)
    original = torch.zeros(16, 4)
    version = original._version
    assert op(updates, indices, original) is None
    assert (original.sum(), original._version) == (8, version + 1)
    assert is_sound(op, updates, indices, original)
    compiled = torch.compile(
        lambda x: (op(updates, indices, x), x + 1)[1], backend="aot_eager", fullgraph=True
    )
    assert compiled(torch.zeros(16, 4)).sum() == 72
    with pytest.raises(CallError, match="mutates_args names 'updates'; inputs in"):
        scatter.torch_op("ext_test::other", mutates_args=["updates"])


def test_a_name_stands_for_one_kernel(toys, scatter):
    op = toys.scale.torch_op("ext_test::scale")
    assert ext.load(toys.scale.folder).torch_op("ext_test::scale") is op
    with pytest.raises(CallError, match="the operator ext_test::scale is there and computes anoth"):
        scatter.torch_op("ext_test::scale")
    with pytest.raises(CallError, match="PyTorch has an operator aten::add"):
        scatter.torch_op("aten::add")
    with pytest.raises(CallError, match="takes a name as 'namespace::name'; 'scale' came"):
        scatter.torch_op("scale")


def test_refuses_what_does_not_fit_before_it_runs(toys):
    op = toys.scale.torch_op("ext_test::scale")
    for device in ("cpu", "meta"):
        x = torch.randn(3, 4, device=device)
        with pytest.raises(CallError, match="x is float64; expected float32"):
            op(x.double(), 2.0)
        with pytest.raises(CallError, match="x axis 1 has extent 3; expected 4"):
            op(x[:, :3], 2.0)
        with pytest.raises(CallError, match="x requires grad, and a kernel has no backward"):
            op(x.requires_grad_(), 2.0)
    with pytest.raises(CallError, match="x requires grad"):
        torch.func.grad(lambda x: op(x, 2.0).sum())(torch.randn(3, 4))
    compiled = torch.compile(lambda x: op(x, 2.0), backend="aot_eager")
    with pytest.raises(Exception, match="x requires grad, and a kernel has no backward"):
        compiled(torch.randn(3, 4, requires_grad=True))
