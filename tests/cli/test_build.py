import json

import numpy as np
import pytest

from tvm_iree_ext import load
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.cli.build import read_config
from tvm_iree_ext.runtime import artifact

TYPES = ["1x2x4x8xf32", "1x2x16x8xf32", "1x2x16x8xf32"]


def test_builds_and_exports_what_can_be_loaded(command, tmp_path):
    done = command("build", "attention", *TYPES, "-o", tmp_path / "attention")
    assert (done.status, done.err) == (0, "")
    assert [line.split()[0] for line in done.lines] == [
        "op",
        "attributes",
        "target",
        "config",
        "provenance",
        "resources",
        "done",
        "artifact",
        "next",
    ]
    assert "done        built in " in done.out
    assert done.lines[-2].endswith(str(tmp_path / "attention"))
    assert done.lines[-1].startswith(f"next        tvm_iree_ext.load('{tmp_path / 'attention'}')")
    ones = np.ones((1, 2, 16, 8), "float32")
    np.testing.assert_allclose(load(tmp_path / "attention")(ones[:, :, :4], ones, ones), 1, 1e-6)


def test_without_a_folder_it_is_in_the_cache(command, tmp_path):
    data = json.loads(command("build", "attention", *TYPES, "--json").out)
    assert data["artifact"].startswith(str(tmp_path / "cache"))
    assert data["from_cache"] is False
    again = command("build", "attention", *TYPES)
    assert "done        from the cache, in 0." in again.out
    assert "next        -o FOLDER exports it" in again.out
    assert artifact.read(data["artifact"]).op == "iree_linalg_ext.attention"
    assert data["provenance"] == "heuristic"


def test_the_config_that_it_prints_can_be_given(command, tmp_path):
    data = json.loads(command("build", "attention", *TYPES, "--json").out)
    text = json.dumps(data["config"])
    (tmp_path / "config.json").write_text(text)
    for config in (text, tmp_path / "config.json"):
        again = json.loads(command("build", "attention", *TYPES, "--config", config, "--json").out)
        assert again["config"] == data["config"]
        assert again["provenance"] == "given"


def test_options_may_stand_before_the_operands(command):
    settings = ("--set", "causal=true", "--target", "llvm:x86-64-v3@x86_64-linux-gnu")
    data = json.loads(command("build", "attention", *settings, *TYPES, "--json").out)
    assert data["attributes"]["band"] == {"left": None, "right": 0, "align_end": False}
    assert data["target"]["mcpu"] == "x86-64-v3"


def test_explains_an_op(command):
    done = command("build", "attention", "--help-op")
    assert done.status == 0
    assert done.lines[0].startswith("iree_linalg_ext.attention: softmax(")
    assert "    window: ``(left, right)``" in done.out
    assert "transpose_rhs" in command("build", "matmul", "--help-op").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["softmax", "4xf32"], "no op 'softmax'; registered are "),
        (["attention", "1x2x"], "'1x2x' is not a type such as"),
        (["attention", *TYPES, "--target", "tpu"], "target 'tpu': kind is 'tpu'; supported are"),
        (["attention", *TYPES, "--target", "{"], "target '{' is not JSON"),
        (["attention", *TYPES, "--config", "{"], "lowering config: --config is not JSON"),
        (["attention", *TYPES, "--config", "none.json"], "cannot read none.json: No such file"),
        (["attention", *TYPES, "--config", "{}"], "algorithm is ''; expected one of lanes"),
        (["attention", *TYPES, "-o", "/dev/null"], "cannot write the artifact /dev/null"),
    ],
)
def test_a_refusal_is_one_line(command, arguments, message):
    done = command("build", *arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("tvm-iree-ext: ")
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"tile": 3}', "unknown field tile; known are algorithm"),
        ('{"workgroup_tile": 3}', "workgroup_tile is 3; expected an object"),
        ('{"vector_lanes": "16"}', "vector_lanes is '16'; expected a number"),
        ('{"vector_lanes": true}', "vector_lanes is True; expected a number"),
        ('{"parallel": 1}', "parallel is 1; expected true or false"),
        ('{"promote": "key"}', "promote is 'key'; expected a list"),
    ],
)
def test_refuses_configs(text, message):
    with pytest.raises(ScheduleError, match=f"lowering config: {message}"):
        read_config(text)


def test_refuses_files_that_are_no_config(tmp_path):
    file = tmp_path / "config"
    for content, message in ((b"[]", "holds no JSON object"), (b"\xff", "cannot read")):
        file.write_bytes(content)
        with pytest.raises(ScheduleError, match=message):
            read_config(str(file))
