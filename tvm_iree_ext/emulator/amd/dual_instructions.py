"""VOPD: two instructions of RDNA's vector ALU in one, which read before either writes.

Source: "RDNA3 Instruction Set Architecture", section "Dual Issue VALU".
"""

from collections.abc import Callable
from typing import Any

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.decoding import Instruction, named_pseudocode
from tvm_iree_ext.emulator.amd.operands import is_register, vector_getter
from tvm_iree_ext.emulator.amd.pseudocode.translation import PseudocodeSetting, translate
from tvm_iree_ext.emulator.amd.quick_functions import QUICK
from tvm_iree_ext.emulator.amd.wave_state import FIRST_VECTOR, VCC, Array, CodeStep, Waves


def dual_step(one: Instruction) -> CodeStep:
    """What executes it."""
    reads: set[int] = set()
    halves = [_half(one, half, reads) for half in ("x", "y")]
    targets = [one.get(f"vdst{half}") for half in ("x", "y")]

    def execute(waves: Waves) -> None:
        values = [compute(waves) for compute in halves]
        for target, value in zip(targets, values, strict=True):
            waves.write_vector(target - FIRST_VECTOR, value)

    end = one.place + one.size
    return CodeStep(execute, one.place, end, one.__repr__, frozenset(reads), frozenset(targets))


def _half(one: Instruction, half: str, reads: set[int]) -> Callable[[Waves], Array]:
    """What computes one of the two results."""
    name = getattr(one.decoded, f"op{half}").name.replace("V_DUAL_", "V_")
    function = QUICK.get(name)
    if function is None:
        text = named_pseudocode(one.chip.isa).get(name)
        if text is None:
            raise EmulationError(f"{name} has no pseudocode")
        known = {"SIMM32": one.literal or 0}
        function = translate(text, PseudocodeSetting(known=known))
    is_float = not name.endswith(("U32", "I32", "B32"))
    numbers = {
        "S0": one.get(f"src{half}0"), "S1": one.get(f"vsrc{half}1"), "D0": one.get(f"vdst{half}")
    }  # fmt: skip
    getters: list[Callable[[Waves], Array]] = []
    for operand in function.inputs:
        if operand == "VCC[]":
            reads.add(VCC)  # of 32 lanes
            getters.append(lambda waves: waves.lane_mask(VCC))
            continue
        operand = "D0" if operand == "S2" else operand  # V_FMAC_DX9_ZERO
        if operand not in numbers:
            raise EmulationError(f"{name} takes {operand}")
        number = numbers[operand]
        if is_register(number, one.chip):
            reads.add(number)
        getters.append(vector_getter(number, 32, one.chip, is_float=is_float, literal=one.literal))
    run: Callable[..., tuple[Any, ...]] = function.run
    return lambda waves: run(*[get(waves) for get in getters])[0]
