"""Integer instructions against a number at a time, as the PTX ISA's pseudocode has it."""

import numpy as np
import pytest

ODD = np.array([0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], "u4")


def words(seed, count=256):
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    chosen = rng.random(count) < 0.3
    found[chosen] = rng.choice(ODD, chosen.sum())
    return found


def signed(value, bits=32):
    return value - (1 << bits) if value >> (bits - 1) else value


def bfe(a, b, c, is_signed):
    """PTX ISA, *bfe*: the pseudocode."""
    pos, length, msb = b & 0xFF, c & 0xFF, 31
    sbit = a >> min(pos + length - 1, msb) & 1 if is_signed and length else 0
    d = 0
    for i in range(msb + 1):
        bit = a >> (pos + i) & 1 if i < length and pos + i <= msb else sbit
        d |= bit << i
    return d


def bfi(a, b, pos, length):
    """PTX ISA, *bfi*: the pseudocode."""
    pos, length, f = pos & 0xFF, length & 0xFF, b
    for i in range(length):
        if pos + i > 31:
            break
        f = f & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i) if i < 32 else f
    return f


def prmt(a, b, c):
    """PTX ISA, *prmt*, default mode."""
    data, d = a | b << 32, 0
    for i in range(4):
        number = c >> 4 * i & 15
        byte = data >> 8 * (number & 7) & 0xFF
        if number & 8:
            byte = 0xFF if byte & 0x80 else 0
        d |= byte << 8 * i
    return d


def trunc_div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


CASES = {
    "add.s32 %d, %a, %b;": lambda a, b, c: a + b,
    "sub.s32 %d, %a, %b;": lambda a, b, c: a - b,
    "mul.lo.s32 %d, %a, %b;": lambda a, b, c: a * b,
    "mul.hi.u32 %d, %a, %b;": lambda a, b, c: a * b >> 32,
    "mul.hi.s32 %d, %a, %b;": lambda a, b, c: signed(a) * signed(b) >> 32,
    "mad.lo.s32 %d, %a, %b, %c;": lambda a, b, c: a * b + c,
    "mad.hi.s32 %d, %a, %b, %c;": lambda a, b, c: (signed(a) * signed(b) >> 32) + c,
    "min.s32 %d, %a, %b;": lambda a, b, c: min(signed(a), signed(b)),
    "max.u32 %d, %a, %b;": lambda a, b, c: max(a, b),
    "abs.s32 %d, %a;": lambda a, b, c: abs(signed(a)),
    "neg.s32 %d, %a;": lambda a, b, c: -a,
    "div.u32 %d, %a, %b;": lambda a, b, c: a // b if b else None,
    "div.s32 %d, %a, %b;": lambda a, b, c: trunc_div(signed(a), signed(b)) if b else None,
    "rem.s32 %d, %a, %b;": lambda a, b, c: (
        signed(a) - trunc_div(signed(a), signed(b)) * signed(b) if b else None
    ),
    "popc.b32 %d, %a;": lambda a, b, c: a.bit_count(),
    "clz.b32 %d, %a;": lambda a, b, c: 32 - a.bit_length(),
    "brev.b32 %d, %a;": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "bfind.u32 %d, %a;": lambda a, b, c: a.bit_length() - 1,
    "bfind.s32 %d, %a;": lambda a, b, c: (a if signed(a) >= 0 else a ^ 0xFFFFFFFF).bit_length() - 1,
    "bfe.u32 %d, %a, %b, %c;": lambda a, b, c: bfe(a, b, c, False),
    "bfe.s32 %d, %a, %b, %c;": lambda a, b, c: bfe(a, b, c, True),
    "bfi.b32 %d, %a, %b, %c, 7;": lambda a, b, c: bfi(a, b, c, 7),
    "shl.b32 %d, %a, %b;": lambda a, b, c: a << b if b < 32 else 0,
    "shr.u32 %d, %a, %b;": lambda a, b, c: a >> b,
    "shr.s32 %d, %a, %b;": lambda a, b, c: signed(a) >> b,
    "shf.l.wrap.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    "shf.r.wrap.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "shf.l.clamp.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
    "prmt.b32 %d, %a, %b, %c;": prmt,
    "lop3.b32 %d, %a, %b, %c, 0x6a;": lambda a, b, c: a & b ^ c,
    "lop3.b32 %d, %a, %b, %c, 0xca;": lambda a, b, c: a & b | ~a & c,
    "not.b32 %d, %a;": lambda a, b, c: ~a,
    "dp4a.s32.u32 %d, %a, %b, %c;": lambda a, b, c: (
        sum(signed(a >> 8 * i & 255, 8) * (b >> 8 * i & 255) for i in range(4)) + c
    ),
    "sad.s32 %d, %a, %b, %c;": lambda a, b, c: abs(signed(a) - signed(b)) + c,
    "add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;": lambda a, b, c: c + (a + b >> 32),
    "sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;": lambda a, b, c: c - (a < b),
    "mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, 5;": lambda a, b, c: (
        (a * b >> 32) + 5 + ((a * b & 0xFFFFFFFF) + c >> 32)
    ),
}


@pytest.mark.parametrize("line", CASES)
def test_words_are_what_a_number_at_a_time_gives(each_lane, line):
    columns = [words(seed) for seed in range(3)]
    if "bf" in line or "sh" in line:
        columns[2] %= 70
        if "shl" in line or "shr" in line or "bfe" in line:
            columns[1] %= 70
    got = each_lane(line, *columns, gives=np.uint32)
    for a, b, c, found in zip(*(column.tolist() for column in columns), got.tolist(), strict=True):
        if (want := CASES[line](a, b, c)) is not None:
            assert found == want & 0xFFFFFFFF, (hex(a), hex(b), hex(c))


LONG = {
    "mul.hi.u64 %d, %a, %b;": lambda a, b: a * b >> 64,
    "mul.hi.s64 %d, %a, %b;": lambda a, b: signed(a, 64) * signed(b, 64) >> 64,
    "mul.lo.s64 %d, %a, %b;": lambda a, b: a * b,
    "bfi.b64 %d, %a, %b, 32, 32;": lambda a, b: b & 0xFFFFFFFF | (a & 0xFFFFFFFF) << 32,
    "bfe.s64 %d, %a, 8, 17;": lambda a, b: signed(a >> 8 & 0x1FFFF, 17),
    "brev.b64 %d, %a;": lambda a, b: int(f"{a:064b}"[::-1], 2),
    "max.s64 %d, %a, %b;": lambda a, b: max(signed(a, 64), signed(b, 64)),
}


@pytest.mark.parametrize("line", LONG)
def test_long_words_are_what_a_number_at_a_time_gives(each_lane, line):
    columns = [words(seed, 512).view(np.uint64) for seed in (1, 2)]
    got = each_lane(line, *columns, gives=np.uint64)
    for a, b, found in zip(*(column.tolist() for column in columns), got.tolist(), strict=True):
        assert found == LONG[line](a, b) & (1 << 64) - 1, (hex(a), hex(b))


def test_a_wide_product_has_all_bits(each_lane):
    a, b = words(1), words(2)
    got = each_lane("mul.wide.s32 %d, %a, %b;", a, b, gives=np.int64)
    np.testing.assert_array_equal(got, a.view("i4").astype("i8") * b.view("i4").astype("i8"))
