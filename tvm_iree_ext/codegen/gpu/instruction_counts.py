"""Count what the generated code does, from AMDGPU assembly and from SASS.

Counts are of instructions as they stand, per subgroup; the hot loop is the one with the most matrix
instructions, of which a pass is counted.  A loop around such loops is none: a workgroup's over its
tiles.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.intrin.tcgen05 import described_tile
from tvm_iree_ext.targets.mma.mma_table import mma_table


@dataclass(frozen=True)
class InstructionCounts:
    """Instructions by what they do.

    Attributes:
        mma: matrix instructions.
        flops: multiplications and additions of these, of a subgroup.
        loads: by memory (``global``, ``shared``) and bytes of a lane.
        stores: likewise.
        copies: asynchronous, from global to shared memory, by bytes of a lane.
        vector, scalar: arithmetic and moves, of lanes and of a subgroup.
        shuffles: exchanges between lanes, through shared memory's crossbar or not.
        barriers, waits: of workgroups; for memory or for matrix units.
        scratch: accesses of a lane's own memory: spills, arrays with variable indices.
        control: branches and the like.
    """

    mma: int
    flops: int
    loads: dict[tuple[str, int], int] = field(default_factory=dict)
    stores: dict[tuple[str, int], int] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)
    vector: int = 0
    scalar: int = 0
    shuffles: int = 0
    barriers: int = 0
    waits: int = 0
    scratch: int = 0
    control: int = 0

    @property
    def total(self) -> int:
        """All instructions."""
        moved = (*self.loads.values(), *self.stores.values(), *self.copies.values())
        rest = (self.vector, self.scalar, self.shuffles, self.barriers, self.waits, self.scratch)
        return self.mma + sum(moved) + sum(rest) + self.control

    @property
    def per_mma(self) -> float:
        """Instructions of any kind for each matrix instruction; 0 without one."""
        return self.total / self.mma if self.mma else 0.0

    @property
    def flops_per_instruction(self) -> float:
        """Flops of a subgroup, by matrix instructions, for each instruction of any kind."""
        return self.flops / self.total if self.total else 0.0

    def narrowest(self, memory: str) -> int:
        """Bytes of a lane in the narrowest load from ``memory``; 0 where there is none."""
        return min((width for place, width in self.loads if place == memory), default=0)


@dataclass(frozen=True)
class KernelInstructions:
    """A kernel as a whole, and a pass of its hot loop; None where no loop has matrix products."""

    whole: InstructionCounts
    hot_loop: InstructionCounts | None


def count_instructions(assembly: str, kind: str, kernel: str) -> KernelInstructions:
    """Count the instructions of a kernel.

    Args:
        assembly: what a compiler printed: AMDGPU assembly, or SASS of ``nvdisasm -c``.
        kind: of the target: ``rocm`` or ``cuda``.
        kernel: its name.

    Raises:
        BuildError: where the assembly has no such kernel.
    """
    lines, classify = _lines(assembly, kind, kernel)
    hot = _hot_loop(lines, classify)
    return KernelInstructions(
        _count(lines, classify), _count(lines[hot[0] : hot[1] + 1], classify) if hot else None
    )


def hot_loop_text(assembly: str, kind: str, kernel: str) -> list[str]:
    """The instructions of the hot loop as they are printed; none where there is no such loop.

    Of ``nvdisasm -hex`` each has its word behind it, in two comments of 64 bits, the lower first.

    Args:
        assembly, kind, kernel: as of :func:`count_instructions`.

    Raises:
        BuildError: where the assembly has no such kernel.
    """
    lines, classify = _lines(assembly, kind, kernel)
    hot = _hot_loop(lines, classify)
    return [line.text for line in lines[hot[0] : hot[1] + 1] if line.mnemonic] if hot else []


def _lines(
    assembly: str, kind: str, kernel: str
) -> tuple[list["_AssemblyLine"], Callable[[str], "_Classified"]]:
    """A kernel's lines, and what says of a mnemonic what it does."""
    lines = _rocm_lines(assembly, kernel) if kind == "rocm" else _cuda_lines(assembly, kernel)
    if not lines:
        raise BuildError(f"the assembly has no kernel {kernel}")
    return lines, _rocm if kind == "rocm" else _cuda


