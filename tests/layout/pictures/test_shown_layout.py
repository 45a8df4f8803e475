"""What a notebook shows of layouts and of conversions."""

from xml.etree import ElementTree

from tvm_iree_ext.layout import NestedLayout, analyse_conversion

SVG = "{http://www.w3.org/2000/svg}"
HALVES = NestedLayout((2,), (1,), (1,), (4,), (2,), (1,), (1,))
WHOLE = NestedLayout((1,), (2,), (1,), (4,), (2,), (0,), (1,))
ROWS = NestedLayout((1, 1), (1, 1), (1, 1), (4, 1), (1, 4), (0, 0), (1, 0))
COLUMNS = NestedLayout((1, 1), (1, 1), (1, 1), (1, 4), (4, 1), (0, 0), (0, 1))


def own_texts(svg):
    """The texts of a picture, without those of pictures in it."""
    return [text.text for text in ElementTree.fromstring(svg).findall(f"{SVG}text")]


def test_a_layout_is_shown_as_its_picture():
    svg = HALVES._repr_svg_()
    lanes = ElementTree.fromstring(svg).iterfind(f".//{SVG}text[@class='lane']")
    assert [lane.text for lane in lanes] == ["0", "1", "2", "3", "0", "1", "2", "3"]
    assert svg.count('class="nested-layout"') == 1


def test_of_a_layout_that_cannot_be_drawn_the_text_is_left():
    assert NestedLayout((1,), (1,), (1,), (4,), (2,), (0,), (0,))._repr_svg_() is None
    assert NestedLayout((1,), (1 << 30,), (1,), (4,), (2,), (0,), (1,))._repr_svg_() is None


def test_styles_of_a_picture_hold_for_no_other_element_of_the_page():
    conversion = analyse_conversion(HALVES, WHOLE, 2, 4)
    for svg in (HALVES._repr_svg_(), conversion._repr_svg_()):
        for style in ElementTree.fromstring(svg).iter(f"{SVG}style"):
            rules = style.text.strip().splitlines()
            assert rules
            assert all(r.startswith((".nested-layout ", ".layout-conversion ")) for r in rules)


def test_a_conversion_shows_both_layouts_and_every_source():
    conversion = analyse_conversion(HALVES, WHOLE, 2, 4)
    svg = conversion._repr_svg_()
    pictures = ElementTree.fromstring(svg).findall(f"{SVG}svg")
    assert len(pictures) == 2
    texts = own_texts(svg)
    assert {"source", "result", "shared memory", "stays", "from another subgroup"} <= {*texts}
    assert texts[-4:] == ["3:0", "3:1", "1:3:0", "1:3:1"]  # of the last lane
    assert "from another lane" not in texts


def test_a_conversion_draws_the_subgroup_that_takes_from_elsewhere():
    """Of four subgroups the first and the last hold what they need."""
    source = NestedLayout((2,), (1,), (1,), (2,), (1,), (1,), (1,))
    result = NestedLayout((2,), (1,), (1,), (2,), (1,), (2,), (1,))
    texts = own_texts(analyse_conversion(source, result, 4, 2)._repr_svg_())
    assert any("of subgroup 1 in the result" in text for text in texts)
    assert texts[-4:] == ["lane 0", "0:0:0", "lane 1", "0:1:0"]


def test_a_shuffle_names_lanes_and_registers():
    texts = own_texts(analyse_conversion(ROWS, COLUMNS, 1, 4)._repr_svg_())
    assert texts[-5:] == ["lane 3", "0:3", "1:3", "2:3", "3:3"]
    assert texts.count("stays") == texts.count("from another lane") == 1


def test_a_conversion_of_many_lanes_says_what_it_leaves_out():
    many = NestedLayout((1,), (32,), (1,), (32,), (1,), (0,), (1,))
    few = NestedLayout((1,), (1,), (1,), (32,), (32,), (0,), (1,))
    texts = own_texts(analyse_conversion(many, few, 1, 32)._repr_svg_())
    assert texts[-1] == "... and 16 more lanes, 16 more registers"
    assert len(texts) < 17 * 17 + 20
