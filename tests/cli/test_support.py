"""``tvm-iree-ext support``."""

import json

import onnx
import torch

REFUSED = """
<ir_version: 10, opset_import: ["" : 26]>
g (float[3] x) => (int32[3] y) {
  a = Relu(x)
  y = BitCast <to = 6> (a)
}
"""


def test_an_exported_program_that_imports(command, tmp_path):
    path = tmp_path / "taken.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 4), (torch.randn(2, 4),)), path)
    done = command("support", path)
    assert done.status == 0, done.err
    assert done.lines[2].split() == ["aten.linear.default", "1", "IREE's", "front", "end"]
    assert done.lines[-1] == "imports by IREE's front end: all nodes, 1"
    assert command("import", path).out == "main(arg0: float32[2, 4]) -> float32[2, 4]\n"


def test_a_model_of_onnx_that_does_not_import(command, tmp_path):
    path = tmp_path / "refused.onnx"
    onnx.save(onnx.parser.parse_model(REFUSED), path)
    done = command("support", path, "--nodes")
    assert done.status == 1, done.err
    assert done.lines[-3:] == ["BitCast y", "", "does not import: 1 of 2 nodes is refused"]
    nodes = json.loads(command("support", path, "--json").out)["nodes"]
    assert [one["way"] for one in nodes] == ["taken", "refused"]


def test_other_files_are_refused(command):
    assert command("support", "model.mlir").status == 2
