"""Vision: ResNet, MobileNet, blocks of ViT, Swin and U-Net; the parts as torchvision has them."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tvm_iree_ext.bench.programs.models.program_model import Model


def _seeded(module: type[nn.Module], *shapes: tuple[int, ...]) -> Model:
    torch.manual_seed(0)
    return Model(module().eval(), tuple(torch.randn(shape) for shape in shapes))


def _normed(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Module:
    """A convolution that keeps the extent, and a batch norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


class _ResidualBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _normed(inputs, outputs, 3, stride)
        self.second = _normed(outputs, outputs, 3)
        is_same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if is_same else _normed(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.second(functional.relu(self.first(x))) + self.skip(x))


class _ResNet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [_ResidualBlock(inputs, outputs, stride), _ResidualBlock(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.classes = nn.Linear(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.blocks(self.stem(x)).mean((2, 3)))


class _InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, widening: int) -> None:
        super().__init__()
        inner = inputs * widening
        widen = [_normed(inputs, inner, 1), nn.ReLU6()] if widening > 1 else []
        depthwise = [_normed(inner, inner, 3, stride, inner), nn.ReLU6()]
        self.layers = nn.Sequential(*widen, *depthwise, _normed(inner, outputs, 1))
        self.is_added = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.is_added else self.layers(x)


class _InvertedBlock(_InvertedResidual):
    def __init__(self) -> None:
        super().__init__(24, 24, 1, 6)


class _MobileNetV2(nn.Module):
    _STAGES = (  # widening, channels, blocks, stride: table 2 of arXiv:1801.04381
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_normed(3, 32, 3, 2), nn.ReLU6()]
        inputs = 32
        for widening, outputs, count, stride in self._STAGES:
            for block in range(count):
                layers.append(_InvertedResidual(inputs, outputs, 1 if block else stride, widening))
                inputs = outputs
        self.features = nn.Sequential(*layers, _normed(320, 1280, 1), nn.ReLU6())
        self.classes = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.features(x).mean((2, 3)))


def resnet18() -> Model:
    """An image of 224 x 224."""
    return _seeded(_ResNet18, (1, 3, 224, 224))


def mobilenetv2_block() -> Model:
    """An inverted residual of 24 channels of 56 x 56."""
    return _seeded(_InvertedBlock, (1, 24, 56, 56))


def mobilenetv2() -> Model:
    """An image of 224 x 224."""
    return _seeded(_MobileNetV2, (1, 3, 224, 224))


class _VitBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(768, eps=1e-6), nn.LayerNorm(768, eps=1e-6)
        self.attention = nn.MultiheadAttention(768, 12, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


def vit_block() -> Model:
    """A block of ViT-B/16: 197 tokens."""
    return _seeded(_VitBlock, (1, 197, 768))


class _ShiftedWindows(nn.Module):
    """Attention inside of windows that are shifted, with a bias by relative places."""

    def __init__(self, width: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        places = torch.stack(
            torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        ).flatten(1)
        apart = places[:, :, None] - places[:, None, :] + window - 1
        self.register_buffer("apart", (apart[0] * (2 * window - 1) + apart[1]).flatten())

    def split(self, x: Tensor) -> Tensor:
        """Windows, and the tokens of each."""
        batch, rows, columns, width = x.shape
        side = self.window
        parts = x.view(batch, rows // side, side, columns // side, side, width)
        return parts.permute(0, 1, 3, 2, 4, 5).reshape(-1, side * side, width)

    def mask(self, rows: int, columns: int) -> Tensor:
        """What joins tokens that only the shift has made neighbours is far below zero."""
        regions = torch.zeros(1, rows, columns, 1)
        cuts = (slice(-self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for number, (down, across) in enumerate((a, b) for a in cuts for b in cuts):
            regions[:, down, across] = number
        of_tokens = self.split(regions)[:, :, 0]
        apart = of_tokens[:, None, :] - of_tokens[:, :, None]
        return torch.where(apart != 0, -100.0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        batch, rows, columns, width = x.shape
        side, tokens = self.window, self.window**2
        windows = self.split(torch.roll(x, (-self.shift, -self.shift), (1, 2)))
        qkv = self.qkv(windows).view(-1, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1)
        weights = weights + self.bias[self.apart].view(tokens, tokens, -1).permute(2, 0, 1)
        mask = self.mask(rows, columns)
        weights = weights.view(batch, -1, self.heads, tokens, tokens) + mask[:, None]
        weights = functional.softmax(weights.view(-1, self.heads, tokens, tokens), -1)
        y = self.project((weights @ v).transpose(1, 2).reshape(-1, tokens, width))
        y = y.view(batch, rows // side, columns // side, side, side, width)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
        return torch.roll(y, (self.shift, self.shift), (1, 2))


class _SwinBlock(nn.Module):
    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _ShiftedWindows(width, 3, 7, 3)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def swin_block() -> Model:
    """A shifted block of Swin-T: 56 x 56 tokens of 96, windows of 7 x 7."""
    return _seeded(_SwinBlock, (1, 56, 56, 96))


class _UnetBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, 192), nn.GroupNorm(32, 64)
        self.conv1, self.conv2 = nn.Conv2d(192, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)
        self.skip, self.time = nn.Conv2d(192, 64, 1), nn.Linear(256, 64)

    def forward(self, x: Tensor, beside: Tensor, time: Tensor) -> Tensor:
        x = torch.cat((functional.interpolate(x, scale_factor=2, mode="nearest"), beside), 1)
        h = self.conv1(functional.silu(self.norm1(x)))
        h = h + self.time(functional.silu(time))[:, :, None, None]
        return self.conv2(functional.silu(self.norm2(h))) + self.skip(x)


def unet_block() -> Model:
    """A block of a diffusion model's way up."""
    return _seeded(_UnetBlock, (1, 128, 32, 32), (1, 64, 64, 64), (1, 256))


class _BilinearUp(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
            nn.Conv2d(64, 32, 3, padding=1),
        )


def unet_bilinear_up() -> Model:
    """Twice the extent, and a convolution."""
    return _seeded(_BilinearUp, (1, 64, 32, 32))


class _Transposed(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1))


def conv_transpose() -> Model:
    """A transposed convolution of 32 x 32 to 64 x 64."""
    return _seeded(_Transposed, (1, 64, 32, 32))


class _TimestepMlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(320, 1280), nn.Linear(1280, 1280)

    def forward(self, steps: Tensor) -> Tensor:
        dtype = self.first.weight.dtype  # float64 in the reference
        exponents = torch.arange(160, dtype=dtype) / 160
        angles = steps.to(dtype)[:, None] * torch.exp(-math.log(10000) * exponents)[None]
        return self.second(functional.silu(self.first(torch.cat((angles.cos(), angles.sin()), -1))))


def timestep_mlp() -> Model:
    """What a diffusion model makes of the number of its step."""
    torch.manual_seed(0)
    return Model(_TimestepMlp().eval(), (torch.tensor([7, 300, 999, 12]),))
