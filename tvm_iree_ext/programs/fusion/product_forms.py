"""Sums of products as fusion sees them: which dims their operands go along, what follows the sums.

A form is an op with others of its operands or another epilogue; the op's constructor checks each.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tvm import ir

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.ops.families.conv_2d.conv_2d_epilogue import with_epilogue
from tvm_iree_ext.programs.fusion.nest_reads import Axes, Places

Epilogue = Callable[..., ir.Expr]

_LAID_OUT = ("lhs", "rhs", "result")  # operands whose layouts are over their dims


@dataclass(frozen=True)
class Read:
    """An operand of an epilogue: the dims that its axes go along, and its type."""

    axes: Axes
    dtype: str


class ProductForm(ABC):
    """An op that sums products."""

    op: Op
    sums_dtype: str
    result_axes: Axes
    movable: tuple[str, ...]
    """The operands that may be read in another order of axes."""

    @property
    def names(self) -> list[str]:
        """The operands, in order."""
        return [operand.name for operand in self.op.signature.arguments]

    @property
    def result_dtype(self) -> str:
        """The element type of the result."""
        return self.op.signature.results[0].dtype

    @abstractmethod
    def axes(self, name: str) -> Axes:
        """The dims that an operand's axes go along."""

    @abstractmethod
    def reading(self, name: str, axes: Axes) -> "tuple[ProductForm, str, Places] | None":
        """The op with an operand that goes along other dims, and the operand's name in it.

        None where it takes no such one.
        """

    @abstractmethod
    def permuted(self, order: Sequence[int]) -> "ProductForm | None":
        """The op whose result's axes are those of this one's in another order."""

    @abstractmethod
    def followed(
        self, reads: Sequence[Read], epilogue: Epilogue, result_dtype: str
    ) -> "tuple[ProductForm, list[Places]] | None":
        """The op with an epilogue behind its own, of the last value and of ``reads``.

        Values are of the type of sums; the last is rounded to that of the result.
        """


def form_of(op: Op | None) -> ProductForm | None:
    """The form of an op, where it sums products."""
    if isinstance(op, Contraction):
        return ContractionForm(op)
    return ConvolutionForm(op) if isinstance(op, Conv2d) else None


def _chained(op: Contraction | Conv2d, epilogue: Epilogue) -> Epilogue:
    """An epilogue behind the op's own."""
    before, count = op.epilogue, len(op.others)

    def chained(*values: ir.Expr) -> ir.Expr:
        inner = before(*values[: 1 + count]) if before is not None else values[0]
        return epilogue(inner, *values[1 + count :])

    return chained


class ContractionForm(ProductForm):
    """A contraction, all operands of which go along dims in any order."""

    def __init__(self, op: Contraction) -> None:
        self.op: Contraction = op
        self.sums_dtype = op.accumulator_dtype
        self.result_axes = op.maps["result"].axes
        self.movable = tuple(name for name in op.types if name != "result")

    def axes(self, name: str) -> Axes:  # noqa: D102
        return self.op.maps[name].axes

    def reading(self, name: str, axes: Axes) -> "tuple[ProductForm, str, Places] | None":
        """As there; what sums begin with is added to them, where it is read otherwise."""
        if name == "init":
            return self._init_behind(axes)
        places: Places = tuple(range(len(axes)))
        made = self._rebuilt(name, axes)
        if made is None:  # dims of extent 1, which two operands of three have
            lost = [axis for axis in self.axes(name) if axis and axis not in axes]
            if any(self._extent(axis) != 1 for axis in lost):
                return None  # no other factor goes along such a dim: the operand stays broadcast
            made = self._rebuilt(name, (*lost, *axes))
            places = (*(None for _ in lost), *places)
        return None if made is None else (made, name, places)

    def _rebuilt(self, name: str, axes: Axes) -> "ContractionForm | None":
        op = self.op
        shape = tuple(self._extent(axis) for axis in axes)
        types = {**op.types, name: TensorType(shape, op.types[name].dtype)}
        maps = {**op.maps, name: IndexingMap(len(op.extents), axes)}
        return _contraction(op, types, maps, op.epilogue)

    def _init_behind(self, axes: Axes) -> "tuple[ProductForm, str, Places] | None":
        op = self.op
        types = {name: kind for name, kind in op.types.items() if name != "init"}
        maps = {name: one for name, one in op.maps.items() if name != "init"}
        bare = _contraction(op, types, maps, None, ())
        if bare is None:
            return None
        begun = bare.followed(
            [Read(axes, op.types["init"].dtype)], lambda sums, init: sums + init, bare.result_dtype
        )
        if begun is None or op.epilogue is None:
            return None if begun is None else (begun[0], "operand0", begun[1][0])
        reads = [Read(op.maps[one].axes, op.types[one].dtype) for one in op.others]
        made = begun[0].followed(reads, op.epilogue, bare.result_dtype)
        return None if made is None else (made[0], "operand0", begun[1][0])

    def permuted(self, order: Sequence[int]) -> "ContractionForm | None":
        """As there; what sums begin with lies as the result does."""
        op, types, maps = self.op, dict(self.op.types), dict(self.op.maps)
        for name in ("init", "result") if op.has_init else ("result",):
            kind = types[name]
            types[name] = TensorType(tuple(kind.shape[i] for i in order), kind.dtype)
            axes = tuple(maps[name].axes[i] for i in order)
            maps[name] = IndexingMap(len(op.extents), axes)
        return _contraction(op, types, maps, op.epilogue)

    def _extent(self, axis: Sequence[int]) -> Extent:
        return self.op.extents[axis[0]] if axis else 1

    def followed(  # noqa: D102
        self, reads: Sequence[Read], epilogue: Epilogue, result_dtype: str
    ) -> tuple[ProductForm, list[Places]] | None:
        op = self.op
        types, maps = dict(op.types), dict(op.maps)
        end_type, end_map = types.pop("result"), maps.pop("result")
        for number, read in enumerate(reads, len(op.others)):
            shape = tuple(self._extent(axis) for axis in read.axes)
            types[f"operand{number}"] = TensorType(shape, read.dtype)
            maps[f"operand{number}"] = IndexingMap(len(op.extents), read.axes)
        types["result"] = TensorType(end_type.shape, result_dtype)
        maps["result"] = end_map
        made = _contraction(op, types, maps, _chained(op, epilogue))
        return None if made is None else (made, [tuple(range(len(one.axes))) for one in reads])


