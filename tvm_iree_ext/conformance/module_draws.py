"""Modules of PyTorch drawn from layers and functions that people write one behind the other."""

import random
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_LARGEST = 1e3
"""Of the numbers between two steps: beyond it, exponentials and powers overflow soon."""

_MOST_ELEMENTS = 20_000
"""Of a tensor between two steps: small, since a program is built for each module."""

# What steps may be, by the rank of what they take, a line each: a module, or a value of ``x``.
# One of the words between ``|`` is drawn; ``{c}`` is the number of channels, ``{axis}`` any axis.
# All are continuous: a rounding before one of them must not become a difference behind it.
_ANY = """
torch.{relu|sigmoid|tanh|sin|cos|abs|exp|expm1|atan|asinh|erf|square|neg}(x)
torch.{sqrt|rsqrt|log|log1p|log2|reciprocal|lgamma|digamma}(x.abs() + {0.5|1.0})
F.{gelu|silu|elu|selu|celu|softplus|mish|hardswish|hardsigmoid|hardtanh|leaky_relu}(x)
F.{logsigmoid|tanhshrink|softshrink|softsign|relu6}(x)
F.gelu(x, approximate='tanh')
nn.PReLU()
nn.Dropout({0.1|0.5})
nn.Threshold(0.1, 0.1)
F.{softmax|log_softmax|softmin}(x, dim={axis})
F.normalize(x, dim={axis}, p={1|2|3})
x.{cumsum|logcumsumexp}({axis})
x.sigmoid().cumprod({axis})
x.cummax({axis}).values
x.sort({axis}, descending={True|False}).values
x.topk(max(1, x.shape[{axis}] - 1), dim={axis}).values
x.flip({axis})
x.roll({1|2|-1}, {axis})
x.clamp({-1.0|-0.5}, {0.5|2.0})
x.clamp(min={-0.5|0.0})
x / (1 + x.abs())
x ** {2|3}
(x.abs() + 0.1) ** {0.5|1.5|-0.5}
torch.pow({2.0|0.5}, x.clamp(-3, 3))
x - x.{mean|amax|amin}({axis}, keepdim=True)
x / (x.{std|norm}(dim={axis}, keepdim=True) + {0.1|1.0})
x * x.var({axis}, unbiased={True|False}, keepdim=True)
x - x.logsumexp({axis}, keepdim=True)
x + x.median({axis}, keepdim=True).values
torch.where(x > 0, x, x * {0.1|-0.5|2.0})
torch.maximum(x, x.roll(1, {axis}))
torch.{hypot|atan2|logaddexp|fmin}(x, x.flip({axis}).abs() + 1)
torch.lerp(x, x.flip({axis}), {0.25|0.5})
torch.addcmul(x, x, x.flip({axis}), value={0.5|2.0})
torch.masked_fill(x, x < 0, 0.0)
x.index_select({axis}, torch.arange(x.shape[{axis}] - 1, -1, -1))
torch.stack([x, x * {2|-1}], {axis}).{mean|sum|amax}({axis})
torch.cat([x, x * {2|-1}], {axis})
torch.cat(x.split({1|2|3}, {axis})[::-1], {axis})
torch.cat([one * one.shape[{axis}] for one in x.chunk({2|3}, {axis})], {axis})
x.narrow({axis}, 0, max(1, x.shape[{axis}] - 1))
x.diff(dim={axis})
x.float().{add|mul}({1|0.3}).to(x.dtype)
x.repeat_interleave({1|2}, {axis})
x.gather({axis}, torch.zeros_like(x, dtype=torch.int64))
x.nan_to_num(0.0) * {0.5|2}
torch.renorm(x, 2, 1, {0.5|1.0})
x.unfold({axis}, {1|2}, 1).sum(-1)
torch.einsum('...i,...j->...i', x, x[..., :3])
x * torch.arange(x.shape[-1], dtype=x.dtype)
"""

