import json

from tvm_iree_ext import support
from tvm_iree_ext.registry import ENTRIES


def test_shows_each_op_with_each_target(command):
    done = command("list")
    assert done.status == 0
    assert len(done.lines) == len(ENTRIES) * (1 + len(support.usual_targets()))
    assert done.lines[0].startswith("iree_linalg_ext.attention: softmax(")
    assert done.lines[1] == "    runs      llvm"


def test_json_is_the_table(command):
    rows = json.loads(command("list", "--json").out)
    assert {row["op"]: row["targets"] for row in rows} == support.support()
    assert [row["summary"] for row in rows] == [entry.summary for entry in ENTRIES.values()]
