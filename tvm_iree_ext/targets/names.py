"""Targets by name: what a user writes, as TVM's target.

llvm                                 this machine's CPU
llvm:znver4                          another x86-64 CPU, by LLVM's name
llvm:neoverse-n1@aarch64-linux-gnu   a CPU of another architecture
cuda:sm_80                           an NVIDIA GPU; sm_90a also has what only that chip has
rocm:gfx942                          an AMD GPU
rocm:gfx1100@wave64                  one with subgroups of 64 lanes instead of 32
{"kind": "llvm", ...}                TVM's own form, as a dictionary or JSON
"""

import functools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from tvm.target import Target
from tvm.target import codegen as llvm

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.base.limited_reading import json_value
from tvm_iree_ext.base.suggestions import did_you_mean, meant
from tvm_iree_ext.runtime.machine import uname_machine
from tvm_iree_ext.targets.gpu import chip_names, gpu_chip
from tvm_iree_ext.targets.host import host

TargetLike: TypeAlias = str | Mapping[str, Any] | Target
"""A target: by a name such as ``cuda:sm_80``, by its fields as TVM's JSON, or TVM's own."""

KINDS = ("llvm", "cuda", "rocm")
"""The kinds of TVM's targets that are known here."""

_CHIP_ATTRIBUTE = {"cuda": "arch", "rocm": "mcpu"}
_OTHER_KINDS = {
    **dict.fromkeys(("cpu", "host", "native", "x86", "c"), "llvm"),
    **dict.fromkeys(("gpu", "nvidia", "nvptx", "ptx"), "cuda"),
    **dict.fromkeys(("amd", "amdgpu", "hip"), "rocm"),
}
# What chips are sold as, by the same vendors' tables that gpu_chips.json has.
_PRODUCTS = {
    "a100": "sm_80",
    "a10": "sm_86",
    "l40s": "sm_89",
    "h100": "sm_90a",
    "h200": "sm_90a",
    "b200": "sm_100a",
    "b300": "sm_103a",
    "gb10": "sm_121a",
    "mi250": "gfx90a",
    "mi250x": "gfx90a",
    "mi300": "gfx942",
    "mi300x": "gfx942",
    "mi300a": "gfx942",
    "mi325x": "gfx942",
    "mi355x": "gfx950",
}
_WAVE = "+wavefrontsize"
_MODES = {"cuda": ("",), "rocm": ("", "wave32", "wave64")}


def make_target(target: TargetLike) -> Target:
    """TVM's target for a name, a dictionary, or a target.

    Raises:
        TargetError: for an unknown kind, architecture, CPU or feature, saying which are known.
    """
    if isinstance(target, Target):
        made = target
    elif isinstance(target, Mapping):
        made = _from_json(dict(target))
    elif not isinstance(target, str):
        raise TargetError(f"target {target!r}: expected a name, a dictionary or a target of TVM")
    elif target.lstrip().startswith("{"):
        try:
            made = _from_json(json_value(target))
        except ValueError as error:
            raise TargetError(f"target {target!r} is not JSON: {error}") from None
    else:
        made = _from_name(target)
    if made.kind.name not in KINDS:
        raise TargetError(f"target kind {made.kind.name!r}: supported are {', '.join(KINDS)}")
    if made.kind.name in _CHIP_ATTRIBUTE:
        return _with_limits(made)
    _check(made)
    return made


def _from_json(data: dict[str, Any]) -> Target:
    try:
        if data.get("kind") in _CHIP_ATTRIBUTE:
            return _gpu_target(json.dumps(data, sort_keys=True))
        return Target(data)
    except (RuntimeError, ValueError, TypeError) as error:  # TVM raises any of these
        raise TargetError(f"target {data}: {error}") from None


@functools.lru_cache(64)
def _gpu_target(text: str) -> Target:
    with _without_warning(b"Unable to detect ROCm version"):
        return Target(json.loads(text))


@contextmanager
def _without_warning(text: bytes) -> Iterator[None]:
    """Keep what TVM's own code says that has ``text`` from stderr, which it writes to past Python.

    It looks for an installed ROCm, which no kernel built here needs, and warns that there is none.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            said.seek(0)
            os.write(2, b"".join(line for line in said if text not in line))


def _from_name(name: str) -> Target:
    kind, _, rest = name.partition(":")
    if kind not in KINDS:
        hint = _meant_target(kind, rest)
        supported = ", ".join(KINDS)
        raise TargetError(f"target {name!r}: kind is {kind!r}; supported are {supported}{hint}")
    if attribute := _CHIP_ATTRIBUTE.get(kind):
        return _gpu(kind, attribute, rest)
    if not rest:
        return host()
    cpu, _, triple = rest.partition("@")
    return _from_json({"kind": "llvm", "mcpu": cpu} | ({"mtriple": triple} if triple else {}))


def _meant_target(kind: str, rest: str) -> str:
    """A suggestion for a target whose kind is unknown: ``gfx942`` is a chip of ROCm's."""
    for known in _CHIP_ATTRIBUTE:
        chip = _PRODUCTS.get(kind.lower().replace("-", "_"), kind)
        near = meant(chip, chip_names(known)) if not rest else None
        if near is not None:
            return f"; did you mean {known}:{near}?"
    found = meant(kind, KINDS, _OTHER_KINDS)
    return "" if found is None else f"; did you mean {f'{found}:{rest}' if rest else found}?"


