"""What a CPU target offers to a schedule: vectors, registers, caches.

Asked of LLVM for the target's CPU and features, never of the machine that compiles.
"""

import functools
import json
from dataclasses import dataclass, replace

from tvm.target import Target
from tvm.target import codegen as llvm

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.targets.cpu_models import (
    FIRST_CACHE_BYTES,
    SECOND_CACHE_BYTES,
    CpuModel,
    cpu_model,
)

_TILES = {"bfloat16": "amx-bf16", "int8": "amx-int8"}


@dataclass(frozen=True)
class CpuFeatures:
    """Vector width and count of vector registers; both halve or double the register tiles.

    ``cores`` is how many threads kernels are balanced for: the target's ``num-cores``, which
    :func:`.names.host` sets, or else 8.  ``dot_dtypes`` are the types of which an instruction adds
    products of neighbours to each lane of 32 bits, in vectors of any length up to ``vector_bits``,
    and more of them than multiply-adds do.  ``tile_dtypes`` are those of which an instruction
    multiplies whole tiles (AMX).  ``compressed_bytes`` are the sizes of elements of which some
    lanes of a whole vector are moved to its front by an instruction, or by a few.
    ``first_cache_bytes`` and ``second_cache_bytes`` are the data caches of a core, or what blocks
    are chosen for where the model's were not timed; ``last_cache_bytes`` is how much a kernel has
    of the last cache, which threads share, 0 where the CPU's name does not tell.
    ``fetches_second`` says that lines asked for ahead are best fetched into the second cache, and
    that those of one run need not be asked for.  ``in_halves`` says that vectors are worked on in
    two halves, and ``adds_apart`` that sums of floats go beside multiply-adds.  ``has_fma`` says
    that a multiply-add is an instruction, which rounds once.
    """

    name: str
    vector_bits: int
    vector_registers: int
    cores: int
    dot_dtypes: frozenset[str] = frozenset()
    tile_dtypes: frozenset[str] = frozenset()
    compressed_bytes: frozenset[int] = frozenset()
    first_cache_bytes: int = FIRST_CACHE_BYTES
    second_cache_bytes: int = SECOND_CACHE_BYTES
    last_cache_bytes: int = 0
    fetches_second: bool = False
    in_halves: bool = False
    adds_apart: bool = False
    has_fma: bool = True

    def lanes(self, dtype_bits: int) -> int:
        """Elements of ``dtype_bits`` in a vector."""
        return self.vector_bits // dtype_bits

    @property
    def shuffled_bits(self) -> int:
        """The width of vectors whose lanes are best moved to other lanes."""
        return self.vector_bits // 2 if self.in_halves else self.vector_bits


def cpu_features(target: Target) -> CpuFeatures:
    """The features of an LLVM target.

    Raises:
        TargetError: when the target is not an LLVM CPU.
    """
    if target.kind.name != "llvm":
        raise TargetError(f"{target.kind.name} is not a CPU target")
    return _features(str(target))


@functools.cache  # LLVM makes a machine for each question, and a build asks for the features often
def _features(text: str) -> CpuFeatures:
    """The features of the target of which this is the JSON."""
    target = Target(json.loads(text))
    model = cpu_model(str(target.attrs.get("mcpu", "")))
    return replace(
        _vector_features(target, model),
        first_cache_bytes=model.first_cache_bytes,
        second_cache_bytes=model.second_cache_bytes,
    )


def _vector_features(target: Target, model: CpuModel) -> CpuFeatures:
    """The features of a target's vectors, and what the model says of each kind of them."""
    cores = int(target.attrs.get("num-cores", 8))

    def has(feature: str) -> bool:
        return bool(llvm.llvm_cpu_has_features(feature, target))

    if str(target.attrs.get("mtriple", "")).startswith(("aarch64", "arm64")):
        return CpuFeatures("NEON", 128, 32, cores)
    if has("avx512f"):
        features = {"bfloat16": "avx512bf16", "int8": "avx512vnni"} if has("avx512vl") else {}
        if not model.fast_pairs:
            features.pop("bfloat16", None)
        dots = frozenset(dtype for dtype, feature in features.items() if has(feature))
        # Every CPU with tiles rounds to bfloat16 by an instruction, too, which their kernels use.
        features = _TILES if has("amx-tile") and has("avx512bf16") else {}
        tiles = frozenset(dtype for dtype, feature in features.items() if has(feature))
        compressed = frozenset({2, 4, 8} if has("avx512vbmi2") else {4, 8})
        return CpuFeatures(
            "AVX-512",
            512,
            32,
            cores,
            dots,
            tiles,
            compressed,
            last_cache_bytes=model.last_cache_bytes,
            fetches_second=model.fetches_second,
            in_halves=model.in_halves,
            adds_apart=model.adds_apart,
        )
    if has("avx2") or has("avx"):
        dots = frozenset({"int8"}) if has("avxvnni") else frozenset()
        # AVX2 takes words in any order, and the order stands in a table.
        name, compressed = ("AVX2", frozenset({4, 8})) if has("avx2") else ("AVX", frozenset[int]())
        return CpuFeatures(
            name,
            256,
            16,
            cores,
            dots,
            compressed_bytes=compressed,
            last_cache_bytes=model.last_cache_bytes,
            fetches_second=model.fetches_second,
            adds_apart=model.adds_apart,
            has_fma=has("fma"),
        )
    return CpuFeatures("128-bit vectors", 128, 16, cores, has_fma=has("fma"))
