"""Kernels that are timed on a GPU, each beside what PyTorch calls for the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.ops.base.op import Op

_ZEROS = {"accumulator_init": "zeros"}
_NONE_YET = {"output_values_init": "lowest", "output_indices_init": "zeros"}
_NO_BEST = {"init_value": "lowest", "init_index": "zeros"}


@dataclass(frozen=True)
class SpeedCase:
    """An op, and who else computes it.

    Attributes:
        make: the op.
        peer: its name in :mod:`~tvm_iree_ext.on_gpu.torch_peers`.
        settings: what the peer is told.
        fills: what operands hold, where that is not normal numbers: ``zeros``, ``lowest``, or
            ``below N``, integers from 0.
        configs: lowering configs to be timed beside the heuristic's, by name: what to change of it.
    """

    make: Callable[[], Op]
    peer: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    fills: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _splits(*counts: int) -> dict[str, dict[str, Any]]:
    """Configs with other numbers of parts of what is summed."""
    return {f"{count} parts": {"splits": count} for count in counts}


_ONE_TILE: dict[str, dict[str, Any]] = {"a workgroup for each tile": {"workgroups": 0}}

_TILES: dict[str, dict[str, Any]] = {
    **_ONE_TILE,
    "3 stages": {"stages": 3},
    "256x128": {
        "workgroup_tile": {"m": 256, "n": 128},
        "mma_kind": "NV_WGMMA_F32_64x128x16_F16",
    },
}

_NARROW: dict[str, dict[str, Any]] = {
    **_ONE_TILE,
    "128x128": {"workgroup_tile": {"m": 128, "n": 128}},
}


def _by_subgroups(rows: int, columns: int, splits: int, *others: int) -> dict[str, dict[str, Any]]:
    """Configs of matrix instructions of a subgroup, with K in other numbers of parts."""
    config = {
        "algorithm": "mma",
        "workgroup_tile": {"m": rows, "n": columns},
        "reduction_tile": {"k": 64},
        "mma_kind": "NV_MMA_SYNC_F32_16x8x16_F16",
        "subgroups": {"m": 2 if rows > 16 else 1, "n": 2},
        "stages": 3,
        "splits": splits,
        "workgroups": 0,
        "pad": (),
    }
    return {"by subgroups": config, **_splits(*others)}


# Of which a core holds one workgroup, or two: the model of time has them far apart (docs/gpu.md).
_SUBGROUP_TILES: dict[str, dict[str, Any]] = {
    f"by subgroups, {rows}x{columns}x{depth}": {
        **_by_subgroups(rows, columns, 1)["by subgroups"],
        "reduction_tile": {"k": depth},
        "subgroups": {"m": rows // 64, "n": columns // 64},
    }
    for rows, columns, depth in ((256, 128, 64), (256, 64, 32), (128, 128, 32))
}

_UNPADDED = {"rows as they are": _by_subgroups(128, 64, 1)["by subgroups"]}


_NARROW_TILES: dict[str, dict[str, Any]] = {
    f"64x{columns}": {
        "workgroup_tile": {"m": 64, "n": columns},
        "mma_kind": f"NV_WGMMA_F32_64x{columns}x16_F16",
        "splits": splits,
    }
    for columns, splits in ((128, 4), (256, 8))
}

_WHOLE: dict[str, dict[str, Any]] = {
    "128x256": {
        "workgroup_tile": {"m": 128, "n": 256},
        "mma_kind": "NV_WGMMA_F32_64x256x16_F16",
    }
}


def _matmul(
    m: int, n: int, k: int, dtype: str, *, transposed: bool = True, result: str | None = None,
    configs: Mapping[str, Mapping[str, Any]] | None = None,
) -> SpeedCase:  # fmt: skip
    def make() -> Op:
        rhs = (n, k) if transposed else (k, n)
        return ops.matmul((m, k), rhs, dtype=dtype, transpose_rhs=transposed, result_dtype=result)

    return SpeedCase(make, "matmul", {"transposed": transposed}, configs=configs or {})


def _attention(
    batch: int, heads: int, rows: int, keys: int, width: int, dtype: str = "float16", *,
    key_heads: int = 0, causal: bool = False,
    configs: Mapping[str, Mapping[str, Any]] | None = None,
) -> SpeedCase:  # fmt: skip
    def make() -> Op:
        groups = key_heads or heads
        shapes = ((heads, rows), (groups, keys), (groups, keys))
        return ops.attention(
            *((batch, *shape, width) for shape in shapes), dtype=dtype, layout="bhsd", causal=causal
        )

    return SpeedCase(make, "attention", {"causal": causal}, configs=configs or {})


_SMALL: dict[str, dict[str, Any]] = {
    **_ONE_TILE,
    "64x128": {
        "workgroup_tile": {"m": 64, "n": 128},
        "mma_kind": "NV_WGMMA_F32_64x128x16_F16",
        "subgroups": {"m": 4, "n": 1},
        "workgroups": 0,
    },
    "128x128, 2 stages": {
        "workgroup_tile": {"m": 128, "n": 128},
        "mma_kind": "NV_WGMMA_F32_64x128x16_F16",
        "stages": 2,
        "workgroups": 0,
    },
    "128x128 in turns": {
        "workgroup_tile": {"m": 128, "n": 128},
        "mma_kind": "NV_WGMMA_F32_64x128x16_F16",
    },
}


def _lanes_tile(rows: int, columns: int, splits: int, subgroups: tuple[int, int]) -> dict[str, Any]:
    """A workgroup's tile of a product by lanes' multiply-adds."""
    return {
        "workgroup_tile": {"m": rows, "n": columns},
        "subgroups": {"m": subgroups[0], "n": subgroups[1]},
        "splits": splits,
    }


def _lanes_tiles(small: int, large: int) -> dict[str, dict[str, Any]]:
    """Small and large tiles, with so many parts of K."""
    return {
        "64x64": _lanes_tile(64, 64, small, (2, 1)),
        "128x128": _lanes_tile(128, 128, large, (4, 2)),
    }


_AS_IT_IS: dict[str, dict[str, Any]] = {
    "the image as it is": {"pad": (), "subgroups": {"m": 4, "n": 2}}
}


def _conv(
    batch: int, size: int, channels: int, filters: int, taps: int, dtype: str = "float16",
    configs: Mapping[str, Mapping[str, Any]] = _SMALL, *, stride: int = 1,
) -> SpeedCase:  # fmt: skip
    def make() -> Op:
        return ops.conv_2d(
            (batch, size, size, channels), (taps, taps, channels, filters),
            dtype=dtype, padding=taps // 2, strides=stride,
        )  # fmt: skip

    return SpeedCase(make, "conv_2d", {"padding": taps // 2, "stride": stride}, configs=configs)


def _scan(shape: tuple[int, ...], axis: int, *, in_order: bool = False) -> SpeedCase:
    """A running sum; PyTorch's is bracketed as it likes, which ``in_order`` forbids ours."""

    def make() -> Op:
        return ops.scan(shape, "add", dimension=axis, reassociate=not in_order)

    return SpeedCase(make, "cumsum", {"axis": axis}, _ZEROS)


