"""Tensors of complex numbers, which are two of parts, as one of words, for ops with regions."""

from tvm_iree_ext.base.dtypes import WORDS
from tvm_iree_ext.mlir.base.elements import Element, Pair, element
from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Tensor
from tvm_iree_ext.mlir.dialects.bitcasts import bitcast, paired, split
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.relax_types import ELEMENTWISE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.tir import number_words


def words_like(value: AnyTensor) -> Tensor:
    """The type of the words of a tensor of complex numbers, or of other elements themselves.

    Words of 128 bits are two of 64, along a last axis, as kernels take them.
    """
    kind = value.element
    if not kind.is_complex:
        return Tensor(value.shape, kind, ())
    if kind.name == "complex64":
        return Tensor(value.shape, element(WORDS[kind.name]), ())
    return Tensor((*value.shape, 2), element("uint64"), ())


def joined(scope: Scope, value: AnyTensor) -> Tensor:
    """The words of a tensor of complex numbers."""
    kind = value.element
    if kind.name == "complex128":
        return bitcast(scope, split(scope, value), element("uint64"))

    def word(kernel: PrimFuncBuilder, at: list[object]) -> list[object]:
        number = number_words.ComplexNumber(*kernel.copied(value, at))
        return [number_words.encoded(number, kind.name)]

    own = words_like(value)
    kernel = PrimFuncBuilder(
        scope, "complex_words", [value], [(own.shape, own.element)], ELEMENTWISE
    )
    with kernel:
        kernel.block(
            "complex_words",
            value.shape,
            lambda at: kernel.put(0, word(kernel, [*at.values()]), [*at.values()]),
        )
    return kernel.results[0]


def parted(scope: Scope, words: Tensor, kind: Element) -> Tensor:
    """The tensor of complex numbers that words are."""
    if kind.name == "complex128":
        return paired(scope, bitcast(scope, words, kind.part), kind)
    kernel = PrimFuncBuilder(scope, "complex_parts", [words], [(words.shape, kind)], ELEMENTWISE)

    def parts(at: list[object]) -> list[object]:
        (word,) = kernel.copied(words, at)
        number = number_words.decoded(word, kind.name)
        return [*Pair(number.real, number.imag)]

    with kernel:
        kernel.block(
            "complex_parts",
            words.shape,
            lambda at: kernel.put(0, parts([*at.values()]), [*at.values()]),
        )
    return kernel.results[0]