def _hot_loop(
    lines: list["_AssemblyLine"], classify: Callable[[str], "_Classified"]
) -> tuple[int, int] | None:
    """The first and last line of the loop with the most matrix instructions."""
    places = {line.label: at for at, line in enumerate(lines) if line.label}
    loops = [
        (places[line.target], at)
        for at, line in enumerate(lines)
        if line.target in places and places[line.target] <= at
        if not _reached(lines, places, at, without=places[line.target])
    ]
    counted = {loop: _count(lines[loop[0] : loop[1] + 1], classify) for loop in loops}
    multiplying = [loop for loop in counted if counted[loop].mma]
    inner = [
        (first, last)
        for first, last in multiplying
        if not any(first < other and end <= last for other, end in multiplying)
    ]
    return max(inner, key=lambda loop: (counted[loop].mma, loop[0] - loop[1]), default=None)


@dataclass(frozen=True)
class _AssemblyLine:
    """``text`` is the instruction with its operands; ``ends``: nothing goes on behind it."""

    mnemonic: str = ""
    label: str = ""
    target: str = ""
    ends: bool = False
    text: str = ""


def _reached(lines: list[_AssemblyLine], places: dict[str, int], at: int, *, without: int) -> bool:
    """Whether a line is reached without another.

    A jump back from there is then no loop: compilers put what seldom happens, such as another try
    of a wait, behind all else.
    """
    seen, waiting = {without}, [0]
    while waiting:
        here = waiting.pop()
        if here in seen or here >= len(lines):
            continue
        if here == at:
            return True
        seen.add(here)
        line = lines[here]
        if line.target in places:
            waiting.append(places[line.target])
        if not line.ends:
            waiting.append(here + 1)
    return False