def _fft(
    shape: tuple[int, int], *, axis: int = -1, dtype: str = "float32",
    tiles: Mapping[str, tuple[int, int, int]] | None = None,
) -> SpeedCase:  # fmt: skip
    """A transform; ``tiles``: lanes, elements, and the longest line of other configs."""

    def make() -> Op:
        return ops.fft_transform(shape, axis=axis, dtype=dtype)

    configs: dict[str, dict[str, Any]] = {
        name: {"workgroup_tile": {"lanes": lanes, "elements": elements, "longest": longest}}
        for name, (lanes, elements, longest) in (tiles or {}).items()
    }
    if dtype == "float32":
        configs["radix 8"] = {"register_tile": {"radix": 8}}
    return SpeedCase(make, "fft", {"axis": axis}, configs=configs)


def _argmax(shape: tuple[int, ...], axis: int) -> SpeedCase:
    def make() -> Op:
        return ops.arg_compare(shape, ">", dimension=axis)

    return SpeedCase(make, "argmax", {"axis": axis}, _NO_BEST)


def _exp_sums(rows: int, keys: int) -> SpeedCase:
    """Maxima of rows, and sums of powers below them: the state of a softmax."""

    def make() -> Op:
        return ops.exp_reduction(
            [(rows, keys)], [(rows,), (rows,)], region="arg1, arg0 + arg2",
            indexing_maps=["(m, k) -> (m, k)", "(m, k) -> (m)", "(m, k) -> (m)"],
            iterator_types=["parallel", "reduction"], exp_reduced_operands=[1],
        )  # fmt: skip

    fills = {"init0": "lowest", "init1": "zeros"}
    return SpeedCase(make, "exp_sums", {"axis": 1}, fills)


