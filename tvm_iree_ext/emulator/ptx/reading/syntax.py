"""PTX as it is written: modules, functions, instructions and their operands.

Source: PTX ISA 9.0, *Syntax* and *State Spaces, Types, and Variables*.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PtxRegister:
    """A virtual register, by its number in the function; special ones such as ``%tid.x``, too."""

    number: int
    name: str
    type: str


@dataclass(frozen=True)
class PtxImmediate:
    """A constant: of an integer its value, of a float its bits (``float_bits`` says of how
    many)."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class PtxSymbol:
    """The name of a variable, a parameter, a function or a label."""

    name: str


@dataclass(frozen=True)
class PtxAddress:
    """``[base + offset]``; ``coordinates`` are those of a tensor's box."""

    base: "PtxRegister | PtxSymbol | PtxImmediate"
    offset: int = 0
    coordinates: "tuple[PtxOperand, ...]" = ()


@dataclass(frozen=True)
class RegisterVector:
    """``{a, b, ...}``, or the list in parentheses of a call."""

    items: "tuple[PtxOperand, ...]"


@dataclass(frozen=True)
class NegatedPredicate:
    """``!p``."""

    register: PtxRegister


@dataclass(frozen=True)
class ResultPair:
    """``d|p``: a result and a predicate."""

    first: "PtxOperand"
    second: "PtxOperand"


@dataclass(frozen=True)
class DroppedResult:
    """``_``: a result that nobody takes."""


PtxOperand = (
    PtxRegister
    | PtxImmediate
    | PtxSymbol
    | PtxAddress
    | RegisterVector
    | NegatedPredicate
    | ResultPair
    | DroppedResult
)


@dataclass(frozen=True)
class PtxInstruction:
    """One instruction: ``opcode`` without modifiers, ``modifiers`` without their dots."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[PtxOperand, ...]
    guard: PtxRegister | None
    guard_negated: bool
    text: str

    @property
    def type(self) -> str:
        """The last modifier: the type of most instructions."""
        return self.modifiers[-1]

    def has(self, modifier: str) -> bool:
        """Whether a modifier is there."""
        return modifier in self.modifiers

    def one_of(self, *modifiers: str, default: str = "") -> str:
        """The one of these modifiers that is there."""
        return next((one for one in modifiers if one in self.modifiers), default)


@dataclass(frozen=True)
class PtxLabel:
    """A place in a function that branches name."""

    name: str


@dataclass(frozen=True)
class PtxVariable:
    """A variable or a parameter: ``count`` elements of a type; ``data`` begins it."""

    name: str
    space: str
    type: str
    count: int
    nbytes: int
    alignment: int
    data: bytes = b""


@dataclass
class PtxFunction:
    """A kernel (``.entry``) or a function of the device (``.func``)."""

    name: str
    is_entry: bool
    results: list[PtxVariable]
    parameters: list[PtxVariable]
    registers: list[PtxRegister] = field(default_factory=list)
    variables: dict[str, PtxVariable] = field(default_factory=dict)
    body: list[PtxInstruction | PtxLabel] = field(default_factory=list)
    tables: dict[str, list[str]] = field(default_factory=dict)
    lanes: tuple[int, ...] = ()


@dataclass(eq=False)  # known by itself: caches have it as a key
class PtxModule:
    """A file of PTX."""

    target: str
    functions: dict[str, PtxFunction]
    variables: dict[str, PtxVariable]
