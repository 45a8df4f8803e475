"""Networks of convolutions from PyTorch beside PyTorch."""

import pytest

import tvm_iree_ext as ext


def torch():
    """PyTorch, where it and IREE's front end are installed."""
    reason = "needs pip install 'tvm-iree-ext[pytorch]'"
    pytest.importorskip("iree.turbine.aot", reason=reason, exc_type=ImportError)
    return pytest.importorskip("torch", reason=reason, exc_type=ImportError)


def same(program, module, x):
    t = torch()
    with t.no_grad():
        t.testing.assert_close(program(x), module(x), rtol=1e-4, atol=1e-4)


def network():
    """What vision models are made of, in a few layers."""
    t = torch()
    nn = t.nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU6()
            )
            self.pool = nn.MaxPool2d(3, stride=1, padding=1)
            self.wide = nn.Sequential(nn.Conv2d(16, 32, 1, bias=False), nn.GroupNorm(4, 32))
            self.deep = nn.Sequential(
                nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.BatchNorm2d(32), nn.Hardswish()
            )
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(32, 8, 1), nn.ReLU(), nn.Conv2d(8, 32, 1)
            )
            self.narrow = nn.Conv2d(32, 16, 1)
            self.mixed = nn.Sequential(nn.Conv2d(32, 16, 3, padding=1, groups=2), nn.SiLU())
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            x = self.pool(self.stem(x))
            y = self.deep(self.wide(x))
            y = y * self.gate(y).sigmoid()
            y = x + self.narrow(y)
            y = self.mixed(t.cat([x, y], 1))
            return self.head(y.mean((2, 3)))

    t.manual_seed(0)
    made = Network()
    made.train()(t.randn(8, 3, 12, 12))  # so that batch norms have seen something
    return made.eval()


def test_a_network_of_any_batch():
    t, made = torch(), network()
    batch = {0: t.export.Dim("batch")}
    program = ext.from_torch(made, t.randn(4, 3, 8, 8), dynamic_shapes=(batch,))
    for count in (1, 3):
        same(program, made, t.randn(count, 3, 8, 8))
