import inspect
import pickle

import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.suggestions import did_you_mean, meant, near_file, suggesting


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ext.ops.scan((4, 8), dimenson=0), "'dimenson'; did you mean 'dimension'"),
        (lambda: ext.ops.scan((4, 8), dimension=0, frob=1), "argument 'frob'$"),
        (lambda: ext.build(None, databse=()), "'databse'; did you mean 'database'"),
        (lambda: ext.lower(None, taget="llvm"), "'taget'; did you mean 'target'"),
        (lambda: ext.ops.scan(), "missing"),
    ],
)
def test_a_mistyped_argument_is_told_its_name(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_an_error_within_a_function_stays():
    def fails(value):
        raise TypeError("of its own")

    with pytest.raises(TypeError, match="of its own"):
        suggesting(fails)(value=1)


def test_functions_that_suggest_are_described_and_pickled_as_they_are():
    parameters = inspect.signature(ext.ops.scan).parameters
    assert {"dimension", "inclusive"} <= {*parameters}
    assert ext.ops.scan.__doc__
    assert pickle.loads(pickle.dumps(ext.ops.scan)) is ext.ops.scan
    assert inspect.signature(ext.build).parameters.keys() >= {"source", "target", "database"}
