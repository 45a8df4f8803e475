"""What somebody mistypes, and what the complaint suggests."""

import pytest

ATTENTION = ["1x2x4x8xf32", "1x2x16x8xf32", "1x2x16x8xf32"]

TYPOS = [
    # Ops.
    ("build attenton 4xf32", "did you mean 'attention'?"),
    ("build iree_linalg_ext.atention 4xf32", "did you mean 'iree_linalg_ext.attention'?"),
    ("build top_k 8xf32", "did you mean 'topk'?"),
    ("build matmull 4x4xf32 4x4xf32", "did you mean 'matmul'?"),
    ("build gemm 4x4xf32 4x4xf32", "did you mean 'matmul'?"),
    ("build conv2d 4x4xf32 4x4xf32", "did you mean 'conv_2d'?"),
    ("build convolution 4x4xf32 4x4xf32", "did you mean 'conv_2d'?"),
    ("build {folder}/model.mlr", "did you mean '{folder}/model.mlir'?"),
    ("build cumsum 8xf32", "did you mean 'scan'?"),
    ("build --help-op online-attention", "did you mean 'online_attention'?"),
    ("verify --op sorrt", "did you mean 'sort'?"),
    # Attributes and operands.
    ("build sort 8xf32 --set dimention=0", "did you mean 'dimension'?"),
    ("build attention A --set casual=true", "did you mean 'causal'?"),
    ("build attention A maks=4xi1", "did you mean 'mask'?"),
    ("build matmul 4x4xf32 4x4xf32 --set result_type=float16", "did you mean 'result_dtype'?"),
    # Types.
    ("build sort 8xfp16 --set dimension=0", "did you mean '8xf16'?"),
    ("build sort 8xfloat --set dimension=0", "did you mean '8xf32'?"),
    ("build sort nx8xf32 --set dimension=0", "did you mean 'Nx8xf32'?"),
    ("build sort 8 --set dimension=0 --set dtype=fp32", "did you mean 'f32'?"),
    ("build matmul 4x4xf32 4x4xf32 --set result_dtype=flaot16", "did you mean 'float16'?"),
    # Targets.
    ("build sort 8xf32 --set dimension=0 --target gfx942", "did you mean rocm:gfx942?"),
    ("build sort 8xf32 --set dimension=0 --target sm_90", "did you mean cuda:sm_90?"),
    ("build sort 8xf32 --set dimension=0 --target cuda:sm90", "did you mean cuda:sm_90?"),
    ("build sort 8xf32 --set dimension=0 --target h100", "did you mean cuda:sm_90a?"),
    ("build sort 8xf32 --set dimension=0 --target hip:gfx942", "did you mean rocm:gfx942?"),
    ("build sort 8xf32 --set dimension=0 --target cpu", "did you mean llvm?"),
    ("build sort 8xf32 --set dimension=0 --target llvm:znver44", "did you mean 'znver4'?"),
    # Commands, options and choices.
    ("biuld attention", "did you mean 'build'?"),
    ("records shwo", "did you mean 'show'?"),
    ("build sort 8xf32 --taget llvm", "did you mean '--target'?"),
    ("tune sort 8xf32 --effort quik", "did you mean 'quick'?"),
    ("tune --suite comon", "did you mean 'common'?"),
    ("bench atention", "did you mean 'attention'?"),
    # Files.
    ("import {folder}/modle.mlir", "did you mean '{folder}/model.mlir'?"),
    ("run {folder}/kernels", "did you mean '{folder}/kernel'?"),
    ("run {folder}/model.mlir --inputs {folder}/array.npz", "did you mean '{folder}/arrays.npz'?"),
    ("records show {folder}/record.jsonl", "did you mean '{folder}/records.jsonl'?"),
    ("simulate mma:MFMA_F32_16x16x16F16", "did you mean 'MFMA_F32_16x16x16_F16'?"),
]


@pytest.mark.parametrize(("words", "suggestion"), TYPOS, ids=[words for words, _ in TYPOS])
def test_a_typo_is_answered_by_what_was_meant(command, tmp_path, words, suggestion):
    for name in ("model.mlir", "arrays.npz", "records.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "kernel").mkdir()
    words, suggestion = (one.replace("{folder}", str(tmp_path)) for one in (words, suggestion))
    arguments = [one for word in words.split() for one in (ATTENTION if word == "A" else [word])]
    done = command(*arguments)
    assert done.status in (1, 2)
    assert suggestion in done.err
