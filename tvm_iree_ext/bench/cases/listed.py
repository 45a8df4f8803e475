"""The listed cases, by which this package is held against its peers, each with an odd twin.

A twin is the same work at sizes that are odd and in no list: what a kernel takes for one of its
elements there says whether anything was made for the listed sizes alone.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import Case
from tvm_iree_ext.bench.cases.arg_compare import arg_case
from tvm_iree_ext.bench.cases.attention import Form, attention_case, online_case
from tvm_iree_ext.bench.cases.contraction import Product, contraction_case
from tvm_iree_ext.bench.cases.conv_2d import conv_2d_case
from tvm_iree_ext.bench.cases.fft import transform_case
from tvm_iree_ext.bench.cases.im2col import im2col_case
from tvm_iree_ext.bench.cases.pack import pack_case, unpack_case
from tvm_iree_ext.bench.cases.scan import scan_case
from tvm_iree_ext.bench.cases.slices import gather_case, scatter_case
from tvm_iree_ext.bench.cases.sort import sort_case
from tvm_iree_ext.bench.cases.topk import topk_case
from tvm_iree_ext.bench.cases.winograd import winograd_case

Pair = tuple[Case, Case]
"""A listed case and its twin."""


def listed_cases() -> tuple[Case, ...]:
    """All of them, in the order of the table."""
    return tuple(case for case, _ in listed_pairs())


def listed_pairs() -> tuple[Pair, ...]:
    """All of them, each with its twin, which has the name of both."""
    families = (
        _matmuls,
        _convolutions,
        _attentions,
        _ffts,
        _scans,
        _sorts,
        _selections,
        _slices,
        _tiles,
        _winograds,
    )
    return tuple(
        (case, dataclasses.replace(twin, name=f"{case.name}_odd"))
        for family in families
        for case, twin in family()
    )


def _matmuls() -> Iterator[Pair]:
    sizes = [
        ((128, 256, 64), (127, 251, 61)),
        ((512,) * 3, (509, 521, 503)),
        ((1024,) * 3, (1021, 1019, 1013)),
        ((2048,) * 3, (2039, 2029, 2027)),
    ]
    for listed, odd in sizes:
        name = "dot_sub_128x256x64" if listed[0] == 128 else f"matmul_sub_{listed[0]}"
        yield (
            contraction_case(Product(name, *listed, epilogue="minus")),
            contraction_case(Product(name, *odd, epilogue="minus")),
        )


def _convolutions() -> Iterator[Pair]:
    yield (
        conv_2d_case("conv_stem_s2_sub", (1, 225, 225, 3), (3, 3, 3, 32), fused="sub", strides=2),
        conv_2d_case("", (1, 219, 221, 3), (3, 3, 3, 31), fused="sub", strides=2),
    )
    yield (
        conv_2d_case("conv3x3_64_56", (1, 56, 56, 64), (3, 3, 64, 64), padding=1),
        conv_2d_case("", (1, 53, 55, 61), (3, 3, 61, 67), padding=1),
    )
    winograd: dict[str, Any] = {"padding": 1, "algorithm": "winograd"}
    yield (
        conv_2d_case("conv3x3_64_56_winograd", (1, 56, 56, 64), (3, 3, 64, 64), **winograd),
        conv_2d_case("", (1, 53, 55, 61), (3, 3, 61, 67), **winograd),
    )


def _attentions() -> Iterator[Pair]:
    forms: tuple[Form, ...] = ("", "mask")
    for listed, odd in (((8, 1024, 64), (7, 1021, 61)), ((16, 2048, 128), (15, 2039, 127))):
        for dtype in ("float32", "float16", "bfloat16"):
            for form in forms:
                yield (
                    attention_case(*_square(*listed), dtype, form),
                    attention_case(*_square(*odd), dtype, form),
                )
    for dtype in ("float32", "float16"):
        yield (
            attention_case(32, 1, 4096, 128, dtype),
            attention_case(31, 1, 4093, 127, dtype),
        )
    yield online_case(8, 1024, 64), online_case(7, 1021, 61)


def _square(heads: int, length: int, dim: int) -> tuple[int, int, int, int]:
    return heads, length, length, dim


def _ffts() -> Iterator[Pair]:
    """The twins' rows are products of small odd primes, for which there is a fast transform."""
    sizes = [((64, 1024), (61, 1125)), ((1024, 256), (1021, 243)), ((16, 65536), (15, 59049))]
    for listed, odd in sizes:
        yield transform_case(listed, "forward", -1), transform_case(odd, "forward", -1)


