import argparse
import json

import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.cli.layout import add_layout
from tvm_iree_ext.layout import NestedLayout, svg_picture

ROWS = NestedLayout((1, 1), (1, 1), (1, 1), (4, 1), (1, 4), (0, 0), (1, 0))
COLUMNS = NestedLayout((1, 1), (1, 1), (1, 1), (1, 4), (4, 1), (0, 0), (0, 1))


@pytest.fixture
def layout(capsys):
    """Runs the command with some arguments; returns what it prints."""
    parser = argparse.ArgumentParser()
    add_layout(parser.add_subparsers(required=True))

    def run(*arguments):
        args = parser.parse_args(["layout", *map(str, arguments)])
        args.run(args)
        return capsys.readouterr().out

    return run


def test_prints_shapes_ids_and_picture(layout):
    lines = layout(ROWS).splitlines()
    assert lines[0] == str(ROWS)
    assert "undistributed shape         [4, 4]" in lines
    assert "distributed unpacked shape  [1, 4]" in lines
    assert "virtual id of lane t        (t mod 4, 0)" in lines
    assert "lane of virtual id v        v0" in lines
    assert "4x4 over 1 subgroup of 4 lanes" in lines


def test_is_colourless_where_output_is_no_terminal(layout):
    assert "\x1b" not in layout(ROWS)


def test_is_coloured_in_a_terminal_unless_told_otherwise(layout, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[48;5;" in layout(ROWS)
    assert "\x1b" not in layout(ROWS, "--no-color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in layout(ROWS)


def test_explains_a_conversion(layout):
    text = layout(ROWS, "--to", COLUMNS)
    assert "shuffle: lane 0 of subgroup 0 holds (0, 0..3) in the source" in text
    assert "1 x lane ^ 1, 1 x lane ^ 2, 1 x lane ^ 3" in text
    assert "free: every lane holds the same" in layout(ROWS, "--to", ROWS)


def test_takes_the_hardware_that_both_layouts_need(layout):
    halves = NestedLayout((2, 1), (1, 1), (1, 1), (2, 1), (1, 4), (1, 0), (1, 0))
    assert "over 2 subgroups of 4 lanes" in layout(halves, "--to", ROWS)
    assert "over 4 subgroups of 8 lanes" in layout(
        halves, "--num-subgroups", 4, "--subgroup-size", 8
    )


def test_says_where_there_is_no_butterfly(layout):
    source = NestedLayout((1,), (2,), (1,), (3,), (1,), (0,), (1,))
    result = NestedLayout((1,), (1,), (1,), (3,), (2,), (0,), (1,))
    assert "no butterfly" in layout(source, "--to", result)


def test_json_holds_all_of_it(layout):
    data = json.loads(layout(ROWS, "--to", COLUMNS, "--json"))
    assert NestedLayout(**data["layout"]) == ROWS
    assert data["attribute"] == str(ROWS)
    assert data["undistributed_shape"] == [4, 4]
    assert data["virtual_lanes"] == [[0, 0], [1, 0], [2, 0], [3, 0]]
    assert (data["subgroups_per_element"], data["lanes_per_element"]) == (1, 1)
    assert data["to"]["distributed_shape"] == [1, 1, 1, 1, 4, 1]
    assert data["conversion"]["movement"] == "shuffle"
    assert data["conversion"]["xor_masks"] == [0, 1, 2, 3]
    assert data["conversion"]["source_lane"][0][2] == [0, 1, 2, 3]


def test_draws_into_a_file(layout, tmp_path):
    layout(ROWS, "--svg", tmp_path / "rows.svg", "--num-subgroups", 2)
    assert (tmp_path / "rows.svg").read_text("utf-8") == svg_picture(ROWS, 2, 4)


def test_refuses_what_the_api_refuses(layout):
    with pytest.raises(LayoutError, match="line 1, column 1: expected '#iree_vector_ext"):
        layout("nested")
    with pytest.raises(LayoutError, match="subgroup_size is 3"):
        layout(ROWS, "--subgroup-size", 3)
    with pytest.raises(LayoutError, match="num_subgroups is 0"):
        layout(ROWS, "--num-subgroups", 0)
    with pytest.raises(LayoutError, match="a conversion keeps the shape"):
        layout(ROWS, "--to", NestedLayout((1,), (1,), (1,), (4,), (1,), (0,), (1,)))