def _gpu(kind: str, attribute: str, rest: str) -> Target:
    name, _, mode = rest.partition("@")
    if not name:
        known = chip_names(kind)
        raise TargetError(f"target {kind!r}: name a chip, such as {kind}:{known[0]}")
    if mode not in _MODES[kind]:
        raise TargetError(
            f"target {kind}:{rest}: {mode!r} after @; expected"
            f" {' or '.join(filter(None, _MODES[kind])) or 'nothing'}"
        )
    if name not in chip_names(kind):  # before TVM, which warns of what it does not know
        near = meant(name, chip_names(kind), _PRODUCTS)
        hint = f"; did you mean {kind}:{near}?" if near in chip_names(kind) else ""
        raise TargetError(
            f"target {kind}:{name}: chip {name!r} is unknown; known are"
            f" {', '.join(chip_names(kind))}{hint}"
        )
    features = {"mattr": [_WAVE + mode.removeprefix("wave")]} if mode else {}
    return _from_json({"kind": kind, attribute: name, **features})


def _with_limits(target: Target) -> Target:
    """The target with its chip's limits, which TVM does not know, or takes from another chip."""
    kind = target.kind.name
    name = str(target.attrs.get(_CHIP_ATTRIBUTE[kind], ""))
    if name not in chip_names(kind):
        raise TargetError(
            f"target {kind}: chip {name!r} is unknown; known are {', '.join(chip_names(kind))}"
        )
    chip = gpu_chip(name)
    features = [str(feature) for feature in target.attrs.get("mattr", ())]
    asked = [int(f.removeprefix(_WAVE)) for f in features if f.startswith(_WAVE)]
    size = asked[-1] if asked else chip.subgroup_size
    if size not in chip.subgroup_sizes:
        raise TargetError(
            f"target {kind}:{name}: subgroups of {size} lanes; the chip has"
            f" {' or '.join(map(str, chip.subgroup_sizes))}"
        )
    features = [feature for feature in features if "wavefrontsize" not in feature]
    if len(chip.subgroup_sizes) > 1:
        features.append(f"{_WAVE}{size}")
    data = {
        **json.loads(str(target)),
        "thread_warp_size": size,
        "max_num_threads": chip.max_lanes,
        "max_threads_per_block": chip.max_lanes,
        "max_shared_memory_per_block": chip.shared_memory_bytes,
        **({"mattr": features} if features else {}),
    }
    return _from_json(data)


def _check(target: Target) -> None:
    """Refuse what LLVM would build for something else, or end the process at."""
    triple, cpu = (str(target.attrs.get(name, "")) for name in ("mtriple", "mcpu"))
    plain = {"kind": "llvm"} | ({"mtriple": triple} if triple else {})
    architectures = {*map(str, llvm.llvm_get_targets()), "i686"}
    architecture = triple.split("-")[0]
    if triple and not {architecture, uname_machine(architecture)} & architectures:
        raise TargetError(
            f"target {triple!r}: LLVM knows no architecture {architecture!r};"
            f" {_some(architecture, sorted(architectures))}"
        )
    known = list(map(str, llvm.llvm_get_cpu_archlist(Target(plain))))
    if cpu and cpu not in known:
        where = f" for {triple}" if triple else ""
        raise TargetError(f"target {cpu!r}: LLVM knows no CPU {cpu!r}{where}; {_some(cpu, known)}")
    # What is switched off is switched on in the probe: LLVM lists those that are on.
    features = [str(feature) for feature in target.attrs.get("mattr", ())]
    probe = plain | {"mattr": [f"+{feature[1:]}" for feature in features]}
    for feature in features:
        if feature[:1] not in ("+", "-") or not llvm.llvm_cpu_has_features(
            feature[1:], Target(probe)
        ):
            raise TargetError(
                f"target {triple}: LLVM knows no feature {feature!r}; expected + or - and a name"
            )
    if (cores := int(target.attrs.get("num-cores", 1))) < 1:
        raise TargetError(f"target {triple}: num-cores is {cores}; expected at least 1")


def _some(name: str, known: list[str]) -> str:
    near = [other for other in known if other[:3] == name[:3]] or known
    listed = f"it knows {', '.join(near[:12])}{', ...' if len(near) > 12 else ''}"
    return f"{listed}{did_you_mean(name, known)}"


def target_json(target: Target) -> dict[str, Any]:
    """The target as plain JSON: for a manifest, and for a cache key."""
    return {key: value for key, value in json.loads(str(target)).items() if value not in ("", [])}
