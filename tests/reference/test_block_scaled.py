"""Elements in blocks with scales, beside ml_dtypes and the steps of OCP MX 1.0."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.reference import block_scaled

PATTERNS = {"float4_e2m1fn": 16, "float6_e2m3fn": 64, "float6_e3m2fn": 64}
FORMS = list(block_scaled.FORMATS)


def every(name):
    kind = np.dtype(getattr(ml_dtypes, name))
    return np.arange(PATTERNS.get(name, 256), dtype=np.uint8).view(kind)


@pytest.mark.parametrize("name", [*block_scaled.ELEMENTS, block_scaled.EXPONENTS])
def test_every_pattern_is_the_number_that_ml_dtypes_says(name):
    patterns = every(name)
    want = patterns.astype(np.float64)
    found = block_scaled.decoded(patterns)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found)[want == 0], np.signbit(want)[want == 0])


@pytest.mark.parametrize("element", block_scaled.ELEMENTS)
def test_elements_are_the_nearest_ties_to_even_and_saturate(element):
    numbers = block_scaled.decoded(every(element))
    finite = np.unique(numbers[np.isfinite(numbers)])
    between = (finite[1:] + finite[:-1]) / 2
    around = np.nextafter(between, -np.inf), np.nextafter(between, np.inf)
    drawn = np.random.default_rng(0).standard_normal(1000) * finite[-1] / 3
    values = np.concatenate([finite, between, *around, drawn])
    values = values[np.abs(values) <= finite[-1]]
    kind = np.dtype(getattr(ml_dtypes, element))
    # To float64 first: ml_dtypes rounds twice where it goes by float32.
    got = block_scaled.decoded(block_scaled.encoded(values, element))
    nearest = finite[np.argmin(np.abs(values[:, None] - finite), axis=1)]
    ties = np.isin(values, between)
    np.testing.assert_array_equal(got[~ties], nearest[~ties])
    tied = values[ties].astype(np.float32).astype(kind)
    np.testing.assert_array_equal(got[ties], tied.astype(np.float64))
    beyond = block_scaled.encoded(np.array([1e9, -np.inf]), element)
    np.testing.assert_array_equal(block_scaled.decoded(beyond), [finite[-1], -finite[-1]])


LARGEST = {  # the exponents of the largest numbers, by the standard's tables
    "float8_e5m2": 15,
    "float8_e4m3fn": 8,
    "float6_e3m2fn": 4,
    "float6_e2m3fn": 2,
    "float4_e2m1fn": 2,
}


@pytest.mark.parametrize("form", FORMS[:-1])
def test_a_scale_is_the_power_of_two_of_the_largest_number_less_the_types(form):
    element, _, block = block_scaled.FORMATS[form]
    numbers = np.random.default_rng(1).standard_normal((3, 5 * block)) * 100
    numbers[1] *= 2.0**-40
    elements, scales, tensor = block_scaled.quantized(numbers, form)
    blocks = numbers.reshape(3, 5, block)
    want = np.floor(np.log2(np.max(np.abs(blocks), axis=-1))) - LARGEST[element]
    np.testing.assert_array_equal(np.log2(block_scaled.decoded(scales)), want)
    assert tensor == 1
    scaled = blocks / np.exp2(want)[..., None]
    np.testing.assert_array_equal(
        block_scaled.decoded(elements),
        block_scaled.decoded(block_scaled.encoded(scaled, element)),
    )


@pytest.mark.parametrize("form", FORMS)
def test_what_the_format_holds_comes_back(form):
    element, _, block = block_scaled.FORMATS[form]
    numbers = block_scaled.decoded(every(element))
    numbers = np.resize(numbers[np.isfinite(numbers)], (4, 16 * block)) * 8
    elements, scales, tensor = block_scaled.quantized(numbers, form)
    assert elements.shape == (4, 16, block)
    found = block_scaled.dequantized(elements, scales, tensor)
    np.testing.assert_allclose(found, numbers, rtol=1e-6, atol=np.max(np.abs(numbers)) / 4)
    if form != "nvfp4":  # blocks with the type's largest number
        whole = np.max(np.abs(numbers.reshape(4, 16, block)), axis=-1) == np.max(numbers)
        same = (found == numbers).reshape(4, 16, block)
        assert whole.any()
        assert same[whole].all()


def test_blocks_of_zeros_and_of_what_is_not_finite():
    numbers = np.zeros((4, 32))
    numbers[1, 3], numbers[2, 5], numbers[3, 0] = np.nan, np.inf, 2.0**-140
    elements, scales, _ = block_scaled.quantized(numbers, "mxfp8_e4m3")
    assert scales.view(np.uint8).ravel().tolist() == [0, 255, 255, 0]
    found = block_scaled.dequantized(elements, scales)
    assert not found[0].any()
    assert np.isnan(found[1:3]).all()
    assert not found[3].any()  # below the least element times the least scale


def test_nvfp4_has_its_largest_number_exactly():
    numbers = np.random.default_rng(2).standard_normal((8, 64)).astype(np.float32)
    elements, scales, tensor = block_scaled.quantized(numbers, "nvfp4")
    assert scales.dtype.name == "float8_e4m3fn"
    found = block_scaled.dequantized(elements, scales, tensor)
    at = np.unravel_index(np.argmax(np.abs(numbers)), numbers.shape)
    assert abs(found[at] / numbers[at] - 1) < 1e-6
    assert np.max(np.abs(found - numbers)) < np.max(np.abs(numbers)) / 5


def test_refuses_a_rest_and_what_it_does_not_know():
    with pytest.raises(OpError) as caught:
        block_scaled.quantized(np.zeros((2, 40)), "mxfp4")
    assert str(caught.value) == (
        "block_scaled: the last axis of [2, 40] is no multiple of 32, the block of mxfp4"
    )
    with pytest.raises(OpError, match="format is 'fp4'; expected one of mxfp8_e5m2"):
        block_scaled.quantized(np.zeros((2, 32)), "fp4")
