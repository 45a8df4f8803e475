"""What passes stand on: users, replacement, insertion, cloning, checking."""

import numpy as np
import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import Builder, Operation, VectorError


def accumulate(length=4):
    """A loop that reads, adds, and carries a vector."""
    with vector.program("accumulate") as b:
        x = b.argument("x", vector.tensor((length, 8)))
        start = b.constant(0.0, vector.vector((8,)))
        with b.loop(0, length, carry=[start]) as loop:
            row = b.transfer_read(x, [loop.index, 0], (8,), in_bounds=[True])
            loop.yield_(loop.carried[0] + row)
        b.returns(total=loop.result)
    return b.program


def test_values_know_their_users():
    program = accumulate()
    (x,) = program.arguments
    (read,) = program.find("vector.transfer_read")
    (add,) = program.find("arith.addf")
    assert x.users == [read]
    assert read.result.users == [add]
    zero = read.group("indices")[1]
    assert zero.constant == 0
    assert zero.users[0] is read
    assert {op.name for op in zero.users} == {"vector.transfer_read", "scf.for"}


def test_a_pass_replaces_an_operation_in_a_copy():
    program = accumulate()
    text = str(program)
    changed = program.clone("multiply")
    (add,) = changed.find("arith.addf")
    b = Builder(changed.body, add)
    made = b.elementwise("mulf", *add.operands)
    add.replace_by(made)
    changed.verify()
    assert str(program) == text
    assert (changed.name, changed.entry) == ("vector.multiply", "multiply")
    assert not changed.find("arith.addf")
    x = np.ones((4, 8), np.float32)
    assert changed.evaluate(x)["total"].tolist() == [0.0] * 8
    assert program.evaluate(x=x)["total"].tolist() == [4.0] * 8


def test_constants_are_there_once_and_before_everything():
    changed = accumulate().clone()
    (add,) = changed.find("arith.addf")
    b = Builder(changed.body)
    with b.before(add):
        two = b.constant(2.0, add.result.type)
        assert b.constant(2.0, add.result.type) is two
        assert b.constant(0) is b.index(0)
        made = b.elementwise("mulf", add.operands[1], two)
    add.operands = [add.operands[0], made]
    changed.verify()
    assert two.op.parent is changed.body
    assert changed.evaluate(np.ones((4, 8), np.float32))["total"][0] == 8.0


def test_clone_maps_operands_and_results():
    program = accumulate()
    (loop,) = program.find("scf.for")
    values = {}
    copy = loop.clone(values)
    assert copy.parent is None
    assert copy.body is not loop.body
    assert values[loop.result] is copy.result
    assert values[loop.body.carried[0]] is copy.body.carried[0]
    assert copy.body.terminator.operands[0].op.parent is copy.body
    copy.erase()
    assert all(user.parent is not None for user in program.arguments[0].users)


def test_what_is_used_is_not_erased():
    (add,) = accumulate().find("arith.addf")
    with pytest.raises(AssertionError, match="is still used"):
        add.erase()


def test_moving_and_order():
    program = accumulate()
    read, add = program.find("vector.transfer_read") + program.find("arith.addf")
    assert read.is_before(add)
    assert read.is_inside(program.body)
    add.move_before(read)
    assert add.is_before(read)
    with pytest.raises(VectorError, match="operand 1 is not defined before it is used"):
        program.verify()


def test_block_arguments_come_and_go():
    program = accumulate()
    (loop,) = program.find("scf.for")
    extra = loop.body.add_argument(vector.vector((8,)), "extra")
    with pytest.raises(VectorError, match=r"the body takes index, vector<8xf32>, vector<8xf32>"):
        program.verify()
    loop.body.remove_argument(extra)
    program.verify()
    with pytest.raises(AssertionError, match="is still used"):
        loop.body.remove_argument(loop.body.carried[0])


def test_equal_keys_mean_equal_results():
    program = accumulate()
    (read,) = program.find("vector.transfer_read")
    again = read.clone()
    assert again.key() == read.key()
    other = Operation(
        read.name,
        {
            "source": read.operand("source"),
            "indices": read.group("indices"),
            "padding": read.operand("padding"),
        },
        {**read.attributes, "in_bounds": (False,)},
    )
    assert other.key() != read.key()


def test_effects_are_those_on_buffers():
    with vector.program("effects") as b:
        buffer = b.argument("m", vector.buffer((8,)))
        tensor = b.argument("t", vector.tensor((8,)))
        v = b.load(buffer, [0], (4,))
        b.transfer_write(v, tensor, [0])
        b.transfer_write(v, buffer, [0])
    load, pure, write, _ = (op for op in b.program.walk() if op.name != "arith.constant")
    assert (load.reads, load.writes) == ([buffer], [])
    assert pure.is_pure
    assert (write.reads, write.writes) == ([], [buffer])
    assert b.program.written == [buffer]


def test_a_terminator_ends_its_block():
    program = accumulate()
    add = program.find("arith.addf")[0]
    add.parent.insert(add.clone())
    with pytest.raises(VectorError, match="does not stand where its block ends"):
        program.verify()


def test_printing_is_deterministic():
    assert str(accumulate()) == str(accumulate())
    loop = "%i = %c0 to %c4 step %c1 iter_args(%1 = %cst) -> (vector<8xf32>) {"
    read = "%x[%i, %c0], %cst_0 {in_bounds = [true]} : tensor<4x8xf32>, vector<8xf32>"
    assert str(accumulate()).splitlines()[6:11] == [
        f"  %0 = scf.for {loop}",
        f"    %2 = vector.transfer_read {read}",
        "    %3 = arith.addf %1, %2 : vector<8xf32>",
        "    scf.yield %3 : vector<8xf32>",
        "  }",
    ]


def test_counts_tell_the_regions():
    counts = accumulate().counts()
    assert counts["before"] == {}
    assert counts["loop"] == {"transfer_read 8": 1, "addf 8": 1}
    assert counts["loop"].of("transfer_read") == 1
