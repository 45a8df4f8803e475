"""Exported programs decomposed by their different nodes are those that PyTorch traces as wholes."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from tvm_iree_ext.frontends.torch.base import torch_decomposed  # noqa: E402

aten = torch.ops.aten


class Steps(torch.nn.Module):
    """Steps that are alike, with views, several results, a list of tensors and a constant."""

    def forward(self, x, y):
        rows = []
        for step in range(6):
            low, high = x[step].chunk(2)
            rows.append(torch.nn.functional.gelu(low) * high.to(torch.float32) + y)
        values, places = torch.stack(rows).max(0)
        return values, places, x.contiguous(), torch.full((2,), 3)


class Updated(torch.nn.Module):
    """An update in place: such a program is traced as a whole."""

    def forward(self, x, y):
        return x.clone().add_(y), x.chunk(2)[0]


def exported(module, *examples, **options):
    return torch.export.export(module, examples, strict=False, **options)


def table():
    return dict(torch.export.default_decompositions())


def operators(program):
    return Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")


def same(results, wanted):
    for result, want in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, want)


def test_nodes_become_what_the_whole_becomes():
    examples = torch.randn(6, 8), torch.randn(4)
    program = exported(Steps(), *examples)
    whole = program.run_decompositions(table())
    found = torch_decomposed.decomposed(program, table())
    assert found is program  # traced as a whole it is another
    assert operators(found) == operators(whole)
    same(found.module()(*examples), Steps()(*examples))
    specs = [(one.kind, one.arg.name) for one in found.graph_signature.output_specs]
    names = [node.name for node in next(iter(reversed(found.graph.nodes))).args[0]]
    assert [name for _, name in specs] == names


def test_functions_stand_in_the_places_of_nodes():
    examples = torch.randn(6, 8), torch.randn(4)
    program = exported(Steps(), *examples).run_decompositions({})
    nodes = program.graph.find_nodes(op="call_function", target=aten.gelu.default)
    assert len(nodes) == 6
    for node in nodes:
        node.target = lambda x: x.sin() * 2
    assert torch_decomposed.in_places(program, {}, nodes)
    count = operators(program)
    assert (count["aten.sin.default"], count["aten.gelu.default"]) == (6, 0)
    x, y = examples
    want = [low.sin() * 2 * high + y for low, high in (row.chunk(2) for row in x)]
    torch.testing.assert_close(program.module()(x, y)[0], torch.stack(want).max(0)[0])


@pytest.mark.parametrize("case", ["updates", "open extents"])
def test_other_programs_are_traced_as_wholes(case):
    if case == "updates":
        program = exported(Updated(), torch.randn(4, 4), torch.randn(4))
    else:
        shapes = {"x": {1: 2 * torch.export.Dim("n", min=2)}, "y": None}
        program = exported(Steps(), torch.randn(6, 8), torch.randn(1), dynamic_shapes=shapes)
    before = [node.target for node in program.graph.nodes]
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    assert not torch_decomposed.in_places(program, table(), nodes)
    assert [node.target for node in program.graph.nodes] == before
