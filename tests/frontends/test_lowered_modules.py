"""Modules of a framework's dialect."""

import numpy as np

import tvm_iree_ext as ext
from tvm_iree_ext import frontends


def test_text_of_stablehlo():
    imported = frontends.import_lowered(
        """
module @m {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
""",
        "stablehlo",
    )
    assert ext.build_program(imported)(np.ones(4, np.float32)).tolist() == [2, 2, 2, 2]
