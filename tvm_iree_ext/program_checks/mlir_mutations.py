"""Texts of MLIR, changed in the ways that find what an importer does not reckon with."""

import random
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

Mutation: TypeAlias = Callable[[random.Random, str, Sequence[str]], str]

_NUMBER = re.compile(r'(?<![\w.%#@$"-])-?\d+(?![\w."])')
_EXTENT = re.compile(r"(?<=[<x])(?:\?|\d+)(?=x)")
_VALUE = re.compile(r"%[\w#]+")
_MAP = re.compile(r"affine_map<[^>]*->[^>]*>")
_DIALECTS = "arith|math|complex|tensor|linalg|iree_linalg_ext|iree_vector_ext|util|func|hal|check"
_OP = re.compile(rf'(?<![\w%@"#!.])(?:{_DIALECTS})\.[\w.]+')

_ABSURD = (
    *("0", "1", "-1", "2", "3", "7", "64", "127", "255", "4096", "65537"),
    *(str(2**31 - 1), str(2**31), str(2**32), str(2**40), str(2**63 - 1), str(-(2**63))),
    *(str(2**63), "1" + "0" * 30),
)
_EXTENTS = ("0", "1", "2", "3", "17", "?", "65537", str(2**31), str(2**40), str(2**62))
_TYPES = (
    *("f16", "bf16", "f32", "f64", "i1", "i4", "i8", "i16", "i32", "i64", "index"),
    *("complex<f32>", "f8E4M3FN", "f4E2M1FN", "i128", "ui8", "f80", "none", "vector<4xf32>"),
)
# Words that may stand for one another: a program with one for another is often a program.
_KIN = (
    "f16 bf16 f32 f64 f80 f128 f8E4M3FN f8E5M2 f4E2M1FN tf32",
    "i1 i4 i8 i16 i32 i64 i128 i7 si32 ui8",
    "f32 complex<f32> complex<f64> complex<f16>",
    "addf subf mulf divf remf maximumf minimumf maxnumf minnumf",
    "addi subi muli divsi divui ceildivsi floordivsi remsi remui andi ori xori shli shrsi shrui"
    " maxsi maxui minsi minui",
    "absf ceil cos cosh erf exp exp2 expm1 floor log log10 log1p log2 negf round roundeven rsqrt"
    " sin sinh sqrt tan tanh trunc cbrt atan asin acosh",
    "absi ctlz cttz ctpop",
    "extf truncf",
    "extsi extui trunci index_cast index_castui",
    "sitofp uitofp",
    "fptosi fptoui",
    "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true",
    "eq ne slt sle sgt sge ult ule ugt uge",
    "parallel reduction window",
    "d0 d1 d2 d3 s0 0 1",
    "add sub mul div",
)
_GROUPS = tuple(
    (re.compile(rf"(?<![\w%@#!])(?:{'|'.join(map(re.escape, kin.split()))})(?![\w<])"), kin.split())
    for kin in _KIN
)


def case(seed: int, index: int, texts: Sequence[str]) -> str:
    """Text ``index`` of a seed: one of ``texts``, changed in one way or a few."""
    rng = random.Random(f"{seed}/{index}")
    text = rng.choice(texts)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(_MUTATIONS)(rng, text, texts)
    return text


def _truncate(rng: random.Random, text: str, texts: Sequence[str]) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _change_characters(rng: random.Random, text: str, texts: Sequence[str]) -> str:
    for _ in range(rng.choice((1, 2, 8))):
        at = rng.randrange(len(text) + 1)
        cut = rng.choice((0, 0, 1, 1, 5, 40))
        new = (rng.choice((rng.randrange(32, 127), rng.randrange(256))) for _ in range(2))
        text = text[:at] + "".join(map(chr, new))[: rng.randrange(3)] + text[at + cut :]
    return text


def _move_lines(rng: random.Random, text: str, texts: Sequence[str]) -> str:
    lines = text.split("\n")
    count = rng.choice((1, 1, 2, 4))
    start = rng.randrange(len(lines))
    piece = lines[start : start + count]
    if rng.random() < 0.6:
        del lines[start : start + count]
    if rng.random() < 0.7:
        if rng.random() < 0.3:
            other = rng.choice(texts).split("\n")
            start = rng.randrange(len(other))
            piece = other[start : start + count]
        at = rng.randrange(len(lines) + 1)
        lines[at:at] = piece
    return "\n".join(lines)


def _replace(
    rng: random.Random, text: str, pattern: re.Pattern[str], new: str, everywhere: float
) -> str:
    """One match replaced; or all that are alike, so that the types of a program still agree."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    chosen = rng.choice(found)
    if rng.random() < everywhere:
        return pattern.sub(lambda match: new if match[0] == chosen[0] else match[0], text)
    return text[: chosen.start()] + new + text[chosen.end() :]


def _by_one_of(pattern: re.Pattern[str], choices: Sequence[str]) -> Mutation:
    def mutate(rng: random.Random, text: str, texts: Sequence[str]) -> str:
        return _replace(rng, text, pattern, rng.choice(choices), 0.75)

    return mutate


def _by_kin(rng: random.Random, text: str, texts: Sequence[str]) -> str:
    """A word by another of its group."""
    groups = [group for group in _GROUPS if group[0].search(text)]
    if not groups:
        return text
    pattern, words = rng.choice(groups)
    return _replace(rng, text, pattern, rng.choice(words), 0.6)


def _by_another(pattern: re.Pattern[str]) -> Mutation:
    """By what stands elsewhere, in this text or another."""

    def mutate(rng: random.Random, text: str, texts: Sequence[str]) -> str:
        others = pattern.findall(text if rng.random() < 0.6 else rng.choice(texts))
        return _replace(rng, text, pattern, rng.choice(others), 0.3) if others else text

    return mutate


_ANY_TYPE = _GROUPS[0][0], _GROUPS[1][0]
_MUTATIONS: Sequence[Mutation] = (
    _truncate,
    _change_characters,
    _move_lines,
    *(_by_one_of(_NUMBER, _ABSURD),) * 3,
    *(_by_one_of(_EXTENT, _EXTENTS),) * 5,
    *(_by_one_of(pattern, _TYPES) for pattern in _ANY_TYPE),
    *(_by_kin,) * 12,
    _by_another(_OP),
    *(_by_another(_VALUE),) * 2,
    *(_by_another(_MAP),) * 2,
)
