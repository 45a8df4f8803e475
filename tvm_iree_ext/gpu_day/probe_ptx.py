"""Kernels of nothing but products, in PTX: what a chip computes at most, by the type of operands.

Operands stay where they are, in registers or shared memory, and are random: a chip that multiplies
zeros takes less power, and keeps a higher clock than it has in any use.
"""

from dataclasses import dataclass

_LANES = 256  # of a workgroup: two warpgroups
_TILE = 49152  # bytes: A of 128 rows and B of 256, 128 bytes along K each
_B_TILE = 16384  # where B begins
_K_STEPS = 4  # products along these 128 bytes
_UNROLLED = 8  # times that they are gone along in a round
_CHAINS = 8  # products of a warp, or of a lane, that do not wait for one another
_LINES = 16  # times that all of a lane's chains go on in a round

# A tile of 128 bytes a row that is swizzled by as much (PTX ISA, wgmma, matrix descriptor): rows of
# eight are 1024 bytes apart; the layout's number 1 in bits 62 and 63.
_DESCRIPTOR = 1 << 62 | 1024 >> 4 << 32 | 1 << 16


@dataclass(frozen=True)
class Probe:
    """A kernel that takes ``result``, a word for each lane, and ``rounds``.

    Attributes:
        ptx: with one entry, ``probe``.
        lanes: of a workgroup.
        workgroups: that one core runs at once.
        operations: of a workgroup in one round.
    """

    ptx: str
    lanes: int
    workgroups: int
    operations: int


# Masks that make of random words numbers of random signs in [0.5, 1), or 0.25 to 0.5 for 8 bits.
_MASKS = {
    "float16": (0x83FF83FF, 0x38003800),
    "bfloat16": (0x807F807F, 0x3F003F00),
    "float32": (0x807FFFFF, 0x3F000000),
    "float8_e4m3fn": (0x87878787, 0x28282828),
    "int8": (0xFFFFFFFF, 0),
}
# By the type: products along K, the types in PTX's words, and immediates behind the predicate.
_WARPGROUP = {
    "float16": (16, "f32.f16.f16", ", 1, 1, 0, 0"),
    "bfloat16": (16, "f32.bf16.bf16", ", 1, 1, 0, 0"),
    "tfloat32": (8, "f32.tf32.tf32", ", 1, 1"),
    "float8_e4m3fn": (32, "f32.e4m3.e4m3", ", 1, 1"),
    "int8": (32, "s32.s8.s8", ""),
}
_WARP = {
    "float16": ("m16n8k16", "f32.f16.f16.f32", 16 * 8 * 16, 4),
    "bfloat16": ("m16n8k16", "f32.bf16.bf16.f32", 16 * 8 * 16, 4),
    "tfloat32": ("m16n8k8", "f32.tf32.tf32.f32", 16 * 8 * 8, 4),
    "int8": ("m16n8k32", "s32.s8.s8.s32", 16 * 8 * 32, 4),
}


def probes(arch: str) -> dict[str, Probe]:
    """The probes for a chip of NVIDIA's from sm_80 on, by the type of operands."""
    found = {"float32": _lanes(arch, "f32"), "float64": _double(arch)}
    if arch == "sm_90a":
        return found | {name: _warpgroup(arch, name) for name in _WARPGROUP}
    return found | {name: _warp(arch, name) for name in _WARP}


def _kernel(arch: str, registers: str, body: str) -> str:
    return f""".version 8.0
.target {arch}
.address_size 64
.visible .entry probe(.param .u64 probe_result, .param .u32 probe_rounds)
.maxntid {_LANES}, 1, 1
{{
  .reg .pred %p<4>;
  .reg .b32 %r<64>;
  .reg .b64 %d<16>;
{registers}
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r1, [probe_rounds];
{body}
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r2, %r2, {_LANES}, %r0;
  ld.param.u64 %d0, [probe_result];
  cvta.to.global.u64 %d0, %d0;
  mul.wide.u32 %d1, %r2, 4;
  add.u64 %d0, %d0, %d1;
  st.global.b32 [%d0], %r63;
  ret;
}}
"""


