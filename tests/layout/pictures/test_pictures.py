import re
import xml.etree.ElementTree as ElementTree

import pytest

from tvm_iree_ext.base.errors import BuildError, LayoutError
from tvm_iree_ext.layout import NestedLayout, save_svg, svg_picture, text_picture
from tvm_iree_ext.layout.pictures.layout_picture import Picture, axis_runs

DOCUMENTED = NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))
LARGE = NestedLayout((2, 2), (4, 4), (2, 1), (8, 8), (2, 4), (2, 1), (8, 1))
SCALAR = NestedLayout((), (), (), (), (), (), ())
CUBE = NestedLayout((2, 1, 1), (1, 2, 1), (1, 1, 1), (2, 2, 4), (2, 1, 2), (1, 0, 0), (8, 4, 1))
LINE = NestedLayout((1,), (2,), (1,), (4,), (2,), (0,), (1,))


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def svg_texts(svg, kind):
    root = ElementTree.fromstring(svg)
    return [e.text for e in root.iter("{http://www.w3.org/2000/svg}text") if e.get("class") == kind]


def test_small_layouts_are_shown_whole():
    assert text_picture(LINE, color=False) == "\n".join(
        [
            "16 over 1 subgroup of 4 lanes",
            "each lane holds 4; each element has 1 owner",
            "",
            "column 0 2 4 6 8 10 12 14",
            " local 0 0 0 0 2  2  2  2",
            "       0 1 2 3 0  1  2  3",
            "",
            "a cell is 2 elements of a lane",
            "lane 0 of subgroup 0 holds, by register:",
            "  0..1: (0..1)   2..3: (8..9)",
        ]
    )


def test_rows_and_columns_have_margins():
    lines = text_picture(DOCUMENTED, color=False).splitlines()
    assert lines[3].split()[:6] == ["column", "0", "4", "8", "12", "16"]
    assert lines[4].split()[:7] == ["row", "local", "0", "0", "0", "0", "4"]
    assert lines[5].split()[:6] == ["0", "0", "0:0", "0:16", "0:32", "0:48"]
    assert "rows 16..31: the same lanes, 1 more time" in lines


def test_subgroups_have_colours_where_allowed():
    colored = text_picture(DOCUMENTED)
    assert "\x1b[48;5;153;38;5;16m" in colored
    assert "0:16" not in colored
    assert " subgroup 1 " in plain(colored)
    assert "\x1b" not in text_picture(DOCUMENTED, color=False)


def test_more_subgroups_than_colours_are_named_instead():
    many = NestedLayout((16,), (1,), (1,), (1,), (2,), (1,), (0,))
    assert "15:0" in text_picture(many, color=True)


@pytest.mark.parametrize("layout", [DOCUMENTED, LARGE, CUBE, LINE], ids=lambda layout: layout.rank)
@pytest.mark.parametrize("width", [80, 120])
def test_pictures_fit_the_terminal(layout, width):
    text = text_picture(layout, color=False, width=width)
    assert max(map(len, text.splitlines())) <= width


def test_replication_is_told():
    text = text_picture(DOCUMENTED, num_subgroups=4, subgroup_size=128, color=False)
    assert "each element has 4 owners" in text
    assert "0 is subgroups 0, 2; 1 is subgroups 1, 3" in text
    assert "a number stands for 2 lanes: 0 for 0, 64" in text
    scalar = text_picture(SCALAR, 2, 16, color=False)
    assert "each element has 32 owners" in scalar
    assert "a number stands for 16 lanes: 0 for 0, 1, 2, ..., 15" in scalar
    assert "the same in all subgroups" in scalar


def test_fewer_subgroups_than_tiles_hold_parts():
    text = text_picture(NestedLayout((4,), (1,), (1,), (2,), (1,), (1,), (1,)), 2, 2, color=False)
    assert "each lane holds 2 parts of 1" in text
    assert "0: (0)   1: (4)" in text


def test_higher_ranks_are_sliced():
    text = text_picture(CUBE, color=False)
    assert [line for line in text.splitlines() if line.endswith(", :, :]")] == [
        f"[{rows}, :, :]" for rows in ("0..1", "2..3", "4..5", "6..7")
    ]
    deep = NestedLayout(
        (1,) * 4, (4, 5, 1, 1), (1,) * 4, (1, 1, 2, 2), (1,) * 4, (0,) * 4, (0, 0, 2, 1)
    )
    assert "(14 more slices)" in text_picture(deep, color=False)
    assert "... and 14 more slices" in svg_picture(deep)


