"""Matrix instructions with scales, by the formats of A and B: one instruction takes them all.

A row of the table is of one format; the name of another kind goes on with its two, as in
``MFMA_SCALE_F32_16x16x128_B32_F8E4M3FN_F4E2M1FN``.

AMD's rows are of 4-bit floats.  A lane has 32 elements of a row of A, or twice 32.  Those below 8
bits lie side by side, and are a block; of 8 bits there are two runs of 16 for each 32, each of
which is half of another block.  A block's scale is at the same lane for all formats, whether or not
that lane has its elements.

NVIDIA's instruction of K 32 has each element in a byte, at the places of 8-bit floats; those of K
64 take 4-bit floats alone, eight to a register.  Those in tensor memory (``tcgen05``) have a run of
16 elements in 16 bytes of shared memory, side by side from the first bit on, where K is 32.

Sources of AMD's: its composable_kernel, ``test/mx_mfma_op``, where ``mx_mfma_op.hpp`` has the
places for each format, and ``scale_mapping_*.txt`` what a program printed of which lane's scale
each element of 8 bits met;
"Matrix Core Programming on AMD CDNA3 and CDNA4" (AMD, 2025), sections 5.4 and 5.5, for 8 and 4
bits and the numbers of formats; LLVM's verifier of ``llvm.amdgcn.mfma.scale`` for the registers.
Of gfx1250's: Triton's layouts of ``amd_wmma`` of version 3 and of its scales, and what AMD's FPSan
found by probes on the chip (``wmma_scale_f8f6f4_gfx1250_test.cpp`` and
``wmma_16x16x128_f8f6f4_gfx1250_test.cpp``).
Of NVIDIA's: PTX ISA, "Block Scaling for mma.sync" and the fragments of ``mma.m16n8k32`` and
``mma.m16n8k64``; CUTLASS, ``cute/atom/mma_traits_sm120.hpp``, for the lanes of elements and scales
and for the place of 4 bits in a byte.
"""

from dataclasses import replace

from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand, dtype_bits

SCALE_FORMATS = {"f8e4m3fn": 0, "f8e5m2": 1, "f6e2m3fn": 2, "f6e3m2fn": 3, "f4e2m1fn": 4}
"""How an instruction names the types of its operands."""

FUNCTIONS = "tvm_iree_ext_scaled_"
"""How the names of CUDA functions of NVIDIA's kinds begin; the kind's name follows."""

FIRST_BIT = {"f4e2m1fn": 2}
"""The bits below an element in a byte of its own, where there are any."""

_PTX_TYPES = {
    "f8e4m3fn": "e4m3",
    "f8e5m2": "e5m2",
    "f6e2m3fn": "e2m3",
    "f6e3m2fn": "e3m2",
    "f4e2m1fn": "e2m1",
}

_RUN = 16  # side by side, of 8 bits


def scaled_name(base: str, a: str, b: str) -> str:
    """The name of an instruction with the formats of A and B."""
    return "_".join([base, a.upper(), b.upper()])


def formats_of(name: str) -> tuple[str, str, str] | None:
    """The table's name of an instruction, and the formats that a name goes on with; or None."""
    base, *formats = name.rsplit("_", 2)
    a, b = (one.lower() for one in formats) if len(formats) == 2 else ("", "")
    return (base, a, b) if a in SCALE_FORMATS and b in SCALE_FORMATS else None


def takes(row: Mma, a: str, b: str) -> bool:
    """Whether a row's instruction has these formats of A and B."""
    return row.vendor == "amd" or dtype_bits(row.a) == 8 or (row.a, row.b) == (a, b)


def with_formats(row: Mma, a: str, b: str) -> Mma:
    """The table's row with other formats of A and B."""
    if row.kind == "scaled_tensor_memory":  # a descriptor has the formats
        return replace(row, name=scaled_name(row.name, a, b), a=a, b=b)
    if row.vendor == "nvidia":
        return _in_bytes(row, a, b)
    return replace(
        row,
        name=scaled_name(row.name, a, b),
        source="derived",
        a=a,
        b=b,
        lhs=_operand(row.operand("lhs"), a),
        rhs=_operand(row.operand("rhs"), b),
        format_codes={"cbsz_A": SCALE_FORMATS[a], "blgp_B": SCALE_FORMATS[b]},
    )


def _in_bytes(row: Mma, a: str, b: str) -> Mma:
    """The row with other formats in its bytes; it may be of 4 bits, and is as it was."""
    own, given = (
        ".f32.{}.{}.f32.".format(*(_PTX_TYPES[x] for x in pair))
        for pair in ((row.a, row.b), (a, b))
    )
    packing = "element e in byte e, 4 bits from bit 2 on, else from bit 0 on"
    if row.operand("lhs").slot_bits < 8:
        packing = row.operand("lhs").packing
    return replace(
        row,
        name=scaled_name(row.name, a, b),
        a=a,
        b=b,
        ptx=str(row.ptx).replace(own, given),
        lhs=replace(row.operand("lhs"), dtype=a, packing=packing),
        rhs=replace(row.operand("rhs"), dtype=b, packing=packing),
    )


def _operand(operand: MmaOperand, dtype: str) -> MmaOperand:
    """An operand of another format."""
    bits = dtype_bits(dtype)
    made = replace(
        operand,
        dtype=dtype,
        registers=operand.elements_per_lane * bits // 32,
        packing=f"element e at bit {bits} * e of a lane's registers, the lowest first",
    )
    if bits < 8:
        return made
    blocks, place = (operand.dims.index(dim) for dim in ("Ks", "Kb"))
    lanes, stride = operand.thread[blocks], operand.tstrides[blocks]

    def along(tile: Ints, of_blocks: int, of_places: int) -> Ints:
        found = list(tile)
        found[blocks], found[place] = of_blocks, of_places
        return tuple(found)

    return replace(
        made,
        outer=along(operand.outer, 2 * operand.outer[blocks], 1),
        thread=along(operand.thread, lanes // 2, 2),
        tstrides=along(operand.tstrides, 2 * stride, stride),
        element=along(operand.element, 1, _RUN),
    )
