"""Asynchronous copies, and barriers in shared memory.

Source: PTX ISA 9.0, *cp.async*, *cp.async.commit_group*, *cp.async.wait_group*,
*cp.async.mbarrier.arrive*, *mbarrier.init* and the like.
"""

from typing import Any

import numpy as np

from tvm_iree_ext.emulator.findings import INSTRUCTION
from tvm_iree_ext.emulator.ptx.lane_instructions.memory_instructions import at, space_of
from tvm_iree_ext.emulator.ptx.lane_instructions.tensor_copies import tensor_copy
from tvm_iree_ext.emulator.ptx.machine.address_windows import SHARED_WINDOW
from tvm_iree_ext.emulator.ptx.machine.execution import Execution
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value
from tvm_iree_ext.emulator.ptx.reading.syntax import (
    PtxAddress,
    PtxImmediate,
    PtxInstruction,
    PtxOperand,
    PtxRegister,
)
from tvm_iree_ext.emulator.ptx.values.operations import PtxOperation, instruction, on_lanes, place

_WORDS = {4: (np.uint32, 1), 8: (np.uint64, 1), 16: (np.uint64, 2)}


@instruction("cp")
def _cp(one: PtxInstruction) -> PtxOperation:
    """*cp.async* and its kin."""
    if one.has("bulk"):
        return _bulk(one)
    if one.has("commit_group"):
        return on_lanes(lambda lanes: lanes.state.copies.commit(lanes), ())
    if one.has("wait_group"):
        (newest,) = one.operands
        assert isinstance(newest, PtxImmediate)
        count = newest.value
        return on_lanes(lambda lanes: lanes.state.copies.wait(lanes, count), ())
    if one.has("wait_all"):
        return on_lanes(lambda lanes: lanes.state.copies.wait(lanes, None), ())
    if one.has("mbarrier"):
        return _arrive_with_copies(one)
    return _copy(one)


def _bulk(one: PtxInstruction) -> PtxOperation:
    if one.has("tensor"):
        return tensor_copy(one)
    raise ValueError("bulk copies without a tensor")


def _copy(one: PtxInstruction) -> PtxOperation:
    """*cp.async*: so many bytes of global memory to shared memory; the rest of them are zeros."""
    target, source, size, *more = one.operands
    assert isinstance(size, PtxImmediate)
    to, to_type, to_offset = place(target)
    base, base_type, offset = place(source)
    element, count = _WORDS[size.value]
    # The operand behind the size is how many bytes are read, or a predicate for none.
    given = [operand for operand in more if _is_size(operand)]
    ignores = [operand for operand in more if _is_predicate(operand)]

    def function(lanes: Execution, to: Value, base: Value, *rest: Value) -> None:
        targets = at(lanes, to, to_offset)
        sources = at(lanes, base, offset)
        if given:
            read = lanes.full(rest[0]).astype(np.int64)
        elif ignores:
            read = np.where(lanes.full(rest[0]), 0, size.value)
        else:
            read = None
        lanes.state.copies.start(
            lanes, _Copy(lanes, targets, sources, read, element, count, size.value)
        )

    kinds = [(operand, "u32") for operand in given] or [(operand, "pred") for operand in ignores]
    return on_lanes(function, [(to, to_type), (base, base_type), *kinds[:1]])


def _is_size(operand: PtxOperand) -> bool:
    if isinstance(operand, PtxImmediate):
        return True
    return isinstance(operand, PtxRegister) and operand.type in ("b32", "u32", "s32")


def _is_predicate(operand: PtxOperand) -> bool:
    return isinstance(operand, PtxRegister) and operand.type == "pred"


class _Copy:
    """What ``cp.async`` does when it ends: it reads then, too."""

    def __init__(
        self,
        lanes: Execution,
        targets: np.ndarray,
        sources: np.ndarray,
        read: np.ndarray | None,
        element: Any,
        count: int,
        size: int,
    ) -> None:
        self._lanes = lanes.part(lanes.mask)
        self._targets, self._sources, self._read = targets, sources, read
        self._element, self._count, self._size = element, count, size
        if read is not None and ((read > size) & lanes.active).any():
            lanes.found(INSTRUCTION, f"more than its {size} bytes are to be read")

    def __call__(self, ending: np.ndarray) -> None:
        mask = self._lanes.of_warps(ending)
        lanes = self._lanes.part(mask)
        spaces = lanes.spaces
        if self._read is None:
            spaces.check_alignment(self._sources, self._size, lanes)
            values = spaces.everywhere.load(
                self._sources, self._element, self._count, mask, lanes.site
            )
        else:
            values = self._partly(lanes)
        lanes.mask = mask
        spaces.store("shared", self._targets, values, lanes)

    def _partly(self, lanes: Execution) -> np.ndarray:
        """Of some bytes: by bytes, since no more may be read; zeros behind them."""
        assert self._read is not None
        assert lanes.mask is not None
        spaces, mask = lanes.spaces, lanes.mask
        found = np.zeros((*lanes.shape, self._size), np.uint8)
        for bytes_ in np.unique(self._read[mask]):
            if bytes_ == 0:
                continue
            lanes.mask = mask & (self._read == bytes_)
            got = spaces.everywhere.load(
                self._sources, np.uint8, int(bytes_), lanes.mask, lanes.site
            )
            found[lanes.mask, : int(bytes_)] = np.moveaxis(got, 0, -1)[lanes.mask]
        words = found.view(self._element)
        return np.ascontiguousarray(np.moveaxis(words, -1, 0))


