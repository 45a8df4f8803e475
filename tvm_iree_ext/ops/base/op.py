"""The base class of ops: name, operands, attributes, and canonical TensorIR."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tvm_iree_ext.base.dtypes import item_bytes, word_dtype
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Signature, extent_value, shape_text
from tvm_iree_ext.ops.base.region_scalars import RegionScalar
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.ops.base.words import over_words, passed_operand
from tvm_iree_ext.tir.tvm_modules import tirx, tvm_ffi

_MOST_BYTES = 1 << 47  # of an operand: what a process can address

CANONICAL = "tvm_iree_ext.canonical"
"""On a PrimFunc: it is an op's canonical one."""

_canonical_ops: dict[str, Op] = {}  # whose functions this process has made


class Op(ABC):
    """An op with its attributes and operand types: says what is computed, never how.

    Objects are immutable, and equal where they compute the same: those of equal :meth:`describe`.
    """

    def __post_init__(self) -> None:
        """Check what every op is asked for.

        Raises:
            OpError: for an operand beyond all memory, and for one without elements where a result
                has some that nothing defines.
        """
        names = [operand.name for operand in self.signature.operands]
        for one in self.region_scalars:
            if names.count(one.name) > 1:
                raise OpError(f"{self.name}: the region's {one.name} is an operand's name, too")
        for operand in self.signature.operands:
            known = math.prod(extent for extent in operand.shape if isinstance(extent, int))
            if known * item_bytes(operand.dtype) > _MOST_BYTES:
                raise OpError(
                    f"{self.name}: {operand} takes {known * item_bytes(operand.dtype)} bytes;"
                    " expected 2**47 at most"
                )
        if (empty := self.signature.undefined({})) is not None:
            raise OpError(
                f"{self.name}: {empty.name} is empty, {shape_text(empty.shape)}, and a result"
                " is not: its value is undefined"
            )

    @property
    def is_of_nothing(self) -> bool:
        """Whether results are empty, inits or made of nothing, whatever is known at call time."""
        extents = (e for one in self.signature.operands for e in (*one.shape, *one.over))
        return any(type(extent) is int and extent == 0 for extent in extents)

    name: str
    """The dialect's name, such as ``iree_linalg_ext.attention``."""

    @property
    def entry(self) -> str:
        """The kernel's function name: the op's name without its dialect."""
        return self.name.split(".", 1)[1].replace(".", "_")

    @property
    @abstractmethod
    def signature(self) -> Signature:
        """Operands and results in call order."""

    @property
    @abstractmethod
    def attributes(self) -> dict[str, Any]:
        """The attributes as plain JSON values; with the signature, all that sets the meaning."""

    @property
    def region_scalars(self) -> tuple[RegionScalar, ...]:
        """The numbers that the op's region takes of a call."""
        region = getattr(self, "region", None)
        return region.scalars if isinstance(region, Region) else ()

    own_numbers: frozenset[str] = frozenset()
    """Types of :data:`~.dtypes.WORDS` with which the op's kernels compute as numbers."""

    @functools.cached_property
    def in_words(self) -> Op:
        """The op over the words of elements whose type TVM does not know, or this one.

        Its regions and paddings are over words, and it does what this one does.
        """
        came = {operand.dtype for operand in self.signature.operands}
        if not any(word_dtype(one) != one for one in came - self.own_numbers):
            return self
        made: Op = over_words(self, self.own_numbers)
        for one in made.signature.operands:
            if word_dtype(one.dtype) != one.dtype and one.dtype not in self.own_numbers:
                raise OpError(
                    f"{self.name}: {one.name} is of {one.dtype}; expected no such operand"
                )
        return made

    @functools.cached_property
    def passed_signature(self) -> Signature:
        """The signature, which says where kernels take words in place of numbers."""
        if self.in_words is self:
            return self.signature
        return Signature(
            tuple(passed_operand(one, self.own_numbers) for one in self.signature.operands)
        )

    def prim_func(self) -> tirx.PrimFunc:
        """The canonical TensorIR: right on any target, not scheduled.

        Its attribute :data:`CANONICAL` is a key by which :func:`op_of` knows the op.
        """
        if self.in_words is not self:
            return self.in_words.prim_func()
        key = hashlib.sha256(self.identity.encode()).hexdigest()
        _canonical_ops.setdefault(key, self)
        return canonical(self).with_attr(CANONICAL, key)

    @abstractmethod
    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Floating-point operations of the contractions; ``extents`` gives the symbols' values."""

    def bytes(self, extents: Mapping[str, int] | None = None) -> int:
        """Bytes read and written when each operand is touched once."""
        return sum(operand_bytes(operand, extents) for operand in self.signature.operands)

    def describe(self) -> dict[str, Any]:
        """Name, operands and attributes as plain JSON values: the op's identity.

        Which inits results have, and their defaults, follow from the rest, and are left out.
        """
        operands = self.signature.to_json()
        implied = ("init", "over", "default")
        return {
            "op": self.name,
            "operands": [{k: v for k, v in one.items() if k not in implied} for one in operands],
            "attributes": self.attributes,
        }

    @functools.cached_property
    def identity(self) -> str:
        """:meth:`describe` as one text: equal for ops that are equal."""
        return json.dumps(self.describe(), sort_keys=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Op):
            return NotImplemented
        return type(self) is type(other) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.signature.arguments))
        results = ", ".join(map(str, self.signature.results))
        return f"{self.name}({arguments}) -> ({results})"


class UncountedOp(Op):
    """An op that moves or compares: nothing that it does counts as a floating-point operation."""

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """0."""
        return 0


def op_of(function: tirx.PrimFunc) -> Op | None:
    """The op whose canonical function this is, as :meth:`Op.prim_func` made it in this process.

    None for a function that was changed since.
    """
    op = _canonical_ops.get(str((function.attrs or {}).get(CANONICAL)))
    if op is None:
        return None
    made = canonical(op)
    plain = [tirx.PrimFunc(one.params, one.body) for one in (made, function)]
    return op if tvm_ffi.structural_equal(*plain, True) else None


def register_canonical(kind: type[Op]) -> None:
    """Import what registers the canonical TensorIR of a class: ``sort/sort_canonical`` of sort's.

    A family without a folder registers it in its own file.
    """
    folder = kind.__module__.rpartition(".")[0]
    module = f"{folder}.{folder.rpartition('.')[2]}_canonical"
    if canonical.dispatch(kind) is canonical.dispatch(object) and importlib.util.find_spec(module):
        importlib.import_module(module)


@functools.singledispatch
def canonical(op: Op) -> tirx.PrimFunc:
    """The canonical TensorIR of an op; a family registers that of its classes."""
    register_canonical(type(op))
    registered = canonical.dispatch(type(op))
    if registered is canonical.dispatch(object):
        raise NotImplementedError(f"{op.name}: {type(op).__name__} has no canonical TensorIR")
    return registered(op)


def operand_bytes(operand: Operand, extents: Mapping[str, int] | None) -> int:
    """The bytes of an operand; KeyError for a symbol without a value."""
    count = math.prod(resolve(extent, extents) for extent in operand.shape)
    return count * item_bytes(operand.dtype)


def resolve(extent: Extent, extents: Mapping[str, int] | None) -> int:
    """The number that an extent stands for; KeyError for a symbol without a value."""
    return extent_value(extent, extents or {})
