"""``torch.compile`` with programs in place of its graphs."""

import logging

import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, MlirError
from tvm_iree_ext.runtime import cache

torch = pytest.importorskip("torch", reason="pip install 'tvm-iree-ext[pytorch]'")
pytest.importorskip("iree.turbine", reason="pip install 'tvm-iree-ext[pytorch]'")

from opaque_operator import opaque  # noqa: E402

from tvm_iree_ext.frontends.torch.torch_compile import torch_backend  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Counted:
    """The backend, which counts graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, examples, **options):
        self.graphs += 1
        return torch_backend(graph, examples, **options)


def agrees(module, *inputs, graphs=1, **options):
    backend = Counted()
    compiled = torch.compile(module, backend=backend, **options)
    for arguments in inputs:
        torch.testing.assert_close(compiled(*arguments), module(*arguments), rtol=1e-4, atol=1e-5)
    assert backend.graphs == graphs


def test_a_perceptron_of_any_batch():
    layers = torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)
    model = torch.nn.Sequential(*layers).eval()
    batches = [torch.randn(rows, 8) for rows in (4, 6, 9)]
    backend = Counted()
    compiled = torch.compile(model, backend=backend)
    for x in batches:
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        model[0].weight.mul_(2)  # weights are the module's own
    assert backend.graphs == 2  # of the first batch, and of any


def test_a_convolutional_network():
    layers = torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 3)).eval()
    agrees(model, (torch.randn(2, 2, 6, 6),), options={"freeze": True})


def test_a_transformer_layer_which_dynamo_has_as_one_operator():
    layer = torch.nn.TransformerEncoderLayer(4, 2, 4, batch_first=True).eval()
    left_out = torch.zeros(2, 3, dtype=torch.bool)
    left_out[1, 2:] = True

    def masked(x):
        return layer(x, src_key_padding_mask=left_out)

    agrees(masked, (torch.randn(2, 3, 4),))


def test_what_is_no_tensor_of_its_own_is_done_beside_the_program():
    def rest(x):
        y = torch.nn.functional.layer_norm(x, (4,), eps=1e-3).relu()
        return y.reshape(x.shape[0] * 2, -1), x.shape[0] + 1, x, x[1:].T, y.sum()

    agrees(rest, (torch.randn(3, 4),), (torch.randn(5, 4),), dynamic=True)
    x = torch.randn(3, 4)
    view = torch.compile(lambda x: (x[1:], x + 1), backend=torch_backend)(x)[0]
    assert view.data_ptr() == x[1:].data_ptr()


def test_inputs_and_buffers_that_a_graph_writes_are_written():
    counts = torch.zeros(3)

    def step(x):
        counts.add_(1)
        x.mul_(counts)
        return x + 1

    compiled = torch.compile(step, backend=torch_backend)
    x = torch.ones(3)
    assert compiled(x).tolist() == [2, 2, 2]
    assert compiled(x).tolist() == [3, 3, 3]
    assert (counts.tolist(), x.tolist()) == ([2, 2, 2], [2, 2, 2])


def test_breaks_of_graphs_are_dynamos():
    def broken(x):
        y = x - 1
        torch._dynamo.graph_break()
        return y + 1

    agrees(broken, (torch.randn(3),), graphs=2)


def test_what_is_not_taken_is_named_by_its_line_or_runs_as_eager(caplog):
    def values(x):
        return opaque(x + 1)

    x = torch.randn(3, 3)
    with pytest.raises(Exception, match=r"(?s)test_torch_compile\.py.*opaque") as found:
        torch.compile(values, backend=torch_backend)(x)
    assert isinstance(found.value.inner_exception, MlirError)
    torch._dynamo.reset()
    with caplog.at_level(logging.WARNING):
        came = torch.compile(values, backend=torch_backend, options={"fallback": True})(x)
    torch.testing.assert_close(came, values(x))
    assert "a graph of torch.compile runs as eager PyTorch: IREE does not lower" in caplog.text


def test_training_and_foreign_options_are_refused():
    model, x = torch.nn.Linear(3, 3), torch.randn(2, 3)
    with (
        torch.enable_grad(),
        pytest.raises(Exception, match="requires grad, and a program has no backward pass"),
    ):
        torch.compile(model, backend=torch_backend)(x)
    for options, said in (
        ({"options": {"freez": True}}, "no option 'freez'; expected target, fallback, freeze"),
        ({"mode": "max-autotune"}, "the mode 'max-autotune' is inductor's"),
    ):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=said):
            torch.compile(model, backend=torch_backend, **options)(x)


def test_pytorch_finds_the_backend_by_name(pyproject, tmp_path, monkeypatch):
    group = "torch_dynamo_backends"
    (name, place) = next(iter(pyproject["project"]["entry-points"][group].items()))
    folder = tmp_path / "only_this-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: only_this\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[{group}]\n{name} = {place}\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = torch._dynamo.backends.registry
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    registry._lazy_import.cache_clear()
    registry._discover_entrypoint_backends.cache_clear()
    assert "tvm_iree_ext" in torch._dynamo.list_backends()
    assert registry.lookup_backend("tvm_iree_ext") is torch_backend
    registry._discover_entrypoint_backends.cache_clear()


def test_a_program_is_an_operator():
    class Places(torch.nn.Module):
        def forward(self, x):
            return x.nonzero()

    x = torch.tensor([0.0, 3, 4, 0, 5])
    extent = torch.export.Dim("extent")
    program = ext.from_torch(Places(), x, dynamic_shapes=({0: extent},))
    op = program.torch_op("ext_test::places")
    assert op(x[:4]).tolist() == [[1], [2]]
    shapes = []

    def graph_of(graph, examples):
        shapes.extend(
            node.meta["example_value"].shape
            for node in graph.graph.find_nodes(op="call_function", target=op)
        )
        return graph

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert torch.compile(op, backend=graph_of, fullgraph=True)(x).tolist() == [[1], [2], [4]]
    assert not isinstance(shapes[0][0], int)  # data says it

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            return self.total.add_(x) + 1

    with pytest.raises(CallError, match="keeps state between calls"):
        ext.from_torch(Sum(), torch.ones(3)).torch_op("ext_test::sum")
