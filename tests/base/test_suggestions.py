import pytest

from tvm_iree_ext.base.suggestions import did_you_mean, meant, near_file


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("attenton", "attention"),
        ("Attention", "attention"),
        ("on-line-attention", "online_attention"),
        ("flash", "attention"),
        ("frob", None),
        (3, None),
    ],
)
def test_suggests_the_nearest_name(word, name):
    assert meant(word, ["attention", "online_attention", "sort"], {"flash": "attention"}) == name


def test_says_so_at_the_end_of_a_message():
    assert did_you_mean("srot", ["sort"]) == "; did you mean 'sort'?"
    assert did_you_mean("frob", ["sort"]) == ""


def test_finds_files_that_are_called_nearly_so(tmp_path):
    (tmp_path / "model.mlir").touch()
    assert near_file(tmp_path / "modle.mlir") == f"; did you mean '{tmp_path / 'model.mlir'}'?"
    assert near_file(tmp_path / "nothing" / "model.mlir") == ""
