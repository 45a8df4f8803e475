"""Parts of what notebooks show."""

from xml.etree import ElementTree

from tvm_iree_ext.base.html_parts import (
    Html,
    bar,
    escaped,
    facts,
    folded,
    joined,
    step_curve,
    table,
)

PATH = ".//{http://www.w3.org/2000/svg}path"
CIRCLE = ".//{http://www.w3.org/2000/svg}circle"


def test_text_is_escaped_once_and_html_stays():
    assert escaped("<a & 'b'>") == "&lt;a &amp; &#x27;b&#x27;&gt;"
    assert escaped(escaped("<")) == "&lt;"
    assert joined(["<", Html("<br>")], ">") == "&lt;&gt;<br>"


def test_a_table_has_a_cell_for_each_value_and_no_markup_of_them():
    cells = ElementTree.fromstring(table(("op", "<n>"), [("<b>", 1), ("c", 2)])).iter("td")
    assert [cell.text for cell in cells] == ["<b>", "1", "c", "2"]


def test_a_long_table_is_scrolled():
    assert "max-height" not in table((), [("a",)] * 20)
    assert "max-height" in table((), [("a",)] * 21)


def test_facts_that_are_not_there_have_no_row():
    text = facts([("config", ""), ("op", "scan")])
    assert "config" not in text
    assert text.count("<tr>") == 1


def test_a_bar_is_as_long_as_its_share_and_stays_in_its_cell():
    assert "25.0%" in bar(0.25, "a quarter")
    assert "100.0%" in bar(1.3, "more than all")


def test_what_is_folded_is_escaped():
    assert folded("<", Html("<p>x</p>")) == "<details><summary>&lt;</summary><p>x</p></details>"


def test_a_curve_goes_down_where_a_trial_is_better():
    root = ElementTree.fromstring(step_curve([10.0, 10.0, 5.0], [30.0, None, 5.0][:2], "a < b"))
    line = root.findall(PATH)[-1].get("d")
    heights = [float(part.split("V")[1]) for part in line.split("H")[1:]]
    assert heights[1] > heights[0]  # pixels are counted from above
    (dot,) = root.findall(CIRCLE)
    assert 0 < float(dot.get("cy")) < heights[0]  # far above, at the edge


def test_a_curve_of_equal_times_or_of_none_is_drawn():
    for values in ([3.0, 3.0], [0.0], [0.0, 0.0]):
        ElementTree.fromstring(step_curve(values, [], ""))
