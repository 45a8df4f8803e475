"""What computes an instruction: its pseudocode translated, or a short function like it."""

import functools
from collections.abc import Mapping

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.decoding import Instruction, named_pseudocode
from tvm_iree_ext.emulator.amd.pseudocode.reading import PseudocodeError
from tvm_iree_ext.emulator.amd.pseudocode.translation import (
    PseudocodeSetting,
    Translated,
    translate,
)
from tvm_iree_ext.emulator.amd.quick_functions import QUICK, SATURATING

# Selections of bytes and words by SDWA: "CDNA3 Instruction Set Architecture", section "SDWA".
_NAMES = {"BYTE0": 0, "BYTE1": 1, "BYTE2": 2, "BYTE3": 3, "WORD0": 4, "WORD1": 5, "DWORD": 6}


def semantics(instruction: Instruction, bits: Mapping[str, int]) -> Translated:
    """The function of an instruction; ``bits`` are its operands' where they are not 32.

    Raises:
        EmulationError: for an instruction whose pseudocode cannot be translated.
    """
    if instruction.get("clmp") and instruction.plain_name in SATURATING:
        return SATURATING[instruction.plain_name]
    quick = QUICK.get(instruction.plain_name)
    if quick is not None:
        return quick
    known = {
        "OPSEL": instruction.get("opsel"),
        "OPSEL_HI": instruction.get("opsel_hi") | instruction.get("opsel_hi2") << 2,
        "SDWA_SRC0_SEL": instruction.get("src0_sel", 6),
        "SIMM32": instruction.literal or 0,
        "SIMM16": instruction.get("simm16", (instruction.literal or 0) & 0xFFFF),
        "NEG": instruction.get("neg"),
        "OCP": int(instruction.chip.has_ocp_floats),
    }
    if "BITOP3" in instruction.name:  # whose table of truth stands in the modifiers' fields
        known |= {f"INST.{name}": instruction.get(name.lower()) for name in ("OMOD", "ABS", "NEG")}
    key = tuple(sorted(known.items())), tuple(sorted(bits.items()))
    try:
        return _translated(instruction.chip.isa, instruction.name, instruction.pseudocode, *key)
    except PseudocodeError as error:
        raise EmulationError(f"{instruction.name} is not emulated: {error}") from error


@functools.lru_cache(maxsize=4096)
def _translated(
    isa: str,
    name: str,
    text: str,
    known: tuple[tuple[str, int], ...],
    bits: tuple[tuple[str, int], ...],
) -> Translated:
    start = "S0" if name.startswith("V_DIV_SCALE") else "D0"

    def calls(other: str) -> Translated:
        if other in QUICK:
            return QUICK[other]
        if other not in named_pseudocode(isa):
            raise PseudocodeError(f"no instruction {other}")
        return _translated(isa, other, named_pseudocode(isa)[other], known, ())

    # IEEE_MODE is set for all that is compiled for compute.
    facts = {**dict(known), **_NAMES, "WAVE_MODE.IEEE": 1}
    return translate(text, PseudocodeSetting(dict(bits), facts, start, calls))
