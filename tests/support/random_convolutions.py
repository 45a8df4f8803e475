"""Programs of random chains of convolutions, and of what stands between them, beside NumPy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from relax_programs import Maker, program
from tvm import relax, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.programs.base.relax_passes import (
    lift_constants,
    relax_functions,
    with_functions,
)
from tvm_iree_ext.programs.program_build import build_program

Steps = Sequence[tuple[str, Mapping[str, Any]]]
"""Methods of a chain, and what is given to each."""

_KNOWN_AT_CALL = ("n", "h", "w")
_OFTEN = ("convolution", "convolution", "pointwise", "added")
_STEPS = (
    *("depthwise", "relu", "silu", "scaled", "pooled", "joined", "normed", "shuffled", "gated"),
    *("flipped", "half", "largest", "lines", "flat", "upsampled", "shifted", "turned"),
)


@dataclass(frozen=True)
class Image:
    """A tensor (N, C, H, W) of a program, and what NumPy makes of the same."""

    var: Any
    value: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents in this call."""
        return self.value.shape


def convolved(
    x: np.ndarray, taps: np.ndarray, stride: int, pads: tuple[int, int], groups: int
) -> np.ndarray:
    """The convolution of (N, C, H, W) with (F, C / groups, KH, KW)."""
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0],) * 2, (pads[1],) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps.shape[2:], (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    split = windows.reshape(len(x), groups, -1, *windows.shape[2:])
    factors = taps.reshape(groups, -1, *taps.shape[1:])
    found = np.einsum("ngchwij,gfcij->ngfhw", split, factors)
    return found.reshape(len(x), -1, *found.shape[3:])


class Chain:
    """A program with images, on which steps are done, each by its own name."""

    def __init__(
        self,
        seed: int,
        dtype: str = "float32",
        dynamic: bool | None = None,
        shape: tuple[int, int, int, int] | None = None,
        results: Sequence[int] | None = None,
    ) -> None:
        """Draw images; both of ``shape`` where it is given, and ``results`` by their places."""
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.dynamic = bool(self.rng.random() < 0.3) if dynamic is None else dynamic
        n, h, w = (int(self.rng.choice(of)) for of in ((1, 2), (1, 5, 6), (5, 9)))
        self.places = results
        # Widths with which some convolutions have channels last, and some have not.
        self.channels = [int(self.rng.choice([3, 8, 16, 24])) for _ in range(2)]
        if shape is not None:
            n, c, h, w = shape
            self.channels = [c, c]
        self.arguments = [self.normal(n, c, h, w) for c in self.channels]
        shapes = [("n", c, "h", "w") if self.dynamic else (n, c, h, w) for c in self.channels]
        self.maker = Maker(**{f"x{k}": (shape, dtype) for k, shape in enumerate(shapes)})
        self.results: list[Image] = []

    def normal(self, *shape: int) -> np.ndarray:
        """Random numbers of the program's type."""
        return np.asarray(self.rng.normal(size=shape)).astype(self.dtype)

    # What a program is made of.

    def check(self, imported: Imported, folder: Path) -> Any:
        """Build the program and compare what it gives with NumPy; returns it."""
        built = build_program(imported, folder=folder)
        got = built(*self.arguments)
        loose = 2e-2 if self.dtype == "float16" else 1e-4
        several = got if isinstance(got, tuple) else (got,)
        for found, one in zip(several, self.results, strict=True):
            assert found.dtype == one.value.dtype
            most = max(float(np.abs(one.value).max()), 1.0)
            np.testing.assert_allclose(found, one.value, rtol=loose, atol=loose * most)
        return built

    def program(self, steps: Steps | None = None) -> Imported:
        """The program, whose constants are its parameters or stand in the module."""
        types: list[tuple[tuple[Any, ...], str]] = []

        def make(emit: Callable) -> list[Any]:
            made = self.make(emit, steps)
            types.extend(self.types())
            return made

        imported = program(self.maker, make, types)
        if steps is None and self.rng.random() < 0.5:
            return imported
        parameters: dict[str, np.ndarray] = {}

        def name(array: np.ndarray) -> str:
            called = f"weight{len(parameters)}"
            parameters[called] = array
            return called

        mod = imported.module
        lifted = {var: lift_constants(one, name)[0] for var, one in relax_functions(mod).items()}
        return replace(imported, module=with_functions(mod, lifted), parameters=parameters)

    def make(self, emit: Callable, steps: Steps | None = None) -> list[Any]:
        """Emit steps, random ones unless they are given; returns the results."""
        self.emit, self.is_drawn = emit, steps is None
        made = [
            Image(var, value) for var, value in zip(self.maker.vars, self.arguments, strict=True)
        ]
        for kind, given in steps if steps is not None else self.drawn():
            is_last = steps is not None or self.rng.random() < 0.75
            one = made[-1 if is_last else self.rng.integers(len(made))]
            found = getattr(self, kind)(one, made, **given)
            if found is not None:
                made.append(found)
        if self.places is not None:
            self.results = [made[place] for place in self.places]
            return [one.var for one in self.results]
        self.results = made[-1:] if self.rng.random() < 0.5 else made[-3:]
        self.results = [one for one in self.results if one not in made[:2]] or made[:1]
        return [one.var for one in self.results]

    def drawn(self) -> Steps:
        """Random steps."""
        usual = [*_OFTEN * 3, *_STEPS]
        kinds = self.rng.choice(usual, self.rng.integers(3, 11))
        return [(str(kind), {}) for kind in kinds]

    def named(self, shape: tuple[int, ...], symbols: str = "n c h w") -> tuple[Any, ...]:
        """A shape by the names of its extents that are known in a call only."""
        names = symbols.split()
        return tuple(
            name if self.dynamic and name in _KNOWN_AT_CALL else extent
            for name, extent in zip(names, shape, strict=True)
        )

    def types(self) -> list[tuple[tuple[Any, ...], str]]:
        """What a signature says of the results."""
        return [(self.named(one.shape), self.dtype) for one in self.results]

    def nest(self, images: list[Any], value: np.ndarray, body: Callable, **more: Any) -> Image:
        """The result of loops."""
        shape = self.named(value.shape)
        call = self.maker.nest(images, shape, self.dtype, body, **more)
        return Image(self.emit(call), value.astype(self.dtype))

    # Steps.

    def convolution(
        self,
        one: Image,
        made: list[Image],
        *,
        filters: int | None = None,
        groups: int | None = None,
        kernel: tuple[int, int] | None = None,
        stride: int | None = None,
        begins: int | None = None,
    ) -> Image:
        """A window, and what its sums begin with: zeros, a bias, or an earlier image."""
        c = one.shape[1]
        groups = groups or int(self.rng.choice([g for g in (1, 1, 1, 2, 4) if c % g == 0]))
        several = [f for f in (8, 16, 16, 24, 32, 32, 3) if f % groups == 0]
        filters = filters or int(self.rng.choice(several))
        kernel = kernel or ((3, 3), (1, 3), (3, 1))[self.rng.integers(3)]
        stride = stride or (1 if self.dynamic else int(self.rng.choice([1, 1, 2])))
        pads = (kernel[0] - 1) // 2, (kernel[1] - 1) // 2
        taps, array = self.constant(filters, c // groups, *kernel)
        value = convolved(one.value, array, stride, pads, groups)
        others = self.begun(made, value, begins)
        begun = [m.var for m in others]
        if others:
            value = value + others[0].value
        elif not self.is_drawn or self.rng.random() < 0.5:
            bias, numbers = self.constant(filters)
            value = value + numbers[:, None, None]
            begun = [self.nest([bias], value, lambda r, *at: r[0](at[1])).var]
        op = ops.conv_2d(
            TensorType(self.named(one.shape), self.dtype),
            TensorType(array.shape, self.dtype),
            [TensorType(self.named(value.shape), self.dtype)] * len(begun),
            layout="NCHW",
            strides=stride,
            padding=[(p, p) for p in pads],
            groups=groups,
            algorithm="im2col",
            epilogue="arg0 + arg1" if begun else None,
        )
        return self.called(op, [one.var, taps, *begun], value)

    def depthwise(self, one: Image, made: list[Image]) -> Image | None:
        """A filter for each channel."""
        c = one.shape[1]
        taps, array = self.constant(c, 1, 3, 3)
        op = ops.conv_2d(
            TensorType(self.named(one.shape), self.dtype),
            TensorType(array.shape, self.dtype),
            layout="NCHW",
            padding=1,
            groups=c,
            algorithm="im2col",
        )
        return self.called(op, [one.var, taps], convolved(one.value, array, 1, (1, 1), c))

    def begun(self, made: list[Image], value: np.ndarray, place: int | None) -> list[Image]:
        """The image that sums begin with, or none."""
        if place is not None:
            return [made[place]]
        return [m for m in made if m.shape == value.shape][:1] if self.is_drawn else []

    def pointwise(
        self,
        one: Image,
        made: list[Image],
        *,
        filters: int | None = None,
        begins: int | None = None,
    ) -> Image:
        """A filter of one place as the importer has it: a matrix by an image."""
        filters = filters or int(self.rng.choice([8, 16, 3]))
        taps, array = self.constant(filters, one.shape[1])
        value = np.einsum("fc,nchw->nfhw", array, one.value)
        axes = ((1,), (4,)), ((0,), (4,), (2,), (3,)), ((0,), (1,), (2,), (3,))
        others = self.begun(made, value, begins)
        kind = TensorType(self.named(value.shape), self.dtype)
        op = ops.contraction(
            TensorType(array.shape, self.dtype),
            TensorType(self.named(one.shape), self.dtype),
            indexing_maps=[IndexingMap(5, one) for one in axes],
            init=kind if others else None,
        )
        if others:
            value = value + others[0].value
        return self.called(op, [taps, one.var, *(other.var for other in others)], value)

    def called(self, op: Any, arguments: list[Any], value: np.ndarray) -> Image:
        """The result of an op."""
        key = f"op{len(self.maker.ops)}"
        call = self.maker.op(key, op, arguments, self.named(value.shape), self.dtype)
        return Image(self.emit(call), value.astype(self.dtype))

    def constant(self, *shape: int) -> tuple[Any, np.ndarray]:
        """A weight, as one of the module."""
        array = self.normal(*shape) / np.asarray(max(np.prod(shape[1:]), 1) ** 0.5, self.dtype)
        array = array.astype(self.dtype)
        return relax.const(array), array

    def relu(self, one: Image, made: list[Image]) -> Image:
        """``max(x, 0)``."""
        zero = tirx.const(0.0, self.dtype)
        body = lambda r, *at: tirx.max(r[0](*at), zero)  # noqa: E731
        return self.nest([one.var], np.maximum(one.value, 0), body)

    def silu(self, one: Image, made: list[Image]) -> Image:
        """``x * sigmoid(x)``, by two nests."""
        gate = 1 / (1 + np.exp(-one.value))
        first = self.nest([one.var], gate, lambda r, *at: tirx.sigmoid(r[0](*at)))
        both = [one.var, first.var]
        return self.nest(both, one.value * gate, lambda r, *at: r[0](*at) * r[1](*at))

    def scaled(self, one: Image, made: list[Image]) -> Image:
        """Batch norm."""
        (a, first), (b, second) = (self.constant(one.shape[1]) for _ in "ab")
        value = one.value * first[:, None, None] + second[:, None, None]
        body = lambda r, *at: r[0](*at) * r[1](at[1]) + r[2](at[1])  # noqa: E731
        return self.nest([one.var, a, b], value, body)

    def added(self, one: Image, made: list[Image], place: int | None = None) -> Image:
        """A sum with any tensor of the shape."""
        others = [m for m in made if m.shape == one.shape] if place is None else [made[place]]
        other = others[self.rng.integers(len(others))]
        body = lambda r, *at: r[0](*at) + r[1](*at) * 0.5  # noqa: E731
        return self.nest([one.var, other.var], one.value + other.value * 0.5, body)

    def pooled(self, one: Image, made: list[Image]) -> Image | None:
        """The largest of two neighbours in a line."""
        if self.dynamic or one.shape[3] < 3:
            return None
        value = np.maximum(one.value[..., :-1], one.value[..., 1:])
        body = lambda o, r, n, c, h, w, k: tirx.max(o, r[0](n, c, h, w + k))  # noqa: E731
        return self.nest([one.var], value, body, reduced=(2,), init=float("-inf"))

    def joined(self, one: Image, made: list[Image], place: int | None = None) -> Image | None:
        """Two images side by side along channels."""
        several = [m for m in made if m.shape[0] == one.shape[0] and m.shape[2:] == one.shape[2:]]
        several = several if place is None else [made[place]]
        other = several[self.rng.integers(len(several))]
        first = one.shape[1]
        if first + other.shape[1] > 64:
            return None

        def body(r: Any, n: Any, c: Any, h: Any, w: Any) -> Any:
            later = r[1](n, c - first, h, w)
            return tirx.if_then_else(c < first, r[0](n, c, h, w), later)

        return self.nest([one.var, other.var], np.concatenate([one.value, other.value], 1), body)

    def grouped(self, one: Image) -> tuple[Any, np.ndarray, int] | None:
        """An image with its channels as two axes."""
        n, c, h, w = one.shape
        if c % 2:
            return None
        shape = self.named((n, 2, c // 2, h, w), "n 2 c h w")
        value = one.value.reshape(n, 2, c // 2, h, w)
        return self.reshaped(one.var, shape), value, c

    def reshaped(self, var: Any, shape: tuple[Any, ...]) -> Any:
        """A reshape."""
        wanted = relax.ShapeExpr(self.maker.shape(shape))
        return self.maker.builder.emit(relax.op.reshape(var, wanted))

    def of_groups(self, var: Any, value: np.ndarray, body: Callable, **more: Any) -> Any:
        """Loops of five."""
        shape = self.named(value.shape, "n 2 c h w")
        return self.emit(self.maker.nest([var], shape, self.dtype, body, **more))

    def normed(self, one: Image, made: list[Image]) -> Image | None:
        """Less the largest of its group of channels: as group norm, in exact numbers."""
        split = self.grouped(one)
        if split is None:
            return None
        var, value, c = split
        most = value.max((2, 3, 4), keepdims=True)
        reduced = self.named((c // 2, *one.shape[2:]), "c h w")
        shape = self.named((one.shape[0], 2), "n 2")
        body = lambda o, r, n, g, c, h, w: tirx.max(o, r[0](n, g, c, h, w))  # noqa: E731
        call = self.maker.nest([var], shape, self.dtype, body, reduced=reduced, init=float("-inf"))
        top = self.emit(call)
        less = lambda r, n, g, *at: r[0](n, g, *at) - r[1](n, g)  # noqa: E731
        shape = self.named(value.shape, "n 2 c h w")
        made_so = self.emit(self.maker.nest([var, top], shape, self.dtype, less))
        return Image(
            self.reshaped(made_so, self.named(one.shape)), (value - most).reshape(one.shape)
        )

    def shuffled(self, one: Image, made: list[Image]) -> Image | None:
        """Channels of two groups by turns."""
        split = self.grouped(one)
        if split is None:
            return None
        var, value, _ = split
        value = value.swapaxes(1, 2)
        shape = self.named(value.shape, "n c 2 h w")
        body = lambda r, n, c, g, h, w: r[0](n, g, c, h, w)  # noqa: E731
        turned = self.emit(self.maker.nest([var], shape, self.dtype, body))
        return Image(self.reshaped(turned, self.named(one.shape)), value.reshape(one.shape))

    def gated(self, one: Image, made: list[Image]) -> Image:
        """By the largest number of each channel."""
        shape, reduced = self.named(one.shape[:2], "n c"), self.named(one.shape[2:], "h w")
        body = lambda o, r, n, c, h, w: tirx.max(o, r[0](n, c, h, w))  # noqa: E731
        nest = self.maker.nest
        call = nest([one.var], shape, self.dtype, body, reduced=reduced, init=float("-inf"))
        value = one.value - one.value.max((2, 3), keepdims=True)
        both = [one.var, self.emit(call)]
        return self.nest(both, value, lambda r, *at: r[0](*at) - r[1](*at[:2]))

    def flipped(self, one: Image, made: list[Image]) -> Image:
        """Its channels from the last to the first."""
        last = one.shape[1] - 1
        body = lambda r, n, c, h, w: r[0](n, last - c, h, w)  # noqa: E731
        return self.nest([one.var], one.value[:, ::-1], body)

    def half(self, one: Image, made: list[Image]) -> Image:
        """Every other channel."""
        body = lambda r, n, c, h, w: r[0](n, c * 2, h, w)  # noqa: E731
        return self.nest([one.var], one.value[:, ::2], body)

    def largest(self, one: Image, made: list[Image]) -> Image:
        """The largest channel of each pixel, less."""
        n, c, h, w = self.named(one.shape)
        body = lambda o, r, n, h, w, c: tirx.max(o, r[0](n, c, h, w))  # noqa: E731
        nest = self.maker.nest
        call = nest([one.var], (n, h, w), self.dtype, body, reduced=(c,), init=float("-inf"))
        value = one.value - one.value.max(1, keepdims=True)
        both = [one.var, self.emit(call)]
        return self.nest(both, value, lambda r, n, c, h, w: r[0](n, c, h, w) - r[1](n, h, w))

    def lines(self, one: Image, made: list[Image]) -> Image | None:
        """Pixels in one line, scaled, and back."""
        n, c, h, w = one.shape
        if self.dynamic:
            return None
        var = self.reshaped(one.var, (n, c, h * w))
        scale, numbers = self.constant(c)
        body = lambda r, n, c, p: r[0](n, c, p) * r[1](c)  # noqa: E731
        made_so = self.emit(self.maker.nest([var, scale], (n, c, h * w), self.dtype, body))
        return Image(self.reshaped(made_so, one.shape), one.value * numbers[:, None, None])

    def flat(self, one: Image, made: list[Image]) -> Image | None:
        """All numbers of an image in one line, doubled, and back."""
        if self.dynamic:
            return None
        shape = (one.shape[0], int(np.prod(one.shape[1:])))
        var = self.reshaped(one.var, shape)
        body = lambda r, n, k: r[0](n, k) * 2.0  # noqa: E731
        made_so = self.emit(self.maker.nest([var], shape, self.dtype, body))
        return Image(self.reshaped(made_so, one.shape), one.value * 2)

    def upsampled(self, one: Image, made: list[Image]) -> Image | None:
        """Every pixel twice in a line."""
        if self.dynamic or one.shape[3] > 20:
            return None
        body = lambda r, n, c, h, w: r[0](n, c, h, tirx.floordiv(w, 2))  # noqa: E731
        return self.nest([one.var], one.value.repeat(2, 3), body)

    def shifted(self, one: Image, made: list[Image]) -> Image:
        """More by the number of a channel: depends on where it is."""
        places = np.arange(one.shape[1], dtype=self.dtype)[:, None, None]
        body = lambda r, n, c, h, w: r[0](n, c, h, w) + tirx.Cast(self.dtype, c) * 0.25  # noqa: E731
        return self.nest([one.var], one.value + places * np.asarray(0.25, self.dtype), body)

    def turned(self, one: Image, made: list[Image]) -> Image | None:
        """Rows as columns."""
        if self.dynamic:
            return None
        body = lambda r, n, c, h, w: r[0](n, c, w, h)  # noqa: E731
        return self.nest([one.var], one.value.swapaxes(2, 3), body)
