"""Tensors of complex numbers, which are two of parts, as one of words, for ops with regions."""

from tvm_iree_ext.base.dtypes import WORDS
from tvm_iree_ext.mlir.base.elements import Element, Pair, element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Tensor
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.relax_types import ELEMENTWISE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.tir import number_words


def word_element(kind: Element) -> Element:
    """The element type of the words of a complex one.

    Raises:
        Unsupported: for complex<f64>, whose words are of 128 bits.
    """
    if kind.name != "complex64":
        raise Unsupported("a region over complex<f64>, which no integer holds")
    return element(WORDS[kind.name])


def joined(scope: Scope, value: AnyTensor) -> Tensor:
    """The words of a tensor of complex numbers."""
    kind = value.element

    def word(kernel: PrimFuncBuilder, at: list[object]) -> list[object]:
        number = number_words.ComplexNumber(*kernel.copied(value, at))
        return [number_words.encoded(number, kind.name)]

    kernel = PrimFuncBuilder(
        scope, "complex_words", [value], [(value.shape, word_element(kind))], ELEMENTWISE
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
