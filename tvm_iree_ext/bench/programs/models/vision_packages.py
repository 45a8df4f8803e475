"""Models of ``torchvision``, ``timm`` and ``diffusers``: their own code, with random weights."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tvm_iree_ext.bench.programs.models.program_model import Model, in_bfloat16, with_open_batch


def _image(module: nn.Module, size: int) -> Model:
    """A classifier of an image, whose batch norms have seen other numbers than 0 and 1."""
    torch.manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    for parameter in module.parameters():  # heads that begin at 0 would tell nothing
        if not parameter.any():
            nn.init.normal_(parameter, std=0.02)
    return Model(module.eval(), (torch.randn(1, 3, size, size),))


def _torchvision(name: str, size: int = 224, **options: Any) -> Model:
    from torchvision import models

    torch.manual_seed(0)
    return _image(getattr(models, name)(weights=None, **options), size)


def _timm(name: str, size: int = 224) -> Model:
    import timm

    torch.manual_seed(0)
    return _image(timm.create_model(name, pretrained=False), size)


class _Noise(nn.Module):
    def __init__(self, unet: nn.Module):
        super().__init__()
        self.unet = unet

    def forward(self, image: Tensor, step: Tensor, text: Tensor) -> Tensor:
        found: Tensor = self.unet(image, step, text, return_dict=False)[0]
        return found


def _unet() -> Model:
    """Stable diffusion's U-Net of half the channels, on a latent image of 32 x 32."""
    from diffusers import UNet2DConditionModel

    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(160, 320, 640, 640),
        cross_attention_dim=384,
        attention_head_dim=8,
    )
    inputs = torch.randn(1, 4, 32, 32), torch.tensor([500]), torch.randn(1, 77, 384)
    return Model(_Noise(unet).eval(), inputs)


class _Decoder(nn.Module):
    def __init__(self, vae: Any):
        super().__init__()
        self.vae = vae

    def forward(self, latent: Tensor) -> Tensor:
        found: Tensor = self.vae.decode(latent, return_dict=False)[0]
        return found


def _vae() -> Model:
    """The decoder of stable diffusion's VAE, from a latent image of 16 x 16."""
    from diffusers import AutoencoderKL

    torch.manual_seed(0)
    kind = "UpDecoderBlock2D"
    vae = AutoencoderKL(
        up_block_types=(kind,) * 4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        block_out_channels=(64, 128, 256, 256),
        layers_per_block=2,
        latent_channels=4,
    )
    return Model(_Decoder(vae).eval(), (torch.randn(1, 4, 16, 16),))


_FLOAT32: dict[str, Callable[[], Model]] = {
    "resnet50": partial(_torchvision, "resnet50"),
    "mobilenet_v3": partial(_torchvision, "mobilenet_v3_large"),
    "efficientnet_b0": partial(_torchvision, "efficientnet_b0"),
    "convnext_tiny": partial(_torchvision, "convnext_tiny"),
    "densenet121": partial(_torchvision, "densenet121"),
    "squeezenet": partial(_torchvision, "squeezenet1_1"),
    "googlenet": partial(_torchvision, "googlenet", init_weights=False, aux_logits=False),
    "inception_v3": partial(_torchvision, "inception_v3", 299, init_weights=False),
    "shufflenet": partial(_torchvision, "shufflenet_v2_x1_0"),
    "regnet": partial(_torchvision, "regnet_y_400mf"),
    "vit_b_16": partial(_torchvision, "vit_b_16"),
    "swin_t": partial(_torchvision, "swin_t"),
    "maxvit": partial(_timm, "maxvit_tiny_rw_224"),
    "deit_small": partial(_timm, "deit_small_patch16_224"),
    "mixer_s16": partial(_timm, "mixer_s16_224"),
    "efficientvit": partial(_timm, "efficientvit_b0"),
    "resnest": partial(_timm, "resnest14d"),
    "diffusion_unet": _unet,
    "diffusion_vae": _vae,
}
_NARROW = ("resnet50", "vit_b_16", "convnext_tiny", "swin_t", "diffusion_unet")

MODELS: Mapping[str, Callable[[], Model]] = {
    **_FLOAT32,
    **{f"{name}_bf16": partial(in_bfloat16, _FLOAT32[name]) for name in _NARROW},
    "resnet50_dynamic": partial(with_open_batch, _FLOAT32["resnet50"]),
    "vit_b_16_dynamic": partial(with_open_batch, _FLOAT32["vit_b_16"]),
}
"""What makes each, by the name of its program."""
