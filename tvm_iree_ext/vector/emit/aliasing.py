"""Alias analysis of tensors: an op that writes a tensor does so in place where nobody notices.

A tensor is a value: to write it makes another.  The other one may take the memory of the first if
no value in that memory is read afterwards, be it later in the block, behind the block, or in the
next iteration of a loop around.
"""

from collections.abc import Sequence

from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.vector_types import RankedTensorType

_LOOPS = ("scf.for", "scf.forall")


def destinations(op: Operation) -> list[tuple[Value, Value]]:
    """The tensors that an op writes, each with the result that it then is."""
    if op.name in _LOOPS:
        inits = op.group("inits" if op.name == "scf.for" else "outs")
        pairs = list(zip(inits, op.results, strict=True))
    else:
        written = op.definition.writes(op)
        pairs = list(zip(written, op.results, strict=True)) if written and op.results else []
    return [(dest, result) for dest, result in pairs if isinstance(dest.type, RankedTensorType)]


class Aliases:
    """The memory of each tensor of a program: ``memory[value]`` is a number.

    Attributes:
        in_place: the results that take the memory of the tensor which their op writes.
        views: tensors that are part of the memory that they are in.
        racing: the loops over tiles whose iterations copy what they all write.
    """

    def __init__(self, body: Block) -> None:
        self.memory: dict[Value, int] = {}
        self.in_place: set[Value] = set()
        self.views: set[Value] = set()
        self.racing: set[Operation] = set()
        self._members: list[list[Value]] = []
        self._read_only: set[int] = set()
        for argument in body.arguments:
            if isinstance(argument.type, RankedTensorType):
                self._read_only.add(self._new(argument))
        self._visit(body)

    def _new(self, value: Value) -> int:
        self._members.append([])
        self._join(value, len(self._members) - 1)
        return len(self._members) - 1

    def _join(self, value: Value, memory: int) -> None:
        self.memory[value] = memory
        self._members[memory].append(value)

    def _visit(self, block: Block) -> None:
        for op in block.operations:
            if op.name == "tensor.extract_slice":
                self._join(op.result, self.memory[op.operand("source")])
                self.views.add(op.result)
                continue
            pairs = destinations(op)
            if op.name in _LOOPS:
                self._visit_loop(op, pairs)
                continue
            for inner in op.regions:
                self._visit(inner)
            for dest, result in pairs:
                self._place(op, dest, result)
            for result in op.results:
                if isinstance(result.type, RankedTensorType) and result not in self.memory:
                    self._new(result)

    def _visit_loop(self, op: Operation, pairs: Sequence[tuple[Value, Value]]) -> None:
        carried = {result: op.body.carried[result.number] for _, result in pairs}
        for dest, result in pairs:
            self._place(op, dest, result, carried[result])
        self._visit(op.body)
        yielded = op.body.terminator.operands
        for _, result in pairs:
            memory = self.memory[carried[result]]
            self._join(result, memory)
            value = yielded[result.number]
            if self.memory[value] != memory or value in self.views:
                self.racing.add(op)

    def _place(
        self, op: Operation, dest: Value, result: Value, inside: Value | None = None
    ) -> None:
        """Decide whether ``result``, in a loop the value ``inside`` of it, takes dest's memory."""
        value = result if inside is None else inside
        if self._may_take(op, dest):
            self.in_place.add(result)
            self._join(value, self.memory[dest])
            if dest in self.views:
                self.views |= {value, result}
        else:
            self._new(value)

    def _may_take(self, op: Operation, dest: Value) -> bool:
        memory = self.memory[dest]
        if memory in self._read_only:
            return False
        return not any(
            _is_read_again(member, op, 1 if member is dest else 0)
            for member in self._members[memory]
        )


def _is_read_again(value: Value, op: Operation, own: int) -> bool:
    """Whether a value is read when ``op`` writes its memory, or later.

    ``own`` is how many operands of ``op`` the value may be.
    """
    around = _blocks_around(op)
    repeats = False  # whether a loop around op runs it again for the same value
    for block in around:
        if block is value.block:
            break
        if block.parent is not None and block.parent.name in _LOOPS:
            repeats = True
    for user in value.users:
        count = user.operands.count(value)
        if user is op:
            if count > own or repeats:
                return True
            continue
        common = _ancestor_in(user, around)
        if common is None:
            continue
        mine = _ancestor_of(op, common.parent)
        if mine is common:
            # Inside op, or op inside it: as the init of a loop around op it is only handed over.
            if user is not common or common is op or not _is_inside(op, user):
                return True
            continue
        if mine.is_before(common) or _in_loop_for(value, common):
            return True
    return False


def _in_loop_for(value: Value, op: Operation) -> bool:
    """Whether a loop around ``op`` runs it again while a value from outside it stays the same."""
    block = op.parent
    while block is not None and block is not value.block:
        if block.parent is not None and block.parent.name in _LOOPS:
            return True
        block = block.parent.parent if block.parent is not None else None
    return False


def _blocks_around(op: Operation) -> list[Block]:
    """The blocks in which an operation stands, the innermost first."""
    blocks = []
    block = op.parent
    while block is not None:
        blocks.append(block)
        block = block.parent.parent if block.parent is not None else None
    return blocks


def _ancestor_in(op: Operation, blocks: Sequence[Block]) -> Operation | None:
    """The operation around ``op``, or itself, that stands in the innermost of some blocks."""
    one: Operation | None = op
    while one is not None:
        if one.parent in blocks:
            return one
        one = one.parent.parent if one.parent is not None else None
    return None


def _ancestor_of(op: Operation, block: Block | None) -> Operation:
    """The operation around ``op``, or itself, that stands in a block."""
    one = op
    while one.parent is not block:
        assert one.parent is not None
        assert one.parent.parent is not None
        one = one.parent.parent
    return one


def _is_inside(op: Operation, other: Operation) -> bool:
    return any(op.is_inside(block) for block in other.regions)
