"""Figures of CPU models that no feature of LLVM's tells, each with its source, machine and date.

``cpu_models.json`` has a row for each figure.  A row holds for all CPUs whose name, LLVM's, begins
with its ``cpu``; where several do, the longest name counts.

``fast_pairs``
    whether an instruction that multiplies pairs of bfloat16 adds up more products than
    multiply-adds of float32 do
``first_cache_bytes``, ``second_cache_bytes``
    the data caches of one core, by which blocks are chosen
``last_cache_bytes``
    how much a kernel has of the last cache, which threads share
``fetches_second``
    whether lines that are asked for ahead are best fetched into the second cache, and a run of
    memory is best not asked for at all
``in_halves``
    whether vectors of 512 bits are worked on in two halves, so that what takes a lane to another
    half is done twice
``adds_apart``
    whether sums of floats have units of their own, beside those of multiply-adds

Blocks were chosen for the sizes that are the defaults, those of Zen 4 and of Skylake servers.
Models of other published sizes have no row yet, since a row changes their blocks, and these have
not been timed: Zen to Zen 3 (32 and 512 KiB), Zen 5 (48 KiB, 1 MiB), Ice Lake servers (48 KiB, 1.25
MiB), Sapphire and Granite Rapids (48 KiB, 2 MiB), Neoverse N1 and V1 (64 KiB, up to 1 MiB).
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

FIRST_CACHE_BYTES = 32 << 10
SECOND_CACHE_BYTES = 1 << 20
"""The caches of a core that nothing is known of."""


@dataclass(frozen=True)
class CpuModel:
    """What is known of a CPU by its name; see the module."""

    fast_pairs: bool = False
    first_cache_bytes: int = FIRST_CACHE_BYTES
    second_cache_bytes: int = SECOND_CACHE_BYTES
    last_cache_bytes: int = 0
    fetches_second: bool = False
    in_halves: bool = False
    adds_apart: bool = False


@functools.cache
def figures() -> tuple[Mapping[str, Any], ...]:
    """The rows of the table: cpu, field, value, source, machine, date."""
    text = files("tvm_iree_ext.targets").joinpath("cpu_models.json").read_text("utf-8")
    return tuple(json.loads(text))


@functools.cache
def cpu_model(name: str) -> CpuModel:
    """The model of a CPU by LLVM's name, such as ``znver4``."""
    rows = [row for row in figures() if name.startswith(row["cpu"])]
    rows.sort(key=lambda row: len(row["cpu"]))
    return CpuModel(**{row["field"]: row["value"] for row in rows})
