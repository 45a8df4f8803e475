"""Language models: GPT-2, Llama with a KV cache, and a layer of BERT."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tvm_iree_ext.bench.programs.models.program_model import Model

_VOCABULARY = 50257
_MOST_TOKENS = 1024  # of GPT-2
_CACHE = 512  # tokens that a Llama's cache has room for


class _Gpt2Block(nn.Module):
    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (one.view(split).transpose(1, 2) for one in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.narrow(functional.gelu(self.widen(self.norm2(x)), approximate="tanh"))


class _Gpt2(nn.Module):
    def __init__(self, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.words = nn.Embedding(_VOCABULARY, width)
        self.places = nn.Embedding(_MOST_TOKENS, width)
        self.blocks = nn.ModuleList([_Gpt2Block(width) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.T


def _gpt2_block(dtype: Any, **options: Any) -> Model:
    torch.manual_seed(0)
    block = _Gpt2Block().eval().to(dtype)
    return Model(block, (torch.randn(1, 128, 768).to(dtype),), options)


def gpt2_block() -> Model:
    """A block of 128 tokens."""
    return _gpt2_block(torch.float32)


def gpt2_block_f16() -> Model:
    """The same in float16."""
    return _gpt2_block(torch.float16)


def gpt2_block_bf16() -> Model:
    """The same in bfloat16."""
    return _gpt2_block(torch.bfloat16)


def gpt2_block_dynamic() -> Model:
    """The same of any number of tokens."""
    return _gpt2_block(
        torch.float32,
        dynamic_shapes=({1: torch.export.Dim("tokens", min=2, max=_MOST_TOKENS)},),
    )


def gpt2_small() -> Model:
    """All 12 blocks, from tokens to logits."""
    torch.manual_seed(0)
    return Model(_Gpt2().eval(), (torch.randint(0, _VOCABULARY, (1, 128)),))


class _RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class _LlamaParts(nn.Module):
    """Rotary positions, fewer heads of keys than of queries, and a gated SiLU."""

    def __init__(self, width: int = 1024, heads: int = 16, kv_heads: int = 4) -> None:
        super().__init__()
        self.width, self.heads, self.kv_heads = width, heads, kv_heads
        self.depth = width // heads
        inner = 2816
        self.norm1, self.norm2 = _RmsNorm(width), _RmsNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.depth, bias=False)
        self.v = nn.Linear(width, kv_heads * self.depth, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.widen = nn.Linear(width, inner, bias=False)
        self.narrow = nn.Linear(inner, width, bias=False)
        frequencies = 1.0 / (10000 ** (torch.arange(0, self.depth, 2).float() / self.depth))
        angles = torch.outer(torch.arange(2048).float(), frequencies)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, tokens, _ = x.shape
        h = self.norm1(x)
        q = self.q(h).view(batch, tokens, self.heads, self.depth).transpose(1, 2)
        k = self.k(h).view(batch, tokens, self.kv_heads, self.depth).transpose(1, 2)
        v = self.v(h).view(batch, tokens, self.kv_heads, self.depth).transpose(1, 2)
        return q, k, v

    def finished(self, x: Tensor, y: Tensor) -> Tensor:
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        h = self.norm2(x)
        return x + self.narrow(functional.silu(self.gate(h)) * self.widen(h))


class _LlamaPrefill(_LlamaParts):
    """Tokens from the first on."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[1]
        q, k, v = self.projected(x)
        cos, sin = self.cos[:tokens], self.sin[:tokens]
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.finished(x, y)


class _LlamaDecode(_LlamaParts):
    """One token, behind those whose keys and values the caches hold."""

    def forward(self, x: Tensor, place: Tensor, keys: Tensor, values: Tensor) -> Any:
        q, k, v = self.projected(x)
        cos, sin = self.cos.index_select(0, place), self.sin.index_select(0, place)
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        keys, values = keys.index_copy(2, place, k), values.index_copy(2, place, v)
        mask = (torch.arange(_CACHE) <= place)[None, None, None, :]
        y = functional.scaled_dot_product_attention(
            q, keys, values, attn_mask=mask, enable_gqa=True
        )
        return self.finished(x, y), keys, values


def llama_prefill() -> Model:
    """A block of 128 tokens."""
    torch.manual_seed(0)
    return Model(_LlamaPrefill().eval(), (torch.randn(1, 128, 1024),))


def _llama_decode(dtype: Any) -> Model:
    torch.manual_seed(0)
    block = _LlamaDecode().eval().to(dtype)
    cache = (1, block.kv_heads, _CACHE, block.depth)
    x, keys, values = (torch.randn(shape).to(dtype) for shape in ((1, 1, 1024), cache, cache))
    return Model(block, (x, torch.tensor([300]), keys, values))


def llama_decode() -> Model:
    """A block's next token, with caches of 512."""
    return _llama_decode(torch.float32)


def llama_decode_f16() -> Model:
    """The same in float16."""
    return _llama_decode(torch.float16)


def _bert() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True).eval()


def bert_layer() -> Model:
    """A layer of 128 tokens."""
    return Model(_bert(), (torch.randn(1, 128, 768),))


def bert_layer_dynamic() -> Model:
    """The same of any batch and number of tokens."""
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    return Model(_bert(), (torch.randn(4, 64, 768),), {"dynamic_shapes": (free,)})


class _CrossEntropy(nn.Module):
    def forward(self, logits: Tensor, tokens: Tensor) -> Tensor:
        return functional.cross_entropy(logits, tokens)


def cross_entropy() -> Model:
    """The loss of 128 tokens out of 32000."""
    torch.manual_seed(0)
    return Model(_CrossEntropy(), (torch.randn(128, 32000), torch.randint(0, 32000, (128,))))