def _contraction(
    op: Contraction,
    types: Mapping[str, TensorType],
    maps: Mapping[str, IndexingMap],
    epilogue: Epilogue | None,
    others: Sequence[str] | None = None,
) -> ContractionForm | None:
    """The contraction with other operands; None where it takes no such ones."""
    if others is None:
        others = [name for name in types if name.startswith("operand")]
    # Programs have ops over words.
    types = {
        name: TensorType(kind.shape, op.numbers.get(name, kind.dtype))
        for name, kind in types.items()
    }
    scales = [name for name in ("lhs_scales", "rhs_scales") if name in op.types]
    beside = [] if op.prologue is None else op.beside("rhs")
    try:
        made = ops.contraction(
            types["lhs"],
            types["rhs"],
            [types[name] for name in others],
            indexing_maps=[
                maps[name] for name in ("lhs", "rhs", *scales, *beside, *others, "result")
            ],
            lhs_scales=types.get("lhs_scales"),
            rhs_scales=types.get("rhs_scales"),
            prologue=op.prologue,
            prologue_operands=[types[name] for name in beside],
            init=types.get("init"),
            epilogue=epilogue,
            result_dtype=types["result"].dtype,
        )
    except OpError:
        return None
    words = made.in_words
    assert isinstance(words, Contraction)
    layouts = op.layouts
    if layouts is not None and any(
        set(words.maps[n].dims) != set(op.maps[n].dims) for n in _LAID_OUT
    ):
        return None
    return ContractionForm(replace(words, layouts=layouts))


class ConvolutionForm(ProductForm):
    """A convolution, the epilogue's operands of which go along axes of the result, in order."""

    result_axes = ((0,), (1,), (2,), (3,))

    def __init__(self, op: Conv2d) -> None:
        self.op: Conv2d = op
        self.sums_dtype = op.compute_dtype
        self.movable = tuple(op.others)

    @cached_property
    def _extents(self) -> tuple[Extent, ...]:
        return self.op.in_layout(self.op.output)

    def axes(self, name: str) -> Axes:  # noqa: D102
        lead = len(self.result_axes) - len(self.op.maps[name].axes)
        return ((),) * lead + self.op.maps[name].axes

    def reading(self, name: str, axes: Axes) -> "tuple[ProductForm, str, Places] | None":  # noqa: D102
        op, places = self.op, _in_order(axes)
        if places is None:
            return None
        types = {**op.others, name: self._type(places, op.others[name].dtype)}
        made = self._made(types, op.epilogue, op.result_dtype)
        return None if made is None else (made, name, places)

    def permuted(self, order: Sequence[int]) -> None:
        """None: the layout says the order of a convolution's axes."""

    def followed(  # noqa: D102
        self, reads: Sequence[Read], epilogue: Epilogue, result_dtype: str
    ) -> tuple[ProductForm, list[Places]] | None:
        op, types, every = self.op, dict(self.op.others), []
        for number, read in enumerate(reads, len(types)):
            places = _in_order(read.axes)
            if places is None:
                return None
            types[f"operand{number}"] = self._type(places, read.dtype)
            every.append(places)
        made = self._made(types, _chained(op, epilogue), result_dtype)
        return None if made is None else (made, every)

    def _type(self, places: Places, dtype: str) -> TensorType:
        shape = (1 if p is None else e for p, e in zip(places, self._extents, strict=True))
        return TensorType(tuple(shape), dtype)

    def _made(
        self, types: Mapping[str, TensorType], epilogue: Epilogue | None, result_dtype: str | None
    ) -> "ConvolutionForm | None":
        op = self.op
        operands = list(types.values())
        try:
            made = with_epilogue(op, operands, epilogue, op.dtype, result_dtype)
        except OpError:
            return None
        return ConvolutionForm(made)


def _in_order(axes: Axes) -> Places | None:
    """For each axis of a convolution's result the axis that goes along it; None for another order.

    Axes of no dim are of extent 1, and wherever they are.
    """
    dims = [axis[0] for axis in axes if axis]
    if dims != sorted(dims):
        return None
    return tuple(axes.index((dim,)) if dim in dims else None for dim in range(4))
