"""A function as blocks of steps: what the interpreter runs.

A block begins where a branch leads or a lane may have to wait, and is executed as a whole by the
lanes that are at it.  Its number is its place in an order (:mod:`.block_order`): of lanes that went
different ways the earliest go first, and meet the others where the ways join.  Calls of functions
become their bodies, each with registers of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.ptx.lane_instructions.all_instructions import operation_of
from tvm_iree_ext.emulator.ptx.reading.scalar_types import (
    Conversion,
    bits_of,
    constant,
    given,
    storage_of,
    taken,
)
from tvm_iree_ext.emulator.ptx.reading.syntax import (
    DroppedResult,
    NegatedPredicate,
    PtxAddress,
    PtxFunction,
    PtxImmediate,
    PtxInstruction,
    PtxLabel,
    PtxModule,
    PtxOperand,
    PtxRegister,
    PtxSymbol,
    RegisterVector,
)
from tvm_iree_ext.emulator.ptx.running.block_order import ordered
from tvm_iree_ext.emulator.ptx.running.liveness import set_liveness
from tvm_iree_ext.emulator.ptx.running.program import (
    EXIT,
    SPECIAL,
    Preload,
    PtxBlock,
    PtxProgram,
    PtxStep,
)
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation

_WAITING = ("bar", "barrier", "nanosleep")
_ENDING = ("bra", "brx", "ret", "exit", "trap")


def program_of(module: PtxModule, name: str) -> PtxProgram:
    """The blocks of a kernel.

    Raises:
        EmulationError: for an instruction that is not known.
    """
    return _Translation(module, module.functions[name]).program()


class _Translation:
    def __init__(self, module: PtxModule, function: PtxFunction) -> None:
        self._module, self._kernel = module, function
        self.storage: list[np.dtype] = []
        self.initial: dict[int, Any] = {}
        self.preloads: dict[tuple[Any, ...], Preload] = {}
        self._constants: dict[tuple[Any, ...], int] = {}
        self._parameters: dict[tuple[str, int], int] = {}  # of calls: name and offset -> slot
        self._flat: list[tuple[PtxInstruction | PtxLabel, _Frame]] = []
        self._local: dict[str, int] = {}
        self._local_bytes = 0

    def program(self) -> PtxProgram:
        frame = self._frame(self._kernel, "", {})
        self._expand(self._kernel, frame, "")
        blocks = ordered(_Cutter(self, self._flat).blocks())
        set_liveness(blocks)
        return PtxProgram(
            self._kernel.name, blocks, self.storage, self.initial, list(self.preloads.values()),
            self._local_bytes, self._local,
        )  # fmt: skip

    def slot(self, kind: np.dtype) -> int:
        """A new slot."""
        self.storage.append(np.dtype(kind))
        return len(self.storage) - 1

    def _frame(self, function: PtxFunction, prefix: str, names: dict[str, str]) -> "_Frame":
        slots = [self.slot(storage_of(one.type)) for one in function.registers]
        for variable in function.variables.values():
            if variable.space == "local":
                at = -(-self._local_bytes // variable.alignment) * variable.alignment
                self._local[prefix + variable.name] = at
                self._local_bytes = at + variable.nbytes
        return _Frame(function, prefix, slots, names)

    def _expand(self, function: PtxFunction, frame: "_Frame", end: str) -> None:
        """The body, with those of the functions that it calls in place of the calls."""
        for one in function.body:
            if isinstance(one, PtxInstruction) and one.opcode == "call":
                self._call(one, frame)
            elif isinstance(one, PtxInstruction) and one.opcode == "ret" and end:
                jump = replace(one, opcode="bra", modifiers=("uni",), operands=(PtxSymbol(end),))
                self._flat.append((jump, frame.outside()))
            else:
                self._flat.append((one, frame))

    def _call(self, one: PtxInstruction, frame: "_Frame") -> None:
        if one.guard is not None:
            raise EmulationError(f"PTX: a call under a predicate: {one.text!r}")
        vectors = [item for item in one.operands if isinstance(item, RegisterVector)]
        name = next(item.name for item in one.operands if isinstance(item, PtxSymbol))
        callee = self._module.functions.get(name)
        if callee is None or not callee.body:
            raise EmulationError(f"PTX: {one.text!r} calls what is not defined")
        number = len(self._flat)
        prefix, end = f"{frame.prefix}{name}#{number}.", f"end of {name}#{number}"
        results = list(vectors[0].items) if callee.results else []
        given_ = list(vectors[-1].items) if callee.parameters else []
        inner = [*callee.results, *callee.parameters]
        names = {
            variable.name: frame.parameter(operand.name)
            for variable, operand in zip(inner, [*results, *given_], strict=True)
            if isinstance(operand, PtxSymbol)
        }
        called = self._frame(callee, prefix, names)
        self._expand(callee, called, end)
        self._flat.append((PtxLabel(end), frame.outside()))

    def constant(self, operand: PtxImmediate, kind: str) -> int:
        """The slot of a constant."""
        key = (operand, kind)
        if key not in self._constants:
            value = constant(operand.value, operand.float_bits, kind)
            self._constants[key] = self.slot(storage_of(kind))
            stored = given(kind, storage_of(kind))
            self.initial[self._constants[key]] = stored(value) if stored else value
        return self._constants[key]

    def preload(self, kind: str, name: str, type_: str, offset: int = 0) -> int:
        """The slot of what the launch tells."""
        key = (kind, name, offset, type_)
        if key not in self.preloads:
            self.preloads[key] = Preload(self.slot(storage_of(type_)), *key[:2], offset, type_)
        return self.preloads[key].slot

    def passed(self, name: str, offset: int, type_: str) -> int:
        """The slot of a part of a parameter that one function passes to another."""
        key = (name, offset)
        if key not in self._parameters:
            self._parameters[key] = self.slot(storage_of(f"b{bits_of(type_)}"))
        return self._parameters[key]


@dataclass(frozen=True)
class _Frame:
    """A function's place in a kernel: its registers' slots, and what its parameters are called."""

    function: PtxFunction
    prefix: str
    slots: list[int]
    names: dict[str, str]

    def parameter(self, name: str) -> str:
        """The name of what is passed, in the whole kernel."""
        return self.names.get(name, self.prefix + name)

    def outside(self) -> "_Frame":
        """The same, with labels by their whole names."""
        return replace(self, prefix="")


class _Cutter:
    """Cuts a list of instructions into blocks."""

    def __init__(
        self, whole: _Translation, flat: Sequence[tuple[PtxInstruction | PtxLabel, _Frame]]
    ) -> None:
        self._whole, self._flat = whole, flat
        self._blocks: list[PtxBlock] = [PtxBlock(0)]
        self._labels: dict[str, int] = {}
        self._targets: list[tuple[PtxBlock, list[str]]] = []

    def blocks(self) -> list[PtxBlock]:
        for one, frame in self._flat:
            if isinstance(one, PtxLabel):
                self._begin()
                self._labels[frame.prefix + one.name] = self._blocks[-1].number
            elif one.opcode in _ENDING:
                self._end(one, frame)
            elif _waits(one):
                self._begin()
                if step := self._step(one, frame):
                    self._blocks[-1].wait = step
                self._next()
            elif step := self._step(one, frame):
                self._blocks[-1].steps.append(step)
        for block, names in self._targets:
            found = [self._labels[name] for name in names]
            if block.table:
                block.table = tuple(found)
            else:
                block.branch = found[0]
        last = self._blocks[-1]
        last.following = EXIT
        return self._blocks

    def _begin(self) -> None:
        """A block that begins here, if the last one has begun."""
        last = self._blocks[-1]
        if last.steps or last.wait or last.branch is not None:
            self._next()

    def _next(self) -> None:
        last = self._blocks[-1]
        last.following = last.number + 1
        self._blocks.append(PtxBlock(last.number + 1))

    def _end(self, one: PtxInstruction, frame: _Frame) -> None:
        block = self._blocks[-1]
        if one.guard is not None:
            block.condition = frame.slots[one.guard.number]
            block.negated = one.guard_negated
        block.branch = EXIT
        if one.opcode == "bra":
            target = one.operands[0]
            assert isinstance(target, PtxSymbol)
            self._targets.append((block, [frame.prefix + target.name]))
        elif one.opcode == "brx":
            index, table = one.operands
            assert isinstance(index, PtxRegister)
            assert isinstance(table, PtxSymbol)
            if one.guard is not None:
                raise EmulationError(f"PTX: {one.text!r} under a predicate")
            block.condition = frame.slots[index.number]
            block.table = (0,)
            names = [frame.prefix + name for name in frame.function.tables[table.name]]
            self._targets.append((block, names))
        self._next()

    def _step(self, one: PtxInstruction, frame: _Frame) -> PtxStep | None:
        """The step of an instruction; None for one that does nothing here."""
        if one.opcode in ("ld", "st") and one.has("param") and _is_passed(one, frame):
            return self._passing(one, frame)
        if one.opcode == "ld" and one.has("param") and (step := self._parameter(one, frame)):
            return step
        operation = operation_of(one)
        sources = [self._source(operand, kind, frame) for operand, kind in operation.sources]
        targets = [self._target(operand, kind, frame) for operand, kind in operation.targets]
        function = _converted(
            operation, [change for _, change in sources], [change for _, change in targets]
        )
        return PtxStep(
            function,
            tuple(slot for slot, _ in sources),
            tuple(slot for slot, _ in targets),
            operation.on_lanes,
            operation.whole_warp,
            -1 if one.guard is None else frame.slots[one.guard.number],
            one.guard_negated,
            one,
        )

    def _source(
        self, operand: PtxOperand, kind: str, frame: _Frame
    ) -> tuple[int, Conversion | None]:
        if isinstance(operand, NegatedPredicate):
            slot = frame.slots[operand.register.number]
            return slot, np.logical_not
        if isinstance(operand, PtxImmediate):
            slot = self._whole.constant(operand, kind)
        elif isinstance(operand, PtxRegister):
            slot = frame.slots[operand.number]
            if operand.name.startswith("%") and operand.name not in ("%carry",):
                self._special(operand, slot)
        elif isinstance(operand, PtxSymbol):
            name = operand.name
            if name in frame.function.variables:
                local = frame.function.variables[name].space == "local"
                name = frame.prefix + name if local else name
            slot = self._whole.preload("symbol", name, "b64")
        else:
            raise EmulationError(f"PTX: {operand} is no value")
        return slot, taken(self._whole.storage[slot], kind)

    def _special(self, operand: PtxRegister, slot: int) -> None:
        """Registers that the launch sets are known by their names; others are declared."""
        name = operand.name[1:].split(".")[0]
        if name in SPECIAL:
            key = ("special", operand.name, 0, operand.type, slot)
            self._whole.preloads.setdefault(key, Preload(slot, "special", operand.name[1:]))

    def _target(
        self, operand: PtxOperand, kind: str, frame: _Frame
    ) -> tuple[int, Conversion | None]:
        if isinstance(operand, DroppedResult):
            return self._whole.slot(storage_of(kind)), given(kind, storage_of(kind))
        if not isinstance(operand, PtxRegister):
            raise EmulationError(f"PTX: {operand} takes no result")
        slot = frame.slots[operand.number]
        return slot, given(kind, self._whole.storage[slot])

    def _parameter(self, one: PtxInstruction, frame: _Frame) -> PtxStep | None:
        """*ld.param* of a kernel's parameter by its name."""
        target, source = one.operands
        if not isinstance(source, PtxAddress) or not isinstance(source.base, PtxSymbol):
            return None
        items = target.items if isinstance(target, RegisterVector) else (target,)
        size = bits_of(one.type) // 8
        slots = [
            self._whole.preload("parameter", source.base.name, one.type, source.offset + size * at)
            for at in range(len(items))
        ]
        return self._moved(one, frame, slots, items)

    def _moved(
        self, one: PtxInstruction, frame: _Frame, slots: Sequence[int], items: Sequence[PtxOperand]
    ) -> PtxStep:
        kind = one.type
        targets = [self._target(item, kind, frame) for item in items]
        changes = [taken(self._whole.storage[slot], kind) for slot in slots]
        operation = PtxOperation(
            lambda *a: a if len(a) > 1 else a[0], (), [(i, kind) for i in items]
        )
        function = _converted(operation, changes, [change for _, change in targets])
        return PtxStep(
            function, tuple(slots), tuple(slot for slot, _ in targets), False, False,
            -1 if one.guard is None else frame.slots[one.guard.number], one.guard_negated, one,
        )  # fmt: skip

    def _passing(self, one: PtxInstruction, frame: _Frame) -> PtxStep:
        """*st.param*, *ld.param* of what a call passes: moves of registers."""
        kind = one.type
        stores = one.opcode == "st"
        address = one.operands[0 if stores else 1]
        other = one.operands[1 if stores else 0]
        assert isinstance(address, PtxAddress)
        assert isinstance(address.base, PtxSymbol)
        items = other.items if isinstance(other, RegisterVector) else (other,)
        size = bits_of(kind) // 8
        name = frame.parameter(address.base.name)
        slots = [
            self._whole.passed(name, address.offset + size * at, kind) for at in range(len(items))
        ]
        if not stores:
            return self._moved(one, frame, slots, items)
        sources = [self._source(item, kind, frame) for item in items]
        changes = [given(kind, self._whole.storage[slot]) for slot in slots]
        operation = PtxOperation(
            lambda *a: a if len(a) > 1 else a[0], (), [(i, kind) for i in items]
        )
        function = _converted(operation, [change for _, change in sources], changes)
        return PtxStep(
            function, tuple(slot for slot, _ in sources), tuple(slots), False, False, -1, False, one
        )