_ROWS = """
nn.PReLU({c})
nn.Linear({c}, {1|5|8|16}, bias={True|False})
nn.{LayerNorm|RMSNorm|BatchNorm1d}({c})
nn.BatchNorm1d({c}, affine=False)
x[:, None] * x[:, :, None]
x[:, :, None]
x @ x.t()
x.t().contiguous()
torch.cdist(x, x.flip(0), p={1.0|2.0})
torch.addmm(x, x @ x.t(), x, alpha={0.5|0.1})
F.glu(torch.cat([x, x], 1))
F.pairwise_distance(x[:, None], x[None, :, :])
F.cosine_similarity(x[:, None], x[None], dim=-1)
torch.outer(x[0], x[-1])
torch.zeros_like(x).scatter_add(0, torch.ones_like(x, dtype=torch.int64).cumsum(0) // 2, x)
torch.zeros_like(x).index_add(0, torch.arange(x.shape[0]) // 2, x)
torch.{tril|triu}(x)
torch.diag_embed(x)
x.unflatten(1, ({c}, 1))
"""

_SEQUENCES = """
nn.Linear({c}, {1|4|8|12}, bias={True|False})
nn.{LayerNorm|RMSNorm}({c})
Turned(nn.Conv1d({c}, {4|8}, {1|3}, padding={0|1}, padding_mode='{zeros|circular|replicate}'))
Turned(nn.Conv1d({c}, {6|7}, {2|3}, stride={1|2}))
Turned(nn.Conv1d({c}, {c}, {3|5}, padding=2, groups={c}, dilation={1|2}))
Turned(nn.ConvTranspose1d({c}, {3|4}, {2|3}, stride={1|2}))
Turned(nn.{MaxPool1d|AvgPool1d}({2|3}, stride={1|2}, ceil_mode={True|False}))
Turned(nn.{AdaptiveAvgPool1d|AdaptiveMaxPool1d}({1|3|5}))
Turned(nn.{InstanceNorm1d|BatchNorm1d}({c}))
First(nn.{LSTM|GRU|RNN}({c}, 4, batch_first=True, bidirectional=True))
First(nn.{LSTM|GRU|RNN}({c}, 6, batch_first=True, num_layers={1|2}))
Attends(nn.MultiheadAttention({c}, {1|2}, batch_first=True, bias={True|False}))
nn.TransformerEncoderLayer({c}, {1|2}, 16, batch_first=True, norm_first={True|False})
F.scaled_dot_product_attention(x, x, x, is_causal={True|False})
F.scaled_dot_product_attention(x, x.flip(1), x * 2, scale={0.1|1.0})
x.softmax(-1) @ x.transpose(1, 2)
torch.bmm(x, x.transpose(1, 2))
torch.einsum('bld,bmd->blm', x, x.tanh())
torch.baddbmm(x, x @ x.transpose(1, 2), x, beta={0.5|1}, alpha=0.1)
x.transpose(1, 2)
x.{mean|sum|amax|amin}(1)
x.{mean|logsumexp|std}(-1)
x[:, {0|-1}]
x[:, ::2]
x.flatten(1)
x.unsqueeze(1)
x.masked_fill(torch.ones(x.shape[1], x.shape[1]).tril()[:, :1] == 0, 0.0)
F.glu(torch.cat([x, x.flip(1)], -1))
F.interpolate(x.transpose(1, 2), scale_factor={2|1.5}, mode='{nearest|linear}')
F.pad(x, ({1|0}, {2|0}), mode='{constant|replicate|circular}')
F.pad(x, (0, 0, {1|2}, {0|1}), value={0.5|0.0})
x.{mean|norm}(dim=(1, 2), keepdim=True) + x
"""

