"""Python source of translated kernels: where an expression is computed, and how often."""

from tvm_iree_ext.simulator.translation.python_source import PythonEmitter


def test_a_pure_expression_is_computed_once_where_its_variables_are_known():
    emitter = PythonEmitter()
    emitter.open()
    first = emitter.pure("lane * 2", uniform=False, depth=0)
    again = emitter.pure("lane * 2", uniform=False, depth=1)
    assert again.text == first.text
    emitter.line(f"total += {first.text}")
    emitter.close("for k in range(3):")
    assert emitter.source("def kernel(lane, total):").splitlines() == [
        "def kernel(lane, total):",
        f"    {first.text} = lane * 2",
        "    for k in range(3):",
        f"        total += {first.text}",
    ]


def test_what_is_computed_in_a_scope_is_not_known_after_it():
    emitter = PythonEmitter()
    emitter.open()
    inside = emitter.pure("k + 1", uniform=True, depth=1)
    emitter.close("for k in range(3):")
    assert emitter.pure("k + 1", uniform=True, depth=0).text != inside.text


def test_any_other_expression_is_computed_each_time():
    emitter = PythonEmitter()
    one, other = (emitter.here("load(A)", uniform=False) for _ in range(2))
    assert one.text != other.text
    assert not one.pure


def test_an_object_has_one_name():
    emitter = PythonEmitter()
    name = emitter.object("key", len, "len")
    assert emitter.object("key", len, "len") == name
    assert emitter.objects == {name: len}
