"""Ops over the words of their elements: types, paddings and dtypes of an op's fields, replaced.

Regions are over words from the start (:func:`.regions.trace`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from tvm_iree_ext.base.dtypes import WORDS, word_dtype
from tvm_iree_ext.base.signature import Operand, TensorType
from tvm_iree_ext.ops.base.region_scalars import RegionScalar, TakesScalars
from tvm_iree_ext.tir import number_words

_HALVES = {"uint128": "uint64x2"}


def over_words(op: Any, own: Collection[str]) -> Any:
    """An op, a frozen dataclass, over the words of all elements whose types are not ``own``."""
    kinds = {name for name in WORDS if name not in own}

    def replaced(value: Any) -> Any:
        if isinstance(value, TensorType):
            return (
                TensorType(value.shape, word_dtype(value.dtype)) if value.dtype in kinds else value
            )
        if isinstance(value, RegionScalar):
            return dataclasses.replace(value, passed=word_dtype(value.dtype))
        if isinstance(value, TakesScalars) and value.scalars:
            return dataclasses.replace(value, scalars=replaced(value.scalars))  # type: ignore[type-var]
        if isinstance(value, Mapping):
            return {name: replaced(one) for name, one in value.items()}
        if type(value) is tuple:
            return tuple(map(replaced, value))
        return value

    fields = {one.name: getattr(op, one.name) for one in dataclasses.fields(op)}
    made = {name: replaced(value) for name, value in fields.items()}
    if "dtypes" in made:
        made["dtypes"] = tuple(word_dtype(one) if one in kinds else one for one in made["dtypes"])
    padding = made.get("padding")
    if padding is not None and padding != "operand":
        made["padding"] = number_words.word_of(padding, op.signature.results[0].dtype)
    return dataclasses.replace(op, **made)


def passed_operand(operand: Operand, own: Collection[str]) -> Operand:
    """An operand as a kernel takes it: in words, where those are not its numbers.

    Words of 128 bits are two of 64, and lie in memory: no call passes so many by value.
    """
    if operand.dtype not in WORDS or operand.dtype in own:
        return operand
    word = WORDS[operand.dtype]
    is_in_memory = operand.role == "scalar" and word in _HALVES
    role = "input" if is_in_memory else operand.role
    return dataclasses.replace(operand, words=_HALVES.get(word, word), role=role)