_IMAGES = """
nn.PReLU({c})
nn.Conv2d({c}, {4|6|9}, {1|3|5}, stride={1|2}, padding={0|1}, bias={True|False})
nn.Conv2d({c}, {3|8}, {2|3}, padding=1, dilation={1|2}, padding_mode='{reflect|circular|replicate}')
nn.Conv2d({c}, {c}, {3|5}, padding=2, groups={c})
nn.Conv2d({c}, 4, ({1|3}, {3|1}), padding='{same|valid}')
nn.ConvTranspose2d({c}, {3|4}, {2|3}, stride={1|2}, padding={0|1}, output_padding=0)
nn.BatchNorm2d({c})
nn.GroupNorm({1|c}, {c})
nn.InstanceNorm2d({c}, affine={True|False})
nn.LocalResponseNorm(2)
nn.Dropout2d(0.5)
nn.MaxPool2d({2|3}, stride={1|2}, padding={0|1}, ceil_mode={True|False})
nn.MaxPool2d(2, dilation={1|2})
nn.AvgPool2d({2|3}, stride={1|2}, padding={0|1}, count_include_pad={True|False})
nn.AvgPool2d({2|3}, stride={1|2}, ceil_mode=True)
nn.LPPool2d(2, 2)
nn.{AdaptiveAvgPool2d|AdaptiveMaxPool2d}({1|2|3|4})
F.pixel_unshuffle(x[:, :, :4, :4], 2)
nn.ChannelShuffle({1|2})
nn.{ReflectionPad2d|ReplicationPad2d|ZeroPad2d|CircularPad2d}({1|2})
nn.Upsample(scale_factor=2, mode='{nearest|bilinear|bicubic}')
nn.Unfold({2|3}, stride={1|2}, padding={0|1})
F.interpolate(x, size=({5|9}, {4|7}), mode='{bilinear|bicubic}', align_corners={True|False})
F.interpolate(x, size=({5|9}, {4|7}), mode='{area|nearest|nearest-exact}')
F.avg_pool2d(x, 3, 1, 1, divisor_override={2|5})
F.pad(x, ({-1|1}, {0|2}, {1|0}, {2|-1}), value={0.0|0.5})
F.grid_sample(x, grid(x), align_corners={True|False}, padding_mode='{zeros|border|reflection}')
x.flatten(2).transpose(1, 2)
x.flatten(1)
x.mean((2, 3))
x.amax((1, 2))
x.permute(0, 1, 3, 2)
x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
x.sum(1)
x[:, :, ::2, 1:]
x * x.mean((2, 3), keepdim=True).sigmoid()
x.reshape(x.shape[0] * x.shape[1], x.shape[2], x.shape[3])
"""

_STEPS = {
    rank: [*_ANY.split("\n")[1:-1], *(steps.split("\n")[1:-1] * 2)]
    for rank, steps in ((2, _ROWS), (3, _SEQUENCES), (4, _IMAGES))
}
_JOINED = (
    "x + y",
    "x * y",
    "torch.maximum(x, y)",
    "torch.where(y > 0, x, -x)",
    "x.masked_fill(y > 0, 0.0)",
    "torch.cat([x, y], 1)",
    "torch.stack([x, y]).amax(0)",
)

_AROUND = ("x + y", "x * y.sigmoid()", "torch.cat([x, y], 1)")
_UNFIT = RuntimeError, ValueError, IndexError, AssertionError, NotImplementedError
"""What PyTorch raises where a step does not fit a shape."""


class Formula(nn.Module):
    """A value of a tensor, or of two."""

    def __init__(self, text: str, names: str = "x") -> None:
        super().__init__()
        self.text = text
        self.function = eval(f"lambda {names}: {text}", _NAMES)

    def forward(self, *given: Tensor) -> Any:
        """The value."""
        return self.function(*given)

    def extra_repr(self) -> str:
        """The text that it is drawn as."""
        return self.text


class Turned(nn.Module):
    """A layer on the axes of a sequence the other way round: batch, channels, length."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        """Batch, length, channels again."""
        return self.layer(x.transpose(1, 2)).transpose(1, 2)


class First(nn.Module):
    """The first result of a layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        """It alone."""
        return self.layer(x)[0]


class Attends(First):
    """Attention of a sequence to itself."""

    def forward(self, x: Tensor) -> Any:
        """What it reads."""
        return self.layer(x, x, x, need_weights=False)[0]


class Around(nn.Module):
    """A tensor beside what a step makes of it: their sum, a gate, or both along an axis."""

    def __init__(self, step: nn.Module, way: str) -> None:
        super().__init__()
        self.step = step
        self.joined = Formula(way, "x, y")

    def forward(self, x: Tensor) -> Any:
        """Both as one."""
        return self.joined(x, self.step(x))