def _scans() -> Iterator[Pair]:
    kinds = [((4096, 4096), (4093, 4091), 1), ((4096, 4096), (4093, 4091), 0)]
    for listed, odd, dimension in (*kinds, ((2**24,), (2**24 - 3,), 0)):
        for inclusive in (True, False):
            yield (
                scan_case(listed, dimension, inclusive=inclusive),
                scan_case(odd, dimension, inclusive=inclusive),
            )


def _sorts() -> Iterator[Pair]:
    m = 1 << 20
    sizes = {
        "4096": ((4096,), (4093,)),
        "1M": ((m,), (m - 3,)),
        "16M": ((16 * m,), (16 * m - 3,)),
        "1024x4096": ((1024, 4096), (1021, 4093)),
    }
    for dtype in ("float32", "int32"):
        for name, (listed, odd) in sizes.items():
            if (name, dtype) != ("4096", "int32"):
                yield sort_case(name, listed, dtype), sort_case(name, odd, dtype)
    for name in ("1M", "1024x4096"):
        listed, odd = sizes[name]
        yield (
            sort_case(name, listed, "float32", values=True),
            sort_case(name, odd, "float32", values=True),
        )


def _selections() -> Iterator[Pair]:
    sizes = [
        ((1024, 32000, 8), (1021, 31991, 7)),
        ((1024, 32000, 64), (1021, 31991, 63)),
        ((8, 128256, 50), (7, 128251, 49)),
    ]
    for listed, odd in sizes:
        yield topk_case(*listed), topk_case(*odd)
    for dimension in (1, 0):
        yield arg_case((4096, 4096), dimension), arg_case((4093, 4091), dimension)


def _slices() -> Iterator[Pair]:
    for unique in (True, False):
        yield (
            scatter_case("rows", 100_000, 1_000_000, 64, "add", unique=unique),
            scatter_case("rows", 99_991, 999_983, 63, "add", unique=unique),
        )
    for region, unique in (("set", True), ("add", False)):
        yield (
            scatter_case("elems", 1_000_000, 16_000_000, 1, region, unique=unique),
            scatter_case("elems", 999_983, 15_999_989, 1, region, unique=unique),
        )
    yield gather_case(4096, 50_000, 768), gather_case(4093, 49_999, 767)


def _tiles() -> Iterator[Pair]:
    yield im2col_case((2, 34, 34, 640), 3), im2col_case((2, 35, 33, 637), 3)
    tiles = (8, 32)
    for make in (pack_case, unpack_case):
        yield make((4096, 4096), tiles), make((4087, 4079), tiles)
        yield make((4093, 4091), tiles), make((4051, 4057), tiles)


def _winograds() -> Iterator[Pair]:
    yield (
        winograd_case("wino_input_1x58x58x64", ops.winograd_input_transform((1, 58, 58, 64))),
        winograd_case("", ops.winograd_input_transform((1, 57, 55, 61))),
    )
    yield (
        winograd_case("wino_filter_3x3x64x64", ops.winograd_filter_transform((3, 3, 64, 64))),
        winograd_case("", ops.winograd_filter_transform((3, 3, 61, 67))),
    )
    yield (
        winograd_case(
            "wino_output_1x60x60x64", ops.winograd_output_transform((8, 8, 1, 10, 10, 64))
        ),
        winograd_case("", ops.winograd_output_transform((8, 8, 1, 9, 11, 61))),
    )