_Classified = tuple[str, int]  # the field, and bytes or flops
_WIDTHS = {"b128": 16, "b96": 12, "b64": 8, "b32": 4, "b16": 2, "u16": 2, "i16": 2, "b8": 1}
_WIDTHS |= {"u8": 1, "i8": 1, "dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4}
_WIDTHS |= {"ushort": 2, "sshort": 2, "short": 2, "ubyte": 1, "sbyte": 1, "byte": 1}


def _count(lines: list[_AssemblyLine], classify: Callable[[str], _Classified]) -> InstructionCounts:
    counts: Counter[str] = Counter()
    moves: Counter[tuple[str, str, int]] = Counter()
    flops = 0
    for line in lines:
        if not line.mnemonic:
            continue
        what, number = classify(line.mnemonic)
        name, _, memory = what.partition(" ")
        if name in ("loads", "stores", "copies"):
            moves[name, memory, number] += 1
        else:
            counts[name] += 1
            flops += number

    def moved(name: str) -> dict[tuple[str, int], int]:
        return {(memory, n): count for (one, memory, n), count in moves.items() if one == name}

    return InstructionCounts(
        mma=counts["mma"],
        flops=flops,
        loads=moved("loads"),
        stores=moved("stores"),
        copies={width: count for (_, width), count in moved("copies").items()},
        vector=counts["vector"],
        scalar=counts["scalar"],
        shuffles=counts["shuffles"],
        barriers=counts["barriers"],
        waits=counts["waits"],
        scratch=counts["scratch"],
        control=counts["control"],
    )


def _rocm_lines(assembly: str, kernel: str) -> list[_AssemblyLine]:
    _, begins, rest = assembly.partition(f"\n{kernel}:")
    body = rest.partition(".Lfunc_end")[0] if begins else ""
    return list(_of_rocm(body))


def _of_rocm(body: str) -> Iterator[_AssemblyLine]:
    for line in body.splitlines():
        text = line.partition(";")[0].strip()
        if found := re.fullmatch(r"([.\w$]+):", text):
            yield _AssemblyLine(label=found[1])
        elif found := re.match(r"([a-z]\w+)\s*(.*)", text):
            target = found[2].strip() if "branch" in found[1] else ""
            ends = found[1] in ("s_branch", "s_endpgm")
            yield _AssemblyLine(found[1], target=target, ends=ends, text=text)


def _cuda_lines(assembly: str, kernel: str) -> list[_AssemblyLine]:
    _, begins, rest = assembly.partition(f".text.{kernel}:")
    body = rest.partition("\n.section")[0].partition("\t.section")[0] if begins else ""
    return list(_of_cuda(_SECOND_HALF.sub(r"*/ \1", body)))


# The upper half of an instruction's word is in a line of its own.
_SECOND_HALF = re.compile(r"\*/[ \t]*\n[ \t]*(/\* 0x[0-9a-f]{16} \*/)")


def _of_cuda(body: str) -> Iterator[_AssemblyLine]:
    constants: dict[str, int] = {}  # of uniform registers, as far as they were last set to one
    for line in body.splitlines():
        if found := re.match(r"\s*(\.\w+):", line):
            yield _AssemblyLine(label=found[1])
        elif re.match(r"\s*/\*[0-9a-f]+\*/\s+@!PT\s", line):
            # Whatever it is, it never happens.
            yield _AssemblyLine("NOP", text=f"NOP ;{line.partition(';')[2]}")
        elif found := re.match(r"\s*/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)", line):
            jump = re.search(r"`\((\.\w+)\)", found[3]) if found[2].startswith("BRA") else None
            ends = found[1] is None and found[2].partition(".")[0] in ("BRA", "EXIT", "RET")
            target = jump[1] if jump else ""
            if constant := re.match(r"UMOV (UR\d+), (0x[0-9a-f]+)", found[2] + found[3]):
                constants[constant[1]] = int(constant[2], 16)
            name = f"{found[2]}{_described_shape(found[2], found[3], constants)}"
            yield _AssemblyLine(name, target=target, ends=ends, text=f"{name}{found[3]}")


# Along K every instruction of tensor memory takes 32 bytes of a row.
_TENSOR_MEMORY_DEPTH = {"UTCHMMA": 16, "UTCQMMA": 32, "UTCIMMA": 32, "UTCOMMA": 64}


def _described_shape(mnemonic: str, operands: str, constants: Mapping[str, int]) -> str:
    """The shape of a product in tensor memory, which its descriptor has, as names have others'."""
    described = re.search(r"idesc\[(UR\d+)\]", operands)
    if described is None or described[1] not in constants:
        return ""
    m, n = described_tile(constants[described[1]])
    return f".{m}x{n}x{_TENSOR_MEMORY_DEPTH[mnemonic.partition('.')[0]]}"


def _width(mnemonic: str) -> int:
    """Bytes of a lane that an AMD instruction moves; ``2addr`` forms move two words."""
    words = mnemonic.split("_")
    width = next((_WIDTHS[word] for word in reversed(words) if word in _WIDTHS), 4)
    pair = any(word.startswith(("read2", "write2", "load2", "store2")) for word in words)
    pair = pair or "2addr" in words
    return 2 * width if pair else width


def _rocm(name: str) -> _Classified:
    if name.startswith(("v_mfma", "v_wmma", "v_smfmac", "v_swmmac")):
        return "mma", _amd_flops().get(name.removesuffix("_e64"), 0)
    if name.startswith(("ds_bpermute", "ds_permute", "ds_swizzle")) or "_dpp" in name:
        return "shuffles", 0
    if name.startswith("scratch_"):
        return "scratch", 0
    if name.startswith(("global_load_lds", "buffer_load_lds")) or name.endswith("_lds"):
        return "copies", _width(name.removesuffix("_lds"))
    memory = {"ds": "shared", "global": "global", "buffer": "global", "flat": "global"}
    if place := memory.get(name.partition("_")[0]):
        writes = "_store" in name or "_write" in name or "_atomic" in name
        return f"{'stores' if writes else 'loads'} {place}", _width(name)
    if name.startswith("s_barrier"):
        return "barriers", 0
    if name.startswith(("s_wait", "s_nop", "s_delay")):
        return "waits", 0
    if name.startswith(("s_branch", "s_cbranch", "s_endpgm", "s_setprio", "s_clause", "s_code")):
        return "control", 0
    return ("scalar" if name.startswith("s_") else "vector"), 0


@functools.cache
def _amd_flops() -> dict[str, int]:
    """By mnemonic; those of several blocks do not always say so in their names."""
    kinds = [mma for mma in mma_table().values() if mma.isa]
    return {name.split()[0]: mma.flops for mma in kinds for name in mma.isa}


_CUDA_SHAPES = {
    "16816": (16, 8, 16), "1688": (16, 8, 8), "1684": (16, 8, 4), "16832": (16, 8, 32),
    "16864": (16, 8, 64), "8816": (8, 8, 16), "884": (8, 8, 4), "8832": (8, 8, 32),
}  # fmt: skip
_CUDA_CONTROL = ("BRA", "EXIT", "BSSY", "BSYNC", "NOP", "RET", "CALL", "YIELD", "WARPSYNC")
_CUDA_WAITS = ("DEPBAR", "LDGDEPBAR", "ARRIVES", "SYNCS", "WARPGROUP", "FENCE", "MEMBAR", "ERRBAR")


def cuda_matrix_shape(name: str) -> tuple[int, int, int]:
    """Rows, columns and depth of a matrix instruction.

    Raises:
        BuildError: for a mnemonic without a shape.

    >>> cuda_matrix_shape("HMMA.16816.F32"), cuda_matrix_shape("QGMMA.64x128x32.F32.E4M3.E4M3")
    ((16, 8, 16), (64, 128, 32))
    >>> cuda_matrix_shape("UTCHMMA.128x256x16")  # nvdisasm's UTCHMMA, with its descriptor's tile
    (128, 256, 16)
    """
    for part in name.split("."):
        if part in _CUDA_SHAPES:
            return _CUDA_SHAPES[part]
        if found := re.fullmatch(r"(\d+)x(\d+)x(\d+)", part):
            return int(found[1]), int(found[2]), int(found[3])
    raise BuildError(f"{name}: its shape is not known")


def cuda_width(name: str) -> int:
    """Bytes of a lane that an access moves.

    >>> cuda_width("LDG.E.128"), cuda_width("LDG.E.U16"), cuda_width("LDSM.16.M88.4")
    (16, 2, 16)
    """
    first, *rest = name.split(".")
    if first in ("LDSM", "STSM"):
        return 4 * int(rest[-1]) if rest[-1].isdigit() else 4
    narrow = (int(part[1:]) // 8 for part in rest if part in ("U16", "S16", "U8", "S8"))
    wide = (int(part) // 8 for part in rest if part in ("128", "64"))
    return next(narrow, next(wide, 4))


def _cuda(name: str) -> _Classified:
    first = name.partition(".")[0]
    if re.fullmatch(r"(UTC)?[A-Z]G?MMA", first):
        m, n, k = cuda_matrix_shape(name)
        return "mma", 2 * m * n * k
    width = cuda_width(name)
    if first in ("LDG", "LD", "LDS", "LDSM"):
        return f"loads {'shared' if first.startswith('LDS') else 'global'}", width
    if first in ("STG", "ST", "STS", "STSM", "RED", "ATOM", "ATOMG", "ATOMS"):
        return f"stores {'shared' if first in ('STS', 'STSM', 'ATOMS') else 'global'}", width
    if first in ("LDL", "STL"):
        return "scratch", 0
    if first in ("LDGSTS", "UBLKCP", "UTMALDG"):
        return "copies", width
    if first == "SHFL":
        return "shuffles", 0
    if first == "BAR":
        return "barriers", 0
    if first in _CUDA_WAITS:
        return "waits", 0
    if first in _CUDA_CONTROL:
        return "control", 0
    uniform = first.startswith("U") or first in ("R2UR", "S2UR", "LDC", "CS2R", "S2R")
    return ("scalar" if uniform else "vector"), 0