def _random(register: str, seed: str, mask: tuple[int, int]) -> str:
    """A word of random numbers, by a hash of a number in a register (splitmix32)."""
    return f"""  mul.lo.u32 {register}, {seed}, 0x9E3779B1;
  add.u32 {register}, {register}, 0x85EBCA6B;
  shr.u32 %r62, {register}, 16;
  xor.b32 {register}, {register}, %r62;
  mul.lo.u32 {register}, {register}, 0x21F0AAAD;
  shr.u32 %r62, {register}, 15;
  xor.b32 {register}, {register}, %r62;
  and.b32 {register}, {register}, {mask[0]:#x};
  or.b32 {register}, {register}, {mask[1]:#x};"""


def _rounds(work: str) -> str:
    return f"""rounds:
{work}
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra rounds;"""


def _warpgroup(arch: str, name: str) -> Probe:
    """``wgmma`` of 64 x 256 by each warpgroup, both operands in shared memory."""
    k, types, signs = _WARPGROUP[name]
    bits, kind = ("%s", "s32") if types.startswith("s32") else ("%f", "f32")
    tile = "{" + ", ".join(f"{bits}{place}" for place in range(128)) + "}"
    product = f"wgmma.mma_async.sync.aligned.m64n256k{k}.{types} {tile}"
    steps = []
    for step in range(_K_STEPS):  # 32 bytes further each
        steps += [
            f"  add.u64 %d{4 + 2 * step}, %d2, {2 * step};",
            f"  add.u64 %d{5 + 2 * step}, %d3, {2 * step};",
        ]
    products = [
        f"  {product}, %d{4 + 2 * step}, %d{5 + 2 * step}, %p2{signs};"
        for _ in range(_UNROLLED)
        for step in range(_K_STEPS)
    ]
    work = "\n".join(
        [
            "  wgmma.fence.sync.aligned;",
            *products,
            "  wgmma.commit_group.sync.aligned;",
            "  wgmma.wait_group.sync.aligned 0;",
        ]
    )
    mask = _MASKS.get(name, _MASKS["float32"])
    body = f"""  mov.u32 %r3, tiles;
  shl.b32 %r4, %r0, 2;
fill:
{_random("%r5", "%r4", mask)}
  add.u32 %r6, %r3, %r4;
  st.shared.b32 [%r6], %r5;
  add.u32 %r4, %r4, {4 * _LANES};
  setp.lt.u32 %p0, %r4, {_TILE};
  @%p0 bra fill;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r7, %r0, 7;
  mad.lo.u32 %r7, %r7, {_B_TILE // 2}, %r3;
  add.u32 %r8, %r3, {_B_TILE};
  shr.u32 %r7, %r7, 4;
  shr.u32 %r8, %r8, 4;
  cvt.u64.u32 %d2, %r7;
  cvt.u64.u32 %d3, %r8;
  or.b64 %d2, %d2, {_DESCRIPTOR:#x};
  or.b64 %d3, %d3, {_DESCRIPTOR:#x};
{chr(10).join(steps)}
  setp.ne.u32 %p2, %r1, 0;
{chr(10).join(f"  mov.b32 {bits}{place}, 0;" for place in range(128))}
{_rounds(work)}
  mov.b32 %r63, {bits}0;"""
    registers = f"  .reg .{kind} {bits}<128>;\n  .shared .align 1024 .b8 tiles[{_TILE}];"
    operations = 2 * (2 * 64 * 256 * k) * _K_STEPS * _UNROLLED
    return Probe(_kernel(arch, registers, body), _LANES, 1, operations)


