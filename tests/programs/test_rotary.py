"""Attention with rotary embeddings, as PyTorch's models have it: halves that change sides."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("iree.turbine")

from tvm_iree_ext.frontends.torch.torch_modules import from_torch  # noqa: E402


class Rotary(torch.nn.Module):
    """Self-attention whose queries and keys are turned by angles of their positions."""

    def __init__(self, dtype, head=32):
        super().__init__()
        self.head = head
        self.project = torch.nn.Linear(2 * head, 6 * head, dtype=dtype)
        frequencies = 1 / 10000 ** (torch.arange(0, head, 2) / head)
        self.register_buffer("frequencies", frequencies.to(dtype))

    def forward(self, x, positions):
        angles = positions[:, :, None].float() * self.frequencies.float()
        angles = torch.cat((angles, angles), -1)[:, None]
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        def turned(y):
            half = self.head // 2
            return y * cosine + torch.cat((-y[..., half:], y[..., :half]), -1) * sine

        batch, length, _ = x.shape
        heads = self.project(x).view(batch, length, 2, 3, self.head).permute(3, 0, 2, 1, 4)
        query, key, value = turned(heads[0]), turned(heads[1]), heads[2]
        scores = query @ key.transpose(-1, -2) / self.head**0.5
        return scores.softmax(-1) @ value


@pytest.mark.costly
@pytest.mark.parametrize(
    ("batch", "length", "dtype"), [(1, 7, "bfloat16"), (3, 13, "float32"), (3, 13, "float16")]
)
def test_rotary_attention_is_that_of_pytorch(batch, length, dtype):
    torch.manual_seed(0)
    dtype = getattr(torch, dtype)
    module = Rotary(dtype).eval()
    x = torch.randn(batch, length, 64).to(dtype)
    positions = torch.arange(length)[None].expand(batch, length).contiguous()
    with torch.no_grad():
        want = module(x, positions)
        got = from_torch(module, x, positions)(x, positions)
    tolerance = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
