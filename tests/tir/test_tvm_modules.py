import subprocess
import sys

MAKING = """
import sys
import tvm_iree_ext as ext
ops = ext.ops
made = [
    ops.attention((1, 2, 16, 8), (1, 2, 16, 8), (1, 2, 16, 8)),
    ops.matmul((4, 5), (5, 6)),
    ops.conv_2d((1, 8, 8, 4), (3, 3, 4, 4)),
    ops.scan((8, 8), "mul", dtype="int32"),
    ops.sort((8,), dimension=0),
    ops.topk((8,), 2, region="<"),
    ops.arg_compare((8, 8)),
    ops.pack((8, 8), inner_dims_pos=(0,), inner_tiles=(4,)),
]
texts = [op.describe() for op in made] + [str(op) for op in made] + [hash(op) for op in made]
assert "tvm" not in sys.modules and "tvm_ffi" not in sys.modules
assert made[0].prim_func() is not None
assert "tvm" in sys.modules
"""


def test_ops_are_made_and_described_without_tvm():
    done = subprocess.run([sys.executable, "-I", "-c", MAKING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