def test_gaps_cover_the_dimension_without_overlap():
    for layout in (DOCUMENTED, LARGE, NestedLayout((8,), (3,), (2,), (64,), (2,), (1,), (1,))):
        for dim, extent in enumerate(layout.undistributed_shape):
            for limit in range(4, 70):
                runs = axis_runs(layout, dim, limit)
                covered = [x for run in runs for x in range(run.start, run.stop)]
                assert covered == list(range(extent))


def test_repeats_are_left_out_before_lanes():
    labels = [(run.label, run.gap) for run in axis_runs(DOCUMENTED, 1, 15)]
    assert labels == [
        ("0..3", ""),
        ("4..7", ""),
        ("8..11", ""),
        ("12..15", ""),
        ("16..63", "the same lanes, 3 more times"),
    ]


def test_a_cell_knows_its_lane_and_registers():
    picture = Picture(DOCUMENTED, 2, 64, 64, 64)
    row, column = picture.rows[49], picture.columns[7]  # row 49, columns 28..31
    cell = picture.cell((), row, column)
    assert (cell.subgroup, cell.lane) == (1, 1 + 3 * 16)
    assert cell.registers.tolist() == [[20, 21, 22, 23]]


def test_svg_shows_lanes_registers_and_subgroups():
    svg = svg_picture(LINE)
    assert svg_texts(svg, "lane") == ["0", "1", "2", "3", "0", "1", "2", "3"]
    assert svg_texts(svg, "register") == ["0", "1"] * 4 + ["2", "3"] * 4
    assert svg_texts(svg_picture(DOCUMENTED, 4, 64), "note").count("subgroups 0, 2") == 1
    assert "<title>(8..9): lane 0 of subgroup 0, registers 2, 3</title>" in svg


@pytest.mark.parametrize("layout", [SCALAR, LINE, DOCUMENTED, CUBE, LARGE], ids=lambda x: x.rank)
def test_svg_is_well_formed_and_of_usable_size(layout):
    root = ElementTree.fromstring(svg_picture(layout))
    width, height = int(root.get("width")), int(root.get("height"))
    assert 200 < width < 2400
    assert 150 < height < 2400


def test_svg_says_what_it_leaves_out():
    assert "the same lanes, 3 more times" in svg_texts(svg_picture(LARGE), "gap")
    line = NestedLayout((1,), (2,), (1,), (64,), (2,), (0,), (1,))
    assert "columns 128..255: the same lanes, 1 more time" in svg_texts(svg_picture(line), "note")


def test_svg_of_a_very_wide_tile_leaves_registers_to_the_tooltip():
    wide = NestedLayout((1, 1), (1, 1), (1, 1), (4, 1), (1, 256), (0, 0), (1, 0))
    svg = svg_picture(wide)
    assert svg_texts(svg, "register") == []
    assert "registers 0, 1, 2" in svg


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "layout.svg"
    save_svg(path, LINE)
    assert path.read_text("utf-8") == svg_picture(LINE)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(BuildError, match=r"layout: cannot write .*missing.*: No such file"):
        save_svg(tmp_path / "missing" / "layout.svg", LINE)
    folder = tmp_path / "folder.svg"
    folder.mkdir()
    with pytest.raises(BuildError, match="cannot write"):
        save_svg(folder, LINE)
    assert sorted(tmp_path.iterdir()) == [folder, path]


def test_refuses_what_cannot_be_spread_or_listed():
    with pytest.raises(LayoutError, match="num_subgroups is 3"):
        svg_picture(DOCUMENTED, 3)
    with pytest.raises(LayoutError, match="overlapping strides"):
        text_picture(NestedLayout((1,) * 2, (1,) * 2, (1,) * 2, (4, 4), (1,) * 2, (0,) * 2, (2, 1)))
    huge = NestedLayout((1,), (2**40,), (1,), (1,), (1,), (0,), (0,))
    with pytest.raises(LayoutError, match=r"shape \[1099511627776\], held 1 times, is too large"):
        text_picture(huge)
