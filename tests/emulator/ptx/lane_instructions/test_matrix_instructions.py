"""Products of matrices whose fragments are laid out as the PTX ISA writes it for each shape.

The places of elements are written out here from the manual's sections, each by its own formula; the
emulator has one rule for all of them.
"""

import ml_dtypes
import numpy as np
import pytest

LANE = np.arange(32)
GROUP, NUMBER = LANE // 4, LANE % 4
NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32,
    "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def upper(i, *ranges):
    return 0 if any(first <= i < end for first, end in ranges) else 8


# (m, n, k, type): places of a_i, b_i and c_i by the manual: functions of i, giving row and column.
SHAPES = {
    (16, 8, 16, "f16"): (
        8, lambda i: (
            GROUP + upper(i, (0, 2), (4, 6)), NUMBER * 2 + (i & 1) + (8 if i >= 4 else 0)),
        4, lambda i: (NUMBER * 2 + (i & 1) + (8 if i >= 2 else 0), GROUP),
    ),
    (16, 8, 8, "f16"): (
        4, lambda i: (GROUP + upper(i, (0, 2)), NUMBER * 2 + (i & 1)),
        2, lambda i: (NUMBER * 2 + i, GROUP),
    ),
    (16, 8, 4, "tf32"): (
        2, lambda i: (GROUP + 8 * i, NUMBER), 1, lambda i: (NUMBER, GROUP),
    ),
    (16, 8, 8, "tf32"): (
        4, lambda i: (GROUP + (0 if i in (0, 2) else 8), NUMBER + (0 if i < 2 else 4)),
        2, lambda i: (NUMBER + 4 * i, GROUP),
    ),
    (8, 8, 4, "f64"): (1, lambda i: (GROUP, NUMBER), 1, lambda i: (NUMBER, GROUP)),
    (16, 8, 8, "f64"): (
        4, lambda i: (GROUP + (0 if i in (0, 2) else 8), NUMBER + (0 if i < 2 else 4)),
        2, lambda i: (NUMBER + 4 * i, GROUP),
    ),
    (16, 8, 16, "f64"): (
        8, lambda i: (GROUP + 8 * (i % 2), i // 2 * 4 + NUMBER),
        4, lambda i: (NUMBER + 4 * i, GROUP),
    ),
    (8, 8, 16, "s8"): (
        4, lambda i: (GROUP, NUMBER * 4 + i), 4, lambda i: (NUMBER * 4 + i, GROUP),
    ),
    (16, 8, 16, "s8"): (
        8, lambda i: (GROUP + upper(i, (0, 4)), NUMBER * 4 + (i & 3)),
        4, lambda i: (NUMBER * 4 + i, GROUP),
    ),
    (16, 8, 32, "s8"): (
        16, lambda i: (
            GROUP + upper(i, (0, 4), (8, 12)), NUMBER * 4 + (i & 3) + (16 if i >= 8 else 0)),
        8, lambda i: (NUMBER * 4 + (i & 3) + (16 if i >= 4 else 0), GROUP),
    ),
}  # fmt: skip
CASES = [
    (16, 8, 16, "f16", "f16", "f32"), (16, 8, 16, "f16", "f16", "f16"),
    (16, 8, 16, "bf16", "bf16", "f32"), (16, 8, 8, "f16", "f16", "f32"),
    (16, 8, 4, "tf32", "tf32", "f32"), (16, 8, 8, "tf32", "tf32", "f32"),
    (8, 8, 4, "f64", "f64", "f64"), (16, 8, 8, "f64", "f64", "f64"),
    (16, 8, 16, "f64", "f64", "f64"), (8, 8, 16, "s8", "s8", "s32"),
    (16, 8, 16, "s8", "s8", "s32"), (16, 8, 32, "s8", "s8", "s32"),
    (16, 8, 32, "u8", "s8", "s32"), (16, 8, 32, "e4m3", "e5m2", "f32"),
    (16, 8, 16, "e4m3", "e4m3", "f32"),
]  # fmt: skip


def words_of(elements):
    """Each lane's elements [32, count] as its registers."""
    size = max(4, elements.dtype.itemsize)
    return np.ascontiguousarray(elements).view(f"u{size}")


def sample(shape, kind, seed):
    rng = np.random.default_rng(seed)
    low = 0 if kind == "u8" else -3
    return rng.integers(low, 4, shape).astype(NUMPY[kind])


def loaded(prefix, kind, count, pointer):
    """Registers of a lane, which lie behind one another."""
    size = 8 if kind == "f64" else 4
    name = {"f64": "fd", "f32": "f"}.get(kind, "r")
    type_ = {"f64": "f64", "f32": "f32"}.get(kind, "u32")
    start = f"mad.lo.u32 %r90, %r0, {size * count}, 0; cvt.u64.u32 %rd20, %r90;"
    start += f"add.u64 %rd20, %rd20, %rd{pointer};"
    registers = [f"%{name}{prefix + n}" for n in range(count)]
    loads = "".join(
        f"ld.global.{type_} {one}, [%rd20+{size * n}];" for n, one in enumerate(registers)
    )
    stores = "".join(
        f"st.global.{type_} [%rd20+{size * n}], {one};" for n, one in enumerate(registers)
    )
    return start, loads, stores, registers


def braces(registers):
    return "{" + ", ".join(registers) + "}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_product_is_that_of_its_matrices(run_ptx, case):
    m, n, k, a_kind, b_kind, c_kind = case
    like = {"bf16": "f16", "u8": "s8", "e4m3": "s8", "e5m2": "s8"}.get(a_kind, a_kind)
    a_count, a_place, b_count, b_place = SHAPES[m, n, k, like]
    a, b, c = sample((m, k), a_kind, 1), sample((k, n), b_kind, 2), sample((m, n), c_kind, 3)
    held_a = np.stack([a[a_place(i)] for i in range(a_count)], axis=1)
    held_b = np.stack([b[b_place(i)] for i in range(b_count)], axis=1)
    c_count = m * n // 32
    c_place = [(GROUP + 8 * (i // 2), NUMBER * 2 + (i & 1)) for i in range(c_count)]
    held_c = np.stack([c[place] for place in c_place], axis=1)
    arrays = [words_of(held) for held in (held_a, held_b, held_c)]
    kinds = [kind if kind == "f64" else "b32" for kind in (a_kind, b_kind)]
    kinds.append(c_kind if c_kind in ("f32", "f64") else "b32")
    parts = [
        loaded(20 * place + 1, kind, array.shape[1], place)
        for place, (kind, array) in enumerate(zip(kinds, arrays, strict=True))
    ]
    name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{c_kind}.{a_kind}.{b_kind}.{c_kind}"
    left, right, held = (braces(registers) for *_, registers in parts)
    body = "".join(start + loads for start, loads, *_ in parts)
    body += f"{name} {held}, {left}, {right}, {held}; {parts[2][0]} {parts[2][2]}"
    got = run_ptx(body, *arrays)[2]
    elements = got.view(NUMPY[c_kind]).reshape(32, -1)
    wide = np.float64 if "f" in c_kind else np.int64
    want = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    for i, place in enumerate(c_place):
        np.testing.assert_array_equal(elements[:, i].astype(wide), want[place].astype(wide))


@pytest.mark.parametrize("transposes", [False, True])
def test_ldmatrix_gives_a_lane_its_part_of_each_row(run_ptx, transposes):
    matrices = np.arange(4 * 64, dtype=np.uint16).reshape(4, 8, 8)
    form = ".trans" if transposes else ""
    body = f"""mov.u64 %rd5, m; mad.wide.u32 %rd6, %r0, 16, %rd5; mad.wide.u32 %rd7, %r0, 16, %rd0;
    ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd7];
    st.shared.v4.u32 [%rd6], {{%r1, %r2, %r3, %r4}}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16 {{%r1, %r2, %r3, %r4}}, [%rd6];
    mad.wide.u32 %rd9, %r0, 16, %rd1; st.global.v4.u32 [%rd9], {{%r1, %r2, %r3, %r4}};"""
    shared = ".shared .align 16 .b8 m[512];"
    _, got = run_ptx(body, matrices, np.zeros((32, 4, 2), "u2"), shared=shared)
    for place, matrix in enumerate(matrices):
        whole = matrix.T if transposes else matrix
        for half in (0, 1):
            np.testing.assert_array_equal(got[:, place, half], whole[GROUP, NUMBER * 2 + half])


def test_stmatrix_is_the_inverse(run_ptx):
    fragments = np.arange(32 * 8, dtype=np.uint16).reshape(32, 4, 2)
    body = """mov.u64 %rd5, m; mad.wide.u32 %rd6, %r0, 16, %rd5; mad.wide.u32 %rd7, %r0, 16, %rd0;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd7];
    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%rd6], {%r1, %r2, %r3, %r4}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%rd6];
    mad.wide.u32 %rd9, %r0, 16, %rd1; st.global.v4.u32 [%rd9], {%r1, %r2, %r3, %r4};"""
    shared = ".shared .align 16 .b8 m[512];"
    _, got = run_ptx(body, fragments, np.zeros((32, 4, 2), "u2"), shared=shared)
    np.testing.assert_array_equal(got, fragments)
