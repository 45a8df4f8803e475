"""Products of groups of rows through ``from_torch``: mixtures of experts."""

import pytest
import torch
import torch.nn.functional as F
from torch_agreement import Several, agrees

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.torch.operators.torch_groups import as_calls, grouped_mm

ENDS = torch.tensor([3, 3, 10], dtype=torch.int32)

# What the package transformers has for types that PyTorch does not compile; it need not be there.
library = torch.library.Library("transformers", "FRAGMENT")
library.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
library.impl("grouped_mm_fallback", lambda x, w, _: x.new_empty(x.shape[0], w.shape[2]), "Meta")


def reference(rows, matrices, ends):
    result, begin = rows.new_zeros(rows.shape[0], matrices.shape[2]), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        result[begin:end] = rows[begin:end] @ matrix
        begin = end
    return result


library.impl("grouped_mm_fallback", reference, "CPU")


def test_a_package_s_own_operator_is_our_op_for_any_number_of_rows():
    rows, matrices = torch.randn(12, 8), torch.randn(3, 16, 8)

    def product(rows, matrices, ends):
        return torch.ops.transformers.grouped_mm_fallback(rows, matrices.transpose(1, 2), ends)

    others = [(torch.randn(count, 8), matrices, ENDS) for count in (10, 64)]
    count = torch.export.Dim("count", min=4)
    shapes = {"arguments": ({0: count}, None, None)}
    agrees(product, rows, matrices, ENDS, others=others, dynamic_shapes=shapes)
    imported = ext.frontends.import_torch(
        Several(product), rows, matrices, ENDS, strict_export=False
    )
    assert [op.name for op in imported.ops.values()] == ["tvm_iree_ext.grouped_matmul"]


def test_groups_of_rows_of_columns_and_of_what_is_summed_over():
    rows, matrices = torch.randn(16, 8).bfloat16(), torch.randn(3, 8, 16).bfloat16()

    def products(rows, matrices, ends):
        columns, turned = rows.T.contiguous(), matrices.transpose(1, 2).contiguous()
        return (
            F.grouped_mm(rows, matrices, offs=ends)[:10],
            F.grouped_mm(turned, columns, offs=ends)[:, :10],
            F.grouped_mm(columns, rows, offs=ends),
            F.grouped_mm(matrices, turned),
        )

    agrees(products, rows, matrices, ENDS, tolerance=2e-2)


def test_a_bias_is_refused_by_name():
    with pytest.raises(MlirError, match="grouped_mm: a bias is not supported"):
        grouped_mm(torch.ones(2, 2), torch.ones(1, 2, 2), ENDS[:1], bias=torch.ones(2))


def test_text_without_such_operators_stays():
    assert as_calls("module {\n}\n") == "module {\n}\n"
