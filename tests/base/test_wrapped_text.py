import pytest

from tvm_iree_ext.base import wrapped_text
from tvm_iree_ext.base.wrapped_text import print_wrapped, refilled

TEXT = """\
What it does, in one line.

A paragraph of two lines, of which the first is
the wider.

Args:
    x: an operand whose text is wider than a line
        and goes on.
    y, z: short.
    w: no less wide than the first of them was, alas.

    formula[i] = a[i] + b
"""


def test_what_is_wider_is_filled_again():
    assert refilled(TEXT, 32).splitlines() == [
        "What it does, in one line.",
        "",
        "A paragraph of two lines, of",
        "which the first is the wider.",
        "",
        "Args:",
        "    x: an operand whose text is",
        "        wider than a line and",
        "        goes on.",
        "    y, z: short.",
        "    w: no less wide than the",
        "        first of them was, alas.",
        "",
        "    formula[i] = a[i] + b",
    ]


def test_what_fits_stays_as_it_stands():
    assert refilled(TEXT, 60) == TEXT.rstrip()


@pytest.mark.parametrize(("label", "below"), [("name  ", "      "), ("", "    ")])
def test_a_terminal_is_not_left_at_its_edge(label, below, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(wrapped_text, "width_of", lambda stream: 30)
    print_wrapped("one two three four five six seven", label)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(label + "one two")
    assert second.startswith(below)
    assert len(first) <= 30


def test_a_word_that_is_wider_than_all_is_in_one_piece(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(wrapped_text, "width_of", lambda stream: 12)
    print_wrapped("a/path/that/is/wider/than/the/terminal", "at  ")
    assert capsys.readouterr().out == "at  a/path/that/is/wider/than/the/terminal\n"


def test_a_label_without_text_stays(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    print_wrapped("", "name  ")
    assert capsys.readouterr().out == "name  \n"


def test_what_is_no_terminal_gets_lines(capsys):
    print_wrapped("one two " * 40, "name  ")
    assert len(capsys.readouterr().out.splitlines()) == 1
