"""Places of operations, carried by calls."""

from tvm import relax

from tvm_iree_ext.mlir.importing.places import Place, joined, place_of, placed, places_of
from tvm_iree_ext.mlir.reading import form


def call_of(name, location):
    op = form.ParsedOperation(name, [], [], {}, [], location)
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    return op, placed(relax.op.add(x, x), op)


def test_a_call_carries_the_operation_its_line_and_its_file():
    for location, at in [
        (form.Location(3, 7), "3:7"),
        (form.Location(3, 7, "a b.py"), "a b.py:3:7"),
        (form.Location(0, 0), ""),
    ]:
        op, call = call_of("arith.addf", location)
        assert places_of(call) == (Place("arith.addf", at),) == (place_of(op),)
    assert str(Place("arith.addf", "3:7")) == "arith.addf at 3:7"
    assert str(Place("arith.addf")) == "arith.addf"


def test_a_call_for_no_operation_has_none():
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    call = placed(relax.op.add(x, x), None)
    assert places_of(call) == places_of(joined(call, call)) == ()


def test_joined_calls_have_the_places_of_all_each_once():
    (_, first), (_, second) = (call_of("arith.addf", form.Location(line, 1)) for line in (1, 2))
    twice = joined(joined(first, second), second)
    assert [place.at for place in places_of(twice)] == ["1:1", "2:1"]
