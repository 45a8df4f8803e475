"""Buffers that a PyTorch module updates are state of the program, updated in place."""

import copy

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import BuildError, CallError

torch = pytest.importorskip("torch")
pytest.importorskip("iree.turbine")


class Cached(torch.nn.Module):
    """A layer that keeps what it was given, and sums it."""

    def __init__(self, way, rows=64):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
        self.register_buffer("cache", torch.zeros(1, 4, rows, 16))
        self.register_buffer("count", torch.ones((), dtype=torch.int64))
        self.way = way

    def forward(self, x, i):
        y = self.layer(x).view(1, 1, 4, 16).transpose(1, 2)
        if self.way == "index_copy":
            self.cache.index_copy_(2, i, y)
        elif self.way == "index":
            self.cache[:, :, i] = y
        elif self.way == "scatter":
            self.cache.scatter_(2, i.view(1, 1, 1, 1).expand(1, 4, 1, 16), y)
        else:
            self.cache[:, :, 3:4] = y
        self.count += 1
        return (self.cache[:, :, :8] * y).sum((1, 2)), self.count.clone()


@pytest.mark.costly
@pytest.mark.parametrize("way", ["index_copy", "index", "scatter", "slice"])
def test_a_cache_is_updated_in_place(way, tmp_path):
    module = Cached(way).eval()
    own = copy.deepcopy(module)
    given = torch.randn(1, 64), torch.tensor([3])
    program = ext.from_torch(module, *given, folder=tmp_path / "p")
    (kernel,) = (one.name for one in program.manifest.kernels if one.name.endswith("in_place"))
    assert "scatter" in kernel or "insert_slice" in kernel
    with torch.no_grad():
        for place in (3, 5, 3, 63):
            x, i = torch.randn(1, 64), torch.tensor([place])
            for one, other in zip(program(x, i), own(x, i), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(program.state["cache"], own.cache, rtol=1e-4, atol=1e-5)
    assert int(program.state["count"]) == 5
    assert not module.cache.any()


def test_state_is_read_written_reset_and_loaded(tmp_path):
    module = Cached("slice").eval()
    x, i = torch.randn(1, 64), torch.tensor([0])
    program = ext.from_torch(module, x, i, folder=tmp_path / "p")
    with torch.no_grad():
        first, _ = program(x, i)
        program(x, i)
        program.state["count"][...] = 40
        assert int(program(x, i)[1]) == 41
        loaded = ext.load(program.export(tmp_path / "exported"))
        assert loaded.state.keys() == {"cache", "count"}
        assert int(loaded(x, i)[1]) == 2  # it begins as the module did
        program.reset()
        assert not program.state["cache"].any()
        torch.testing.assert_close(program(x, i)[0], first)


def test_running_statistics_of_training(tmp_path):
    module = torch.nn.BatchNorm1d(5).train()
    own = copy.deepcopy(module)
    program = ext.from_torch(module, torch.randn(7, 5), folder=tmp_path / "p")
    for _ in range(3):
        x = torch.randn(7, 5)
        torch.testing.assert_close(program(x), own(x).detach(), rtol=1e-4, atol=1e-5)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        np.testing.assert_allclose(program.state[name], getattr(own, name), rtol=1e-4)


def test_an_error_leaves_the_lock(tmp_path):
    module = Cached("slice").eval()
    x, i = torch.randn(1, 64), torch.tensor([0])
    program = ext.from_torch(module, x, i, folder=tmp_path / "p")
    with torch.no_grad():
        with pytest.raises(CallError):
            program(x[:, :3], i)
        assert int(program(x, i)[1]) == 2


def test_programs_for_gpus_keep_no_state():
    module = Cached("slice").eval()
    said = "programs for GPUs keep no state between calls: cache, count"
    with pytest.raises(BuildError, match=said):
        ext.from_torch(module, torch.randn(1, 64), torch.tensor([0]), target="cuda:sm_80")
