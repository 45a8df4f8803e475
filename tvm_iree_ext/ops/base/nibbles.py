"""Integers of 4 bits as factors: what makes numbers of the words in which they lie."""

from __future__ import annotations

from tvm_iree_ext.base.dtypes import word_dtype
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.tir_expressions import convert
from tvm_iree_ext.tir.tvm_modules import tirx


def widened(dtype: str) -> Region:
    """The int8 that a word of an integer of 4 bits stands for."""
    word = tirx.Var("arg0", word_dtype(dtype))
    return Region.of((word,), convert(number_words.decoded(word, dtype), "int8"))