def _move(items: Sequence[PtxOperand], kind: str) -> PtxOperation:
    """Values as they are."""
    if len(items) == 1:
        return PtxOperation(lambda value: value, (), [(items[0], kind)])
    return PtxOperation(lambda *values: values, (), [(item, kind) for item in items])


def _waits(one: PtxInstruction) -> bool:
    """Whether lanes may have to wait for others at an instruction."""
    if one.opcode == "mbarrier":
        return one.has("try_wait") or one.has("test_wait")
    return one.opcode in _WAITING and not one.has("warp")


def _is_passed(one: PtxInstruction, frame: _Frame) -> bool:
    """Whether a parameter is that of a call, and not the kernel's."""
    address = one.operands[0 if one.opcode == "st" else 1]
    if not isinstance(address, PtxAddress) or not isinstance(address.base, PtxSymbol):
        return False
    kernel = {parameter.name for parameter in frame.function.parameters}
    return not (frame.function.is_entry and address.base.name in kernel)


def _converted(
    operation: PtxOperation,
    taking: Sequence[Conversion | None],
    giving: Sequence[Conversion | None],
) -> Callable[..., Any]:
    """The function on registers' own types."""
    function = operation.function
    changes = [(place, change) for place, change in enumerate(taking) if change is not None]
    inner = function
    if changes:
        first = 1 if operation.on_lanes else 0

        def inner(*values: Any) -> Any:
            found = list(values)
            for place, change in changes:
                found[place + first] = change(found[place + first])
            return function(*found)

    if not any(giving):
        return inner
    if len(giving) == 1:
        only = giving[0]
        assert only is not None
        return lambda *values: only(inner(*values))
    return lambda *values: tuple(
        value if change is None else change(value)
        for value, change in zip(inner(*values), giving, strict=True)
    )
