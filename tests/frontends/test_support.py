"""Which nodes of models are taken, replaced or refused, said before anything is built."""

import onnx
import pytest
import torch
from opaque_operator import opaque

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.base import model_support

REFUSED = """
<ir_version: 10, opset_import: ["" : 26]>
g (float[n, 3] x) => (float[n, 3] y, float[n, 3] z) {
  a = Mish(x)
  b = BitCast <to = 6> (a)
  c = BitCast <to = 6> (x)
  d = BitwiseAnd(b, c)
  e = BitCast <to = 1> (d)
  y = Mish(e)
  z = LpNormalization(a)
}
"""


def test_each_node_of_a_refused_model_of_onnx_is_tried_alone():
    support = ext.frontends.support_onnx(onnx.parser.parse_model(REFUSED))
    ways = {node.name: (node.way, node.front_end) for node in support.nodes}
    assert ways == {
        "Mish a": ("taken", "IREE"),
        "BitCast b": ("refused", ""),
        "BitCast c": ("refused", ""),
        "BitwiseAnd d": ("taken", "IREE"),
        "BitCast e": ("refused", ""),
        "Mish y": ("taken", "IREE"),
        "LpNormalization z": ("replaced", "IREE"),
    }
    assert not support
    assert "BitCast" in support.refused[0].reason
    assert model_support.summary(support) == "does not import: 3 of 7 nodes are refused"
    first, *_, last = model_support.rows(support)
    assert first[:2] == ("BitCast", "2")
    assert first[2].startswith("refused: ")
    assert last == ("LpNormalization", "1", "other operators, by IREE's front end")


class Module(torch.nn.Module):
    def forward(self, x):
        values, places = x.tanh().topk(2)
        return values, places, opaque(x)


@pytest.fixture
def exported():
    batch = torch.export.Dim("batch")
    examples = (torch.randn(5, 4),)
    return torch.export.export(Module(), examples, dynamic_shapes=({0: batch},))


def test_each_operator_of_a_refused_program_of_pytorch_is_tried_alone(exported):
    support = ext.frontends.support_torch(exported)
    ways = {node.operator.split(".")[1]: node.way for node in support.nodes}
    (refused,) = support.refused
    assert refused.operator == "tests_of_tvm_iree_ext.opaque.default"
    assert refused.reason == "IREE does not lower tests_of_tvm_iree_ext.opaque"
    line = Module.forward.__code__.co_firstlineno + 2
    assert refused.place == f"{__file__}:{line}"
    assert (ways["tanh"], ways["topk"]) == ("taken", "replaced")


def test_files_that_hold_no_program_are_named(tmp_path):
    (tmp_path / "broken.pt2").write_bytes(b"no archive")
    with pytest.raises(MlirError, match=r"broken\.pt2 is no program of torch\.export\.save"):
        ext.frontends.read_exported(tmp_path / "broken.pt2")