def _sort(length: int, *dtypes: str, fill: str = "normal") -> SpeedCase:
    def make() -> Op:
        operands = (TensorType((length,), dtype) for dtype in dtypes)
        return ops.sort(*operands, dimension=0)

    peer = "sort" if len(dtypes) == 1 else "sort with payload"
    fills = {"operand0": fill, "operand1": "below 2000000000"}
    return SpeedCase(make, peer, {"axis": 0}, fills)


CASES: Mapping[str, SpeedCase] = {
    "matmul f16 4096 NxK": _matmul(
        4096, 4096, 4096, "float16", configs={**_TILES, **_SUBGROUP_TILES}
    ),
    "matmul f16 4096 KxN": _matmul(4096, 4096, 4096, "float16", transposed=False),
    "matmul f16 8192 NxK": _matmul(
        8192,
        8192,
        8192,
        "float16",
        configs={
            "128x256 in turns": {
                "workgroup_tile": {"m": 128, "n": 256},
                "mma_kind": "NV_WGMMA_F32_64x256x16_F16",
                "workgroups": 132,
            }
        },
    ),
    "matmul f16 8192 KxN": _matmul(8192, 8192, 8192, "float16", transposed=False),
    "matmul bf16 4096 NxK": _matmul(4096, 4096, 4096, "bfloat16"),
    "matmul bf16 8192 KxN": _matmul(8192, 8192, 8192, "bfloat16", transposed=False),
    "matmul i8 4096 NxK": _matmul(4096, 4096, 4096, "int8", configs=_NARROW),
    # cuBLASLt's results are bfloat16, half as many bytes as float32's.
    "matmul f8 4096 NxK in bf16": _matmul(
        4096, 4096, 4096, "float8_e4m3fn", result="bfloat16", configs=_NARROW
    ),
    "matmul f8 8192 NxK in bf16": _matmul(8192, 8192, 8192, "float8_e4m3fn", result="bfloat16"),
    "matmul f8 4096 NxK": _matmul(4096, 4096, 4096, "float8_e4m3fn", configs=_NARROW),
    "matmul i8 4096 KxN": _matmul(4096, 4096, 4096, "int8", transposed=False),
    "matmul f8 4096 KxN": _matmul(
        4096, 4096, 4096, "float8_e4m3fn", transposed=False, result="bfloat16"
    ),
    "matmul f32 4096 NxK": _matmul(4096, 4096, 4096, "float32"),
    "matmul f64 2048 NxK": _matmul(2048, 2048, 2048, "float64"),
    "matmul f16 4095x4097x4093 NxK": _matmul(
        4095, 4097, 4093, "float16", configs={**_ONE_TILE, **_WHOLE}
    ),
    "matmul f16 4095x4097x4093 KxN": _matmul(4095, 4097, 4093, "float16", transposed=False),
    "matmul f16 4096x4096x4098 NxK": _matmul(4096, 4096, 4098, "float16"),
    "matmul f16 1023x1025x1027 NxK": _matmul(1023, 1025, 1027, "float16", configs=_UNPADDED),
    "matmul f16 511x513x515 NxK": _matmul(511, 513, 515, "float16"),
    "matmul bf16 4095x4097x4093 NxK": _matmul(4095, 4097, 4093, "bfloat16"),
    "matmul i8 4095x4097x4093 NxK": _matmul(4095, 4097, 4093, "int8"),
    "matmul f8 4095x4097x4093 NxK": _matmul(4095, 4097, 4093, "float8_e4m3fn", result="bfloat16"),
    "matmul f32 4095x4097x4093 NxK": _matmul(
        4095, 4097, 4093, "float32", configs={"rows as they are": {"pad": ()}}
    ),
    "matmul f64 2047x2049x2045 NxK": _matmul(
        2047, 2049, 2045, "float64", configs={"rows as they are": {"pad": ()}}
    ),
    "matmul f16 16x4096x4096 NxK": _matmul(
        16, 4096, 4096, "float16", configs=_by_subgroups(16, 256, 4, 2, 8)
    ),
    "matmul f16 1x4096x16384 NxK": _matmul(
        1, 4096, 16384, "float16", configs={**_by_subgroups(16, 256, 8), **_NARROW_TILES}
    ),
    "matmul f16 64x64x65536 NxK": _matmul(
        64, 64, 65536, "float16", configs=_by_subgroups(64, 64, 64, 32, 64)
    ),
    "matmul f16 512x512x16384 NxK": _matmul(
        512, 512, 16384, "float16", configs=_by_subgroups(128, 64, 8, 8)
    ),
    "matmul f16 16x65536x4096 NxK": _matmul(16, 65536, 4096, "float16", configs=_ONE_TILE),
    "matmul f16 4096x4096x64 NxK": _matmul(4096, 4096, 64, "float16", configs=_SMALL),
    # Of whole programs: a block of 128 tokens, and the layers of a ResNet for one image.
    "matmul f32 128x768x768 NxK": _matmul(128, 768, 768, "float32", configs=_lanes_tiles(4, 6)),
    "matmul f32 128x3072x768 NxK": _matmul(128, 3072, 768, "float32", configs=_lanes_tiles(1, 4)),
    "matmul f32 128x768x3072 NxK": _matmul(128, 768, 3072, "float32", configs=_lanes_tiles(8, 16)),
    "matmul f32 1024 NxK": _matmul(1024, 1024, 1024, "float32", configs=_lanes_tiles(1, 2)),
    "matmul f16 128x768x768 NxK": _matmul(128, 768, 768, "float16", configs=_splits(1, 2, 4)),
    "matmul f16 128x3072x768 NxK": _matmul(128, 3072, 768, "float16", configs=_splits(1, 2, 4)),
    "matmul f32 1x4096x4096 NxK": _matmul(1, 4096, 4096, "float32", configs=_splits(4, 16)),
    "matmul f16 1x4096x4096 NxK": _matmul(1, 4096, 4096, "float16", configs=_splits(4, 16, 32)),
    "conv f32 3x3 1x56x56x64": _conv(1, 56, 64, 64, 3, "float32", _lanes_tiles(2, 3)),
    "conv f32 3x3 1x28x28x128": _conv(1, 28, 128, 128, 3, "float32", _lanes_tiles(4, 6)),
    "conv f32 3x3 1x14x14x256": _conv(1, 14, 256, 256, 3, "float32", _lanes_tiles(8, 12)),
    "conv f32 3x3 1x7x7x512": _conv(1, 7, 512, 512, 3, "float32", _lanes_tiles(12, 24)),
    "conv f16 3x3 1x28x28x128": _conv(1, 28, 128, 128, 3, configs=_splits(1, 2, 4)),
    "attention f16 d128 4x16x4096": _attention(4, 16, 4096, 4096, 128),
    "attention f16 d128 causal 4x16x4096": _attention(4, 16, 4096, 4096, 128, causal=True),
    "attention bf16 d128 4x16x4096": _attention(4, 16, 4096, 4096, 128, "bfloat16"),
    "attention f16 d64 4x16x4096": _attention(4, 16, 4096, 4096, 64),
    "attention f16 d64 causal 4x16x4096": _attention(4, 16, 4096, 4096, 64, causal=True),
    "attention f16 d256 2x8x4096": _attention(2, 8, 4096, 4096, 256),
    "attention f16 d128 1x8x1025": _attention(1, 8, 1025, 999, 128),
    # Of a block of 128 tokens, which are fewer workgroups than cores: smaller tiles take as long.
    "attention f16 d64 1x12x128": _attention(1, 12, 128, 128, 64),
    "attention f32 d64 1x12x128": _attention(1, 12, 128, 128, 64, "float32"),
    "attention f32 d64 1x8x2048": _attention(1, 8, 2048, 2048, 64, "float32"),
    "decode f16 d128 1x32 on 8, 8192 keys": _attention(
        1, 32, 1, 8192, 128, key_heads=8, configs=_splits(16, 64, 128)
    ),
    "decode f16 d128 16x32 on 8, 8192 keys": _attention(
        16, 32, 1, 8192, 128, key_heads=8, configs=_splits(4, 8, 16, 32)
    ),
    "conv f16 3x3 32x56x56x128": _conv(32, 56, 128, 128, 3),
    "conv f16 1x1 32x56x56x256": _conv(32, 56, 256, 256, 1),
    "conv f16 3x3 by 2 32x56x56x128": _conv(
        32, 56, 128, 128, 3, configs=_by_subgroups(128, 64, 1), stride=2
    ),
    "conv f16 3x3 32x224x224x3": _conv(32, 224, 3, 64, 3, configs=_AS_IT_IS),
    "conv f16 7x7 by 2 32x224x224x3": _conv(32, 224, 3, 64, 7, configs=_AS_IT_IS, stride=2),
    "scan f32 4096x4096": _scan((4096, 4096), 1),
    "scan f32 16M": _scan((1 << 24,), 0),
    "scan f32 1M": _scan((1 << 20,), 0),
    "scan f32 4x4M": _scan((4, 1 << 22), 1),
    "scan f32 4Mx4": _scan((1 << 22, 4), 0),
    "scan in order f32 4096x4096": _scan((4096, 4096), 1, in_order=True),
    "scan in order f32 1M": _scan((1 << 20,), 0, in_order=True),
    "sort f32 1M": SpeedCase(lambda: ops.sort((1 << 20,), dimension=0), "sort", {"axis": 0}),
    "sort f32 16M": SpeedCase(lambda: ops.sort((1 << 24,), dimension=0), "sort", {"axis": 0}),
    "sort f16 16M": _sort(1 << 24, "float16"),
    "sort i32 16M": _sort(1 << 24, "int32", fill="below 2000000000"),
    "sort u8 16M": _sort(1 << 24, "uint8", fill="below 256"),
    "sort f32 16M with an index": _sort(1 << 24, "float32", "int32"),
    "sort f32 4096x4096": SpeedCase(
        lambda: ops.sort((4096, 4096), dimension=1), "sort", {"axis": 1}
    ),
    "topk f32 64x131072, 32": SpeedCase(
        lambda: ops.topk((64, 131072), dimension=1, k=32), "topk", {"axis": 1, "k": 32}, _NONE_YET
    ),
    "topk f32 1x16M, 32": SpeedCase(
        lambda: ops.topk((1, 1 << 24), dimension=1, k=32), "topk", {"axis": 1, "k": 32}, _NONE_YET
    ),
    "topk f32 4096x4096, 8": SpeedCase(
        lambda: ops.topk((4096, 4096), dimension=1, k=8), "topk", {"axis": 1, "k": 8}, _NONE_YET
    ),
    "fft c64 4096x4096": _fft((4096, 4096), tiles={"two passes": (512, 4096, 2048)}),
    "fft c64 64x65536": _fft((64, 65536), tiles={"runs of 128 bytes": (512, 8192, 16384)}),
    "fft c64 16384x256": _fft((16384, 256), tiles={"2048 elements": (512, 2048, 16384)}),
    "fft c64 2048x8192": _fft((2048, 8192), tiles={"256 lanes": (256, 4096, 8192)}),
    "fft c64 1024x16384": _fft(
        (1024, 16384),
        tiles={"two passes": (512, 4096, 8192), "1024 lanes": (1024, 4096, 16384)},
    ),
    "fft c64 1x1M": _fft((1, 1 << 20), tiles={"three passes": (512, 4096, 4096)}),
    "fft c64 4096x4096 along columns": _fft(
        (4096, 4096), axis=0, tiles={"8192 elements": (512, 8192, 16384)}
    ),
    "fft c128 2048x2048": _fft((2048, 2048), dtype="float64"),
    "argmax f32 8192x8192": _argmax((8192, 8192), 1),
    "argmax f32 16M": _argmax((1 << 24,), 0),
    "argmax f32 4x4M": _argmax((4, 1 << 22), 1),
    "argmax f32 4Mx4": _argmax((1 << 22, 4), 0),
    "exp_reduction f32 1x16M": _exp_sums(1, 1 << 24),
    "exp_reduction f32 4096x4096": _exp_sums(4096, 4096),
    "pack f16 8192x8192 16x16": SpeedCase(
        lambda: ops.pack(
            (8192, 8192), inner_dims_pos=[0, 1], inner_tiles=[16, 16], dtype="float16"
        ),
        "pack",
    ),
    "gather f32 65536 rows of 32000x1024": SpeedCase(
        lambda: ops.gather((32000, 1024), (65536, 1)), "gather", {}, {"indices": "below 32000"}
    ),
}
"""By name; what is compared is the same work on the same operands."""
