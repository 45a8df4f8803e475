"""Suites tuned together: named suites of ops, and the kernels of a program."""

from collections.abc import Callable
from pathlib import Path

from tvm_iree_ext import mlir, ops
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.program_lowering import program_ops
from tvm_iree_ext.targets.names import TargetLike, make_target
from tvm_iree_ext.tuning.base.task import Task


def _heads(count: int, length: int, width: int, dtype: str = "float32") -> Op:
    shape = (1, count, length, width)
    return ops.attention(shape, shape, shape, dtype=dtype)


def _readme() -> dict[str, Op]:
    """One op of each kind, small enough for a look."""
    return {
        "attention_h8_s512_d64": _heads(8, 512, 64),
        "matmul_512": ops.matmul((512, 512), (512, 512)),
        "conv3x3_64_28": ops.conv_2d((1, 30, 30, 64), (3, 3, 64, 64)),
        "fft_64x1024": ops.fft_transform((64, 1024), (64, 1024)),
        "scan_256x4096": ops.scan((256, 4096), dimension=1, reassociate=True),
        "sort_128x4096": ops.sort((128, 4096), dimension=1),
        "topk_64x8192_k8": ops.topk((64, 8192), dimension=1, k=8),
    }


def _common() -> dict[str, Op]:
    """Shapes that models and signal processing often have; those of the shipped records."""
    found = {
        f"attention_h{heads}_s{length}_d{width}": _heads(heads, length, width)
        for heads, length, width in ((8, 1024, 64), (12, 512, 64), (16, 2048, 128))
    }
    found |= {f"matmul_{n}": ops.matmul((n, n), (n, n)) for n in (256, 512, 1024, 2048)}
    found |= {
        f"conv3x3_{channels}_{size}": ops.conv_2d(
            (1, size + 2, size + 2, channels), (3, 3, channels, channels), algorithm="fastest"
        )
        for channels, size in ((64, 56), (128, 28), (256, 14))
    }
    found |= {
        f"fft_{rows}x{length}": ops.fft_transform((rows, length), (rows, length))
        for rows, length in ((64, 1024), (1024, 256), (16, 65536))
    }
    found |= {
        f"scan_{rows}x{length}": ops.scan((rows, length), dimension=1, reassociate=True)
        for rows, length in ((4096, 4096), (1, 1 << 20))
    }
    found |= {
        f"sort_{rows}x{length}": ops.sort((rows, length), dimension=1)
        for rows, length in ((1024, 4096), (1, 1 << 20))
    }
    found |= {
        f"topk_{rows}x{length}_k{k}": ops.topk((rows, length), dimension=1, k=k)
        for rows, length, k in ((1024, 32000, 8), (1024, 32000, 64), (8, 128256, 50))
    }
    return found


def _gpu() -> dict[str, Op]:
    """Sizes at which a GPU is busy, and the small products of one block of a model."""

    def product(rows: int, columns: int, depth: int, dtype: str) -> Op:
        return ops.matmul(TensorType((rows, depth), dtype), TensorType((depth, columns), dtype))

    def convolution(size: int, channels: int, dtype: str) -> Op:
        image = (1, size + 2, size + 2, channels)
        return ops.conv_2d(image, (3, 3, channels, channels), dtype=dtype)

    return {
        "matmul_f16_128x768x768": product(128, 768, 768, "float16"),
        "matmul_f16_128x3072x768": product(128, 3072, 768, "float16"),
        "matmul_f16_4096": product(4096, 4096, 4096, "float16"),
        "matmul_f32_1024": product(1024, 1024, 1024, "float32"),
        "attention_f16_h12_s128_d64": _heads(12, 128, 64, "float16"),
        "attention_f16_h16_s4096_d128": _heads(16, 4096, 128, "float16"),
        "conv3x3_f16_28x128": convolution(28, 128, "float16"),
        "conv3x3_f32_56x64": convolution(56, 64, "float32"),
        "fft_1024x16384": ops.fft_transform((1024, 16384), (1024, 16384)),
        "scan_4096x4096": ops.scan((4096, 4096), dimension=1, reassociate=True),
        "sort_1x1048576": ops.sort((1, 1 << 20), dimension=1),
        "topk_64x131072_k32": ops.topk((64, 131072), dimension=1, k=32),
    }


SUITES: dict[str, Callable[[], dict[str, Op]]] = {
    "readme": _readme,
    "common": _common,
    "gpu": _gpu,
}


def suite(name: str) -> list[Task]:
    """The tasks of a suite.

    Raises:
        TuningError: for one that there is not.
    """
    if name not in SUITES:
        hint = did_you_mean(name, SUITES)
        raise TuningError(f"no suite {name!r}; there are {', '.join(SUITES)}{hint}")
    return [Task(title, op) for title, op in SUITES[name]().items()]


def program_tasks(path: Path | str, target: TargetLike = "llvm") -> list[Task]:
    """The kernels of a program of MLIR, each op once, that are of ops with known extents.

    Raises:
        TargetError: for a target that is not known.
        MlirError: for a program that cannot be imported.
        TuningError: where nothing is left to tune.
    """
    imported = mlir.import_program(Path(path))
    merged: dict[str, Task] = {}
    for name, (op, calls) in program_ops(imported, make_target(target)).items():
        if op.signature.symbols:
            continue
        key = str(op.describe())
        known = merged.get(key)
        merged[key] = Task(name, op, calls + (known.calls or 0 if known else 0))
    if not merged:
        raise TuningError(f"{path}: no kernel is of an op of which all extents are known")
    return list(merged.values())