def _arrive_with_copies(one: PtxInstruction) -> PtxOperation:
    """*cp.async.mbarrier.arrive*: an arrival when the lane's copies before it have ended."""
    base, kind, offset = place(one.operands[0])
    in_addition = not one.has("noinc")

    def function(lanes: Execution, base: Value) -> None:
        barriers = lanes.state.mbarriers
        addresses = _shared(lanes, base, offset, one)
        if in_addition:
            barriers.more_arrivals(lanes, addresses)
        then = lanes.part(lanes.mask)

        def arrive(ending: np.ndarray) -> None:
            barriers.arrive(then.part(then.of_warps(ending)), addresses)

        lanes.state.copies.start(lanes, arrive, is_arrival=True)

    return on_lanes(function, [(base, kind)])


def _shared(lanes: Execution, base: Value, offset: int, one: PtxInstruction) -> np.ndarray:
    """Addresses in shared memory, of generic ones too."""
    addresses = at(lanes, base, offset)
    if space_of(one) == "shared":
        return addresses
    return addresses - np.uint64(SHARED_WINDOW)


@instruction("mbarrier")
def _mbarrier(one: PtxInstruction) -> PtxOperation:
    """*mbarrier.init*, *inval*, *expect_tx*, *arrive*, *test_wait*, *try_wait*."""
    if one.has("init"):
        base, kind, offset = place(one.operands[0])
        return on_lanes(
            lambda lanes, base, count: lanes.state.mbarriers.init(
                lanes, _shared(lanes, base, offset, one), count
            ),
            [(base, kind), (one.operands[1], "u32")],
        )
    if one.has("inval"):
        return PtxOperation(lambda: None, (), ())
    if one.has("try_wait") or one.has("test_wait"):
        return _test(one)
    if one.has("arrive"):
        return _arrive(one)
    if one.has("expect_tx"):
        base, kind, offset = place(one.operands[0])
        return on_lanes(
            lambda lanes, base, size: lanes.state.mbarriers.expect(
                lanes, _shared(lanes, base, offset, one), int(lanes.uniform(size)[0])
            ),
            [(base, kind), (one.operands[1], "u32")],
        )
    raise ValueError("a form of mbarrier")


def _test(one: PtxInstruction) -> PtxOperation:
    target, source, phase, *_ = one.operands
    base, kind, offset = place(source)
    parity = one.has("parity")

    def function(lanes: Execution, base: Value, phase: Value) -> Value:
        return lanes.state.mbarriers.ended(
            lanes, _shared(lanes, base, offset, one), phase, is_parity=parity
        )

    sources = [(base, kind), (phase, "u32" if parity else "b64")]
    return on_lanes(function, sources, [(target, "pred")])


def _arrive(one: PtxInstruction) -> PtxOperation:
    """*mbarrier.arrive*: with a count, or ``.expect_tx`` with bytes; gives the phase's state."""
    place_of = next(n for n, operand in enumerate(one.operands) if isinstance(operand, PtxAddress))
    base, kind, offset = place(one.operands[place_of])
    more = one.operands[place_of + 1 :]
    targets = one.operands[:place_of]
    expects = one.has("expect_tx")

    def function(lanes: Execution, base: Value, *given: Value) -> Any:
        number = int(lanes.uniform(given[0])[0]) if given else 1
        phases = lanes.state.mbarriers.arrive(
            lanes,
            _shared(lanes, base, offset, one),
            1 if expects else number,
            number if expects else None,
        )
        return phases if targets else None

    sources = [(base, kind), *((operand, "u32") for operand in more[:1])]
    return on_lanes(function, sources, [(operand, "b64") for operand in targets])
