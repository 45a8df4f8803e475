"""im2col by its definition, whatever the ranks and however dims are permuted."""

import itertools
from dataclasses import dataclass
from math import prod

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program


@dataclass(frozen=True)
class Windows:
    """An im2col whose rows go over all windows.

    ``batch``, ``windows`` and ``channels`` say which dims of ``shape`` are which; the K dims of
    the result go over the dims but the batch in the order ``k_perm``.
    """

    shape: tuple[int, ...]
    batch: tuple[int, ...]
    windows: tuple[int, ...]
    channels: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    k_perm: tuple[int, ...]
    output_perm: tuple[int, ...]

    @property
    def inner(self):
        return [dim for dim in range(len(self.shape)) if dim not in self.batch]

    @property
    def counts(self):
        """Of windows along each dim that has any."""
        spans = zip(self.windows, self.kernel, self.strides, self.dilations, strict=True)
        return [(self.shape[dim] - 1 - (k - 1) * d) // s + 1 for dim, k, s, d in spans]

    @property
    def k_sizes(self):
        """In the order in which K goes over them."""
        extents = {dim: self.shape[dim] for dim in self.channels}
        extents |= dict(zip(self.windows, self.kernel, strict=True))
        return [extents[self.inner[place]] for place in self.k_perm]

    @property
    def canonical(self):
        return [*(self.shape[dim] for dim in self.batch), prod(self.counts), prod(self.k_sizes)]

    def text(self, name):
        result = [self.canonical[dim] for dim in self.output_perm]
        source, target = (f"tensor<{'x'.join(map(str, e))}xi32>" for e in (self.shape, result))
        sizes = [*([self.shape[dim]] for dim in self.batch), self.counts, self.k_sizes]
        return f"""
func.func @{name}(%in: {source}) -> {target} {{
  %e = tensor.empty() : {target}
  %0 = iree_linalg_ext.im2col strides = {[*self.strides]} dilations = {[*self.dilations]}
      kernel_size = {[*self.kernel]} offsets = {[0] * len(sizes)} output_sizes = {sizes}
      batch_pos = {[*self.batch]} m_pos = {[*self.windows]} k_pos = {[*self.channels]}
      input_k_perm = {[*self.k_perm]} output_perm = {[*self.output_perm]}
      ins(%in : {source}) outs(%e : {target}) -> {target}
  return %0 : {target}
}}"""

    def reference(self, array):
        """Element by element."""
        result = np.empty(self.canonical, array.dtype)
        for place in np.ndindex(*self.canonical):
            *batch, m, k = place
            window = np.unravel_index(m, self.counts)
            within = dict(
                zip(
                    (self.inner[dim] for dim in self.k_perm),
                    np.unravel_index(k, self.k_sizes),
                    strict=True,
                )
            )
            at = dict(zip(self.batch, batch, strict=True))
            at |= {dim: within[dim] for dim in self.channels}
            for number, dim in enumerate(self.windows):
                moved = window[number] * self.strides[number]
                at[dim] = moved + within[dim] * self.dilations[number]
            result[place] = array[tuple(at[dim] for dim in range(array.ndim))]
        return result.transpose(self.output_perm)


def check(built, cases):
    text = "\n".join(case.text(f"f{number}") for number, case in enumerate(cases))
    program, rng = built(text), np.random.default_rng(0)
    for number, case in enumerate(cases):
        array = rng.integers(-999, 999, case.shape, "int32")
        (got,) = program(array, function=f"f{number}")
        np.testing.assert_array_equal(got, case.reference(array), err_msg=str(case))


def test_every_order_of_the_dims_of_an_image(built):
    check(
        built,
        [
            Windows((2, 4, 5, 9), (0,), (2, 3), (1,), (3, 2), (1, 3), (2, 1), k_perm, (0, 1, 2))
            for k_perm in itertools.permutations(range(3))
        ],
    )


def test_any_rank_and_any_order(built):
    rng, cases = np.random.default_rng(1), []
    for _ in range(12):
        ranks = int(rng.integers(0, 2)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
        dims = [int(dim) for dim in rng.permutation(sum(ranks))]
        batch, windows, channels = (
            tuple(sorted(dims[sum(ranks[:n]) : sum(ranks[: n + 1])])) for n in range(3)
        )
        count = len(windows)
        kernel, strides, dilations = (
            tuple(map(int, rng.integers(1, most, count))) for most in (4, 4, 3)
        )
        shape = rng.integers(2, 4, len(dims))
        shape[[*windows]] = rng.integers(5, 8, count)
        cases.append(
            Windows(
                tuple(map(int, shape)), batch, windows, channels, kernel, strides, dilations,
                tuple(map(int, rng.permutation(count + len(channels)))),
                tuple(map(int, rng.permutation(len(batch) + 2))),
            )
        )  # fmt: skip
    check(built, cases)


OF_A_CALL = """
func.func @main(%in: tensor<1x?x8x2xELEMENT>, %kh: index, %kw: index, %top: index, %first: index,
    %pad: ELEMENT) -> tensor<RESULT> {
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %h = tensor.dim %in, %c1 : tensor<1x?x8x2xELEMENT>
  %hp = arith.addi %h, %top : index
  %rest = arith.subi %hp, %kh : index
  %oh = arith.addi %rest, %c1 : index
  %ow = arith.subi %c9, %kw : index
  %m = arith.muli %oh, %ow : index
  %e = tensor.empty(EXTENTS) : tensor<RESULT>
  %0 = iree_linalg_ext.im2col strides = [1, 1] dilations = [1, 1] kernel_size = [%kh, %kw]
    offsets = [0, %first, 0] output_sizes = [[1], [%oh, %ow], [%kh, %kw, 2]]
    batch_pos = [0] m_pos = [1, 2] k_pos = [3] input_k_perm = [0, 1, 2] output_perm = [0, 1, 2]
    input_pad_low = [0, %top, 0, 0] input_pad_high = [0, 0, 0, 0]
    output_pad_low = [0, 1, 0] output_pad_high = [0, 0, 3] pad_value(%pad : ELEMENT)
    ins(%in : tensor<1x?x8x2xELEMENT>) outs(%e : tensor<RESULT>) -> tensor<RESULT>
  return %0 : tensor<RESULT>
}"""


def of_a_call(element, shape, extents):
    text = OF_A_CALL.replace("RESULT", f"{shape}xELEMENT").replace("ELEMENT", element)
    return text.replace("EXTENTS", extents)


def windows_of(x, kernel, top, first, padding, shape):
    """By slices of the padded image."""
    padded = np.pad(x, [(0, 0), (top, 0), (0, 0), (0, 0)], constant_values=padding)
    rows = [
        padded[0, i : i + kernel[0], j : j + kernel[1]].ravel()
        for i in range(padded.shape[1] - kernel[0] + 1)
        for j in range(padded.shape[2] - kernel[1] + 1)
    ]
    want = np.full(shape, padding, x.dtype)
    part = np.array(rows)[first:]
    want[0, 1 : 1 + len(part), : part.shape[1]] = part[: shape[1] - 1]
    return want


@pytest.mark.costly
@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80", "rocm:gfx1100"])
def test_kernels_sizes_and_padding_that_a_run_tells(target, imported, built):
    text = of_a_call("f32", "1x41x15", "")
    x = np.random.default_rng(2).standard_normal((1, 7, 8, 2)).astype("float32")
    arguments = [x, np.int64(3), np.int64(2), np.int64(1), np.int64(4), np.float32(-7)]
    want = windows_of(x, (3, 2), 1, 4, -7, (1, 41, 15))
    if target == "llvm":
        (got,) = built(text)(*arguments)
    else:
        (got,) = simulate_program(imported(text), target, arguments).check().results
    np.testing.assert_array_equal(got, want)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80"])
def test_a_padding_of_bf16_that_a_run_tells(target, imported, built):
    text = of_a_call("bf16", "1x41x15", "")
    x = np.random.default_rng(3).integers(-9, 9, (1, 7, 8, 2)).astype(ml_dtypes.bfloat16)
    padding = x.dtype.type(2)
    arguments = [x, np.int64(3), np.int64(2), np.int64(1), np.int64(4), padding]
    if target == "llvm":
        (got,) = built(text)(*arguments)
    else:
        (got,) = simulate_program(imported(text), target, arguments).check().results
    np.testing.assert_array_equal(got, windows_of(x, (3, 2), 1, 4, padding, (1, 41, 15)))


def test_a_result_of_extents_that_a_run_tells_of_complex_numbers(built):
    x = np.arange(112, dtype="complex64").reshape(1, 7, 8, 2) * (1 + 2j)
    text = of_a_call("complex<f32>", "1x?x15", "%m")
    (got,) = built(text)(x, 3, 2, 1, 0, np.complex64(1 - 7j))
    np.testing.assert_array_equal(got, windows_of(x, (3, 2), 1, 0, 1 - 7j, (1, 42, 15)))
