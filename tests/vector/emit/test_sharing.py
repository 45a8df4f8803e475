"""Random programs of tensors: whoever shares memory, the results are those of separate tensors."""

import numpy as np
import pytest

from tvm_iree_ext import vector

SHAPE = (3, 4)


def random_program(seed):
    """Writes, slices, loops, tiles and conditions on tensors of one shape, some read much later."""
    rng = np.random.default_rng(seed)
    with vector.program("random") as b:
        known = [b.argument(name, vector.tensor(SHAPE)) for name in "xy"]
        flag = b.argument("flag", "i1")
        known.append(b.fill(1.0, b.empty(SHAPE)))
        for _ in range(int(rng.integers(3, 9))):
            known.append(step(b, rng, known, flag, depth=0))
        results = [known[-1], *(known[int(i)] for i in rng.integers(len(known), size=2))]
        b.returns(*results)
    return b.program


def step(b, rng, known, flag, depth):
    """A new tensor from those that are known, of which the last are the likelier."""

    def pick():
        return known[max(0, len(known) - 1 - int(rng.integers(4)))]

    kind = int(rng.integers(10 if depth < 2 else 6))
    row = int(rng.integers(SHAPE[0]))
    if kind == 0:
        return b.fill(float(rng.integers(9)), pick())
    if kind == 1:
        v = b.transfer_read(pick(), [row, 1], (3,), in_bounds=[True])
        return b.transfer_write(v + v, pick(), [int(rng.integers(SHAPE[0])), 0])
    if kind == 2:
        source, dest = pick(), pick()
        piece = b.extract_slice(source, [row, 0], [1, 4])
        if rng.random() < 0.5:
            piece = b.fill(float(rng.integers(9)), piece)
        return b.insert_slice(piece, dest, [int(rng.integers(SHAPE[0])), 0])
    if kind == 3:
        return b.generic([pick()], [pick()], lambda one, out: one + out)[0]
    if kind == 4:
        return b.generic([pick()], [b.empty(SHAPE)], lambda one, _: one + one)[0]
    if kind == 5:
        return b.pad(b.extract_slice(pick(), [0, 0], [2, 4]), [1, 0], [0, 0], 5.0)
    if kind in (6, 7):
        start = [pick(), pick()][: int(rng.integers(1, 3))]
        with b.loop(0, 2, carry=start) as loop:
            inner = [*known, *loop.carried]
            for _ in range(int(rng.integers(1, 4))):
                inner.append(step(b, rng, inner, flag, depth + 1))
            loop.yield_(*(inner[-1 - int(rng.integers(3))] for _ in start))
        return loop.results[0]
    if kind == 8:
        with b.forall(SHAPE[0], outs=[pick()]) as tile:
            piece = b.extract_slice(pick(), [tile.index, 0], [1, 4])
            made = b.generic([piece], [b.empty((1, 4))], lambda one, _: one + one)[0]
            tile.yield_(b.insert_slice(made, tile.carried[0], [tile.index, 0]))
        return tile.result

    def branch():
        inner = list(known)
        inner.append(step(b, rng, inner, flag, depth + 1))
        return inner[-1 - int(rng.integers(2))]

    return b.if_(flag, branch, branch)[0]


@pytest.mark.parametrize("seeds", [range(64, 104)], ids=["64-103"])
def test_random_programs_agree(agree, seeds):
    rng = np.random.default_rng(1)
    pairs = []
    for seed in seeds:
        x, y = (rng.integers(-3, 4, SHAPE).astype(np.float32) for _ in range(2))
        pairs.append((random_program(seed), {"x": x, "y": y, "flag": bool(seed % 2)}))
    agree(pairs)