class StepsInTurn(nn.Module):
    """Steps behind each other; the first may take two tensors, and one between may be a result."""

    def __init__(self, steps: Sequence[nn.Module], seen: int | None) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)
        self.seen = seen

    def forward(self, *given: Tensor) -> Any:
        """The last value, or it and the one after step ``seen``."""
        found = None
        for place, step in enumerate(self.steps):
            given = (step(*given),)
            if place == self.seen:
                found = given[0]
        return given[0] if found is None else (given[0], found)


def grid(x: Tensor) -> Tensor:
    """Places to sample an image at, some beyond its edges."""
    rows, columns = torch.linspace(-1.2, 1, 5), torch.linspace(-1, 1.1, 6)
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).to(x.dtype)
    return places[None].expand(x.shape[0], -1, -1, -1)


_MODULES = {"Turned": Turned, "First": First, "Attends": Attends}
_NAMES = {"torch": torch, "nn": nn, "F": functional, "grid": grid, **_MODULES}


@dataclass(frozen=True)
class Drawn:
    """A module, what it is called with, and what that is: images, sequences, rows or words."""

    module: nn.Module
    inputs: tuple[Tensor, ...]
    kind: str


KINDS = ("images", "sequences", "rows", "words")


def drawn(seed: int, number: int, dtype: torch.dtype) -> Drawn:
    """The module of a number: 3 to 10 steps, each of which gives finite numbers that differ.

    Args:
        seed: of a whole draw.
        number: which of it.
        dtype: of its parameters and of what it takes; words are of int64.
    """
    choice = random.Random(f"{seed}/{number}")
    kind = KINDS[number % len(KINDS)]
    with torch.random.fork_rng(devices=()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(choice.getrandbits(60))
        count, channels, length = (choice.choice(of) for of in ((1, 2, 3), (3, 4, 8), (5, 7, 12)))
        shape = {
            "images": (count, channels, length, choice.choice((6, 9, 11))),
            "sequences": (count, length, channels),
            "rows": (length, channels),
            "words": (count, length),
        }[kind]
        steps: list[nn.Module] = []
        if kind == "words":
            inputs: tuple[Tensor, ...] = (torch.randint(0, 40, shape),)
            steps.append(nn.Embedding(40, channels))
        elif choice.random() < 0.25:
            inputs = torch.randn(shape), torch.randn(shape)
            steps.append(Formula(choice.choice(_JOINED), "x, y"))
        else:
            inputs = (torch.randn(shape),)
        x = steps[0](*inputs) if steps else inputs[0]
        for _ in range(choice.randint(3, 10)):
            step, x = _next(choice, x)
            steps.append(step)
        seen = choice.choice((None, None, len(steps) // 2))
        module = StepsInTurn(steps, seen).eval().to(dtype)
        floats = tuple(one.to(dtype) if one.is_floating_point() else one for one in inputs)
        return Drawn(module, floats, kind)


def _next(choice: random.Random, x: Tensor) -> tuple[nn.Module, Tensor]:
    """A step that takes a tensor, and what it makes of it."""
    while True:
        try:
            step = _step(choice, x)
            if choice.random() < 0.15:
                step = Around(step, choice.choice(_AROUND))
            with torch.no_grad():
                found = step.eval()(x)
        except _UNFIT:
            continue
        if found.dtype is x.dtype and found.dim() in _STEPS and _is_plain(found):
            return step, found


def _is_plain(x: Tensor) -> bool:
    """Whether a tensor is small, and its numbers finite, not large, and not all the same."""
    if not 1 < x.numel() <= _MOST_ELEMENTS or not torch.isfinite(x).all():
        return False
    return bool(x.abs().max() < _LARGEST) and bool(x.amax() - x.amin() > 1e-3)


def _step(choice: random.Random, x: Tensor) -> nn.Module:
    channels = x.shape[1] if x.dim() == 4 else x.shape[-1]
    axis = choice.randrange(-x.dim(), x.dim())

    def word(match: re.Match[str]) -> str:
        chosen = choice.choice(match[1].split("|"))
        return str({"c": channels, "axis": axis}.get(chosen, chosen))

    text = re.sub(r"\{([^}]*)\}", word, choice.choice(_STEPS[x.dim()]))
    if not text.startswith(("nn.", *_MODULES)):
        return Formula(text)
    made: nn.Module = eval(text, _NAMES)
    for buffer in made.buffers():  # statistics as if it had been trained
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    return made