def _warp(arch: str, name: str) -> Probe:
    """``mma.sync`` by each warp, in chains."""
    shape, types, count, held = _WARP[name]
    mask = _MASKS.get(name, _MASKS["float32"])
    fill = [f"  add.u32 %r61, %r0, {1000 * place};\n{_random(f'%r{8 + place}', '%r61', mask)}"
            for place in range(6)]  # fmt: skip
    bits, kind = ("%s", "s32") if types.startswith("s32") else ("%f", "f32")
    body, work, total = list(fill), [], []
    for chain in range(_CHAINS):
        tile = "{" + ", ".join(f"{bits}{held * chain + place}" for place in range(held)) + "}"
        work.append(
            f"  mma.sync.aligned.{shape}.row.col.{types} {tile}, {{%r8, %r9, %r10, %r11}},"
            f" {{%r12, %r13}}, {tile};"
        )
        # From other numbers each: chains that compute the same would be one.
        body += [f"  mov.b32 {bits}{held * chain + place}, {chain};" for place in range(held)]
        total.append(f"  add.u32 %r63, %r63, %r{20 + chain};")
    body.append(_rounds("\n".join(work * _LINES)))
    body.append("  mov.b32 %r63, 0;")
    for chain in range(_CHAINS):
        body += [f"  mov.b32 %r{20 + chain}, {bits}{held * chain};", total[chain]]
    operations = 2 * count * _CHAINS * _LINES * (_LANES // 32)
    registers = f"  .reg .{kind} {bits}<{held * _CHAINS}>;"
    return Probe(_kernel(arch, registers, "\n".join(body)), _LANES, 4, operations)


def _lanes(arch: str, kind: str) -> Probe:
    """Multiplications and additions of each lane, in chains."""
    mask = _MASKS["float32"]
    body = [_random("%r8", "%r0", mask), "  mov.b32 %f60, %r8;", "  mov.f32 %f61, 0f3F000000;"]
    body += [f"  mov.f32 %f{chain}, 0f{0x3F800000 + (chain << 16):X};" for chain in range(_CHAINS)]
    work = [f"  fma.rn.{kind} %f{chain}, %f{chain}, %f61, %f60;" for chain in range(_CHAINS)]
    body.append(_rounds("\n".join(work * 4 * _LINES)))
    body += [f"  add.f32 %f0, %f0, %f{chain};" for chain in range(1, _CHAINS)]
    body.append("  mov.b32 %r63, %f0;")
    operations = 2 * _CHAINS * 4 * _LINES * _LANES
    return Probe(_kernel(arch, "  .reg .f32 %f<64>;", "\n".join(body)), _LANES, 8, operations)


def _double(arch: str) -> Probe:
    """``mma.sync`` of float64: of 16 x 8 x 16 from sm_90 on, and of 8 x 8 x 4."""
    is_large = int(arch.removeprefix("sm_").rstrip("a")) >= 90
    shape, count, held = ("m16n8k16", 16 * 8 * 16, (4, 8, 4)) if is_large else (
        "m8n8k4", 8 * 8 * 4, (2, 1, 1)
    )  # fmt: skip
    chains = 4
    accumulators, first, second = held
    operands = accumulators * chains
    body, work = [_random("%r8", "%r0", _MASKS["float32"]), "  mov.b32 %f0, %r8;"], []
    for place in range(first + second):
        body.append(f"  cvt.f64.f32 %g{operands + place}, %f0;")
    a = ", ".join(f"%g{operands + place}" for place in range(first))
    b = ", ".join(f"%g{operands + first + place}" for place in range(second))
    for chain in range(chains):
        own = range(accumulators * chain, accumulators * (chain + 1))
        tile = "{" + ", ".join(f"%g{place}" for place in own) + "}"
        work.append(
            f"  mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64 {tile}, {{{a}}}, {{{b}}}, {tile};"
        )
        body += [f"  mov.f64 %g{place}, 0d{0x3FF0 + chain:X}000000000000;" for place in own]
    body.append(_rounds("\n".join(work * _LINES)))
    body += [f"  add.f64 %g0, %g0, %g{accumulators * chain};" for chain in range(1, chains)]
    body += ["  cvt.rn.f32.f64 %f0, %g0;", "  mov.b32 %r63, %f0;"]
    operations = 2 * count * chains * _LINES * (_LANES // 32)
    registers = f"  .reg .f32 %f<2>;\n  .reg .f64 %g<{operands + first + second}>;"
    return Probe(_kernel(arch, registers, "\n".join(body)), _LANES, 2, operations)
