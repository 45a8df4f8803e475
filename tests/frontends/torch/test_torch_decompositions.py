"""PyTorch's operators, beside eager PyTorch: what IREE's front end alone computes wrongly."""

import pytest
from torch_agreement import agrees, torch

import tvm_iree_ext as ext
from tvm_iree_ext.frontends.torch.torch_decompositions import replaced

F = torch.nn.functional
NAN, INF = float("nan"), float("inf")
NUMBERS = torch.tensor([NAN, -INF, INF, -1e30, -100, -1.5, -0.0, 0.0, 0.3, 2, 7, 1e30])


def test_numbers_that_are_none_stay_such_between_bounds_and_constants_are_compared_as_numbers():
    def bounded(x):
        tensor, zeros = torch.full((1,), 0.5), torch.zeros_like(x)
        return (
            *(F.hardtanh(x), F.relu6(x), F.threshold(x, 0.1, 5), F.logsigmoid(x)),
            *(x.clamp(-1, 1), x.clamp(min=0), x.clamp_max(tensor), x.clamp(1, -1)),
            *(torch.maximum(x, x.flip(0)), torch.minimum(x.flip(0), x)),
            *((x * 0).nan_to_num().long().clamp(1, 4), F.gelu(x.clamp(-9, 9), approximate="tanh")),
            *(zeros == 0, zeros + 1 != 1, zeros + 2 > 1, zeros >= 0, zeros * NAN == 1, x <= 2),
        )

    agrees(bounded, NUMBERS)


def test_the_first_nan_is_the_place_of_the_extreme():
    def places(x, n):
        return (
            *(x.argmax(), x.argmin(1, keepdim=True), x.argmax(-1), x.argmax(keepdim=True)),
            *(x.max(0)[0], x.max(0)[1], *x.min(1, True), n.argmax(1), n.max(0)[1]),
        )

    x = torch.tensor([[1, INF, NAN, 3, NAN], [3, 2, 1, 3, -INF], [-INF] * 5])
    agrees(places, x, torch.tensor([[3, 9, 9], [1, 1, 1]]))


def test_rolls_by_any_number_of_places_and_padding_below_zero_crops():
    def moved(x, empty, image):
        return (
            *(torch.roll(x, shift, 0) for shift in (-5, -3, 0, 4, 7)),
            *(torch.roll(x, (1, 5), (0, 1)), torch.roll(x, 4), torch.roll(empty, 2, 0)),
            *(F.pad(image, (-1, 2)), F.pad(image, (1, -2, -1, -1), value=3.0)),
            F.pad(image, (-1, -1)),
            *(F.pad(image, (-1, 1), mode=mode) for mode in ("reflect", "replicate", "circular")),
        )

    agrees(moved, torch.randn(3, 4), torch.randn(0, 4), torch.randn(1, 4, 5), tolerance=0)


ROWS = torch.export.Dim("rows", min=4, max=4096)


def agrees_of_any_rows(function, tolerance=1e-5):
    """Have a program of a function give what the function gives, of several numbers of rows."""
    torch.manual_seed(0)
    first, *others = (torch.randn(rows, 6) for rows in (5, 4, 9))
    agrees(
        function,
        first,
        others=[(one,) for one in others],
        tolerance=tolerance,
        dynamic_shapes=(({0: ROWS},),),
    )


def test_slices_moves_and_masks_of_any_rows():
    def moved(x):
        y, z = x.clone(), x.clone()
        y[x > 0] = 0
        z[x[:, 0] > 0] = 1
        return (
            *(x[1:], x[:-1], x[1:] - x[:-1], x[::2], x[1:-1] + x[2:], x[-2:]),
            *(torch.cat([x[1:], x[:1]]) * x, F.pad(x, (1, -2, -1, 2)), F.pad(x, (0, 0, 1, -3))),
            *(y, z, torch.roll(x, 1, 0), torch.roll(x, -7, 0), torch.roll(x, (2, 1), (1, 0))),
        )

    agrees_of_any_rows(moved, tolerance=0)


def test_open_axes_that_become_one_axis_stay_open():
    """IREE's front end takes all but one of them for 1."""

    def joined(x):
        rows, columns = x.shape[:2]
        turned = x.transpose(0, 1)
        return (
            *(x.view(rows * columns, 8), turned.contiguous().view(rows * columns, 8)),
            *(x.view(1, rows * columns, 4, 2), x.view(rows * columns, 1, 2, 4), turned.flatten()),
            *(x.flatten(0, 1), x.reshape(rows, columns * 2, 4), turned.reshape(-1, 4)),
            *(turned.reshape(rows * columns, 2, 4), x.view(rows, 1, columns, 8)),
            *(x.flatten().view(-1, columns, 8), x.flatten().reshape(rows, -1, 2, 4)),
        )

    columns = torch.export.Dim("columns")
    agrees(
        joined,
        torch.randn(5, 4, 2, 4),
        others=[(torch.randn(rows, columns, 2, 4),) for rows, columns in ((4, 1), (9, 3))],
        tolerance=0,
        dynamic_shapes=(({0: ROWS, 1: columns},),),
    )


def test_what_data_says_the_length_of_is_as_long():
    def taken(n, x, y):
        return (
            *(torch.bincount(n, minlength=8), (n > 3).nonzero(), x[x > 0] * 2, x[x[:, 0] > 0]),
            *(y.masked_select(x[0] > 0), y[:, x > 0], y[[1], x > 0]),
        )

    torch.manual_seed(0)
    n, x, y = torch.tensor([1, 0, 5, 5, 2]), torch.randn(3, 4), torch.randn(2, 3, 4)
    others = [(torch.tensor([11, 11, 0, 0, 0]), -x, y), (n, -x.abs(), y)]
    agrees(taken, n, x, y, others=others, tolerance=0)


def test_transforms_of_lines_and_images():
    def transformed(x):
        line = torch.fft.fft(x, norm="ortho")
        return (
            *(torch.view_as_real(line), torch.fft.rfft(x).imag, torch.fft.rfft2(x).abs()),
            *(torch.fft.irfft(line, n=5, dim=0), torch.fft.hfft(line), (line * line.conj()).real),
        )

    torch.manual_seed(0)
    agrees(transformed, torch.randn(4, 6))


def test_transforms_of_any_rows():
    def transformed(x):
        return torch.fft.rfft(x).real, torch.view_as_real(torch.fft.fft(x))

    torch.manual_seed(0)
    agrees_of_any_rows(transformed, tolerance=1e-4)


def test_neither_lengths_nor_running_sums_of_exponentials_overflow():
    def computed(parts, a, b):
        number = torch.view_as_complex(parts)
        return number.abs(), number.angle(), a.logcumsumexp(0), b.logcumsumexp(0)

    parts = torch.tensor([[3.0, 4], [0, 0], [1e30, 1e30], [-INF, NAN], [NAN, 1], [0, -2]])
    large = torch.tensor([1000.0, 2, -1000, 1001, -INF, 5])
    none = torch.tensor([-INF, -INF, -1000.0, -1001, 2, INF])
    agrees(computed, parts, large, none)


ODD = torch.tensor([[1, NAN, 3, 3, -0.0], [0, -0.0, 2, NAN, INF], [1, 1, -INF, 2, 2]])


def test_sorts_and_running_extremes():
    def ordered(n, x):
        return (
            *n.sort(dim=0, stable=True, descending=True),
            *(torch.argsort(x, stable=True), *x.sort(dim=0, descending=True, stable=True)),
            *(*x.cummax(1), *n.cummin(0)),
            *((x > 0).all(dim=(0, 1)), (n > 1).any(dim=(1, 0))),
        )

    numbers = torch.tensor([[2, 0, 1, 0, 2], [0, 0, 1, 1, 2], [2, 1, 1, 0, 0]])
    agrees(ordered, numbers, ODD, tolerance=0)


def test_a_number_that_is_none_is_the_largest_of_all():
    def ordered(x, distinct):
        return (
            *(x.topk(3, sorted=False)[0].nan_to_num(9).sum(1), x.sort(0)[0], torch.msort(x)),
            *(*distinct.bfloat16().topk(2, 0, largest=False), *distinct.half().topk(2)),
            torch.argsort(distinct.double(), descending=True),
        )

    agrees(ordered, ODD, torch.tensor([[1, NAN, INF], [NAN, -1, 0], [2, -INF, 3]]), tolerance=0)


def test_rows_are_reduced_where_an_index_says():
    def reduced(x, source, index):
        ways = [(way, own) for way in ("prod", "mean", "amax", "amin") for own in (True, False)]
        return tuple(x.index_reduce(0, index, source, w, include_self=own) for w, own in ways)

    torch.manual_seed(0)
    agrees(reduced, torch.randn(5, 3), torch.randn(4, 3), torch.tensor([0, 4, 2, 0]))


def test_pooling_is_undone():
    wide, places = F.max_pool2d(torch.randn(1, 2, 4, 4), 2, return_indices=True)
    row, columns = F.max_pool1d(torch.randn(1, 2, 4), 2, return_indices=True)
    agrees(
        lambda a, i, b, j: (F.max_unpool2d(a, i, 2), F.max_unpool1d(b, j, 2)),
        *(wide, places, row, columns),
        tolerance=0,
    )


def test_a_row_that_a_mask_leaves_nothing_of_is_zero():
    def attended(*arguments):
        found = []
        for dtype in (torch.float32, torch.float64):
            q, k, v, column, full = (one.to(dtype) for one in arguments)
            found += [
                F.scaled_dot_product_attention(q, k, v, column),
                F.scaled_dot_product_attention(q, k, v, full),
                F.scaled_dot_product_attention(q, k, v, full > -1),
                F.scaled_dot_product_attention(q, k, v, is_causal=True),
            ]
        return tuple(found)

    torch.manual_seed(0)
    column, full = torch.zeros(1, 1, 5, 1), torch.zeros(1, 2, 5, 5)
    column[..., 2, :] = full[:, 1, 4] = -INF
    agrees(attended, *torch.randn(3, 1, 2, 5, 4), column, full)


def test_floats_wrap_in_narrow_integers_and_what_is_not_zero_is_counted():
    def narrowed(x, n):
        types = (torch.uint8, torch.int8, torch.int16, torch.uint32)
        return *((x * 30000).to(dtype) for dtype in types), n.count_nonzero(), n.count_nonzero(1)

    numbers = torch.tensor([[0, 1, 255], [0, 0, 7]], dtype=torch.uint8)
    agrees(narrowed, torch.tensor([0.001, 1.0, -2.0, 3.3]), numbers, tolerance=0)


def test_integers_are_negated_as_such():
    def negated(x):
        kinds = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
        return *(-x.to(kind) for kind in kinds), -x.double()

    numbers = [0, 1, 114, 128, 182, 255, -(2**15), 2**24 + 1, 2**31, -(2**31), -(2**63), 2**53 + 1]
    agrees(negated, torch.tensor(numbers), tolerance=0)


@pytest.mark.costly
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_affine", [True, False])
def test_batch_norm_is_one_multiplication_and_addition(kind, is_affine):
    norm = torch.nn.BatchNorm2d(5, affine=is_affine).to(kind).eval()
    for values in (*norm.parameters(), norm.running_mean):
        values.data = torch.randn_like(values)
    norm.running_var.data = torch.rand_like(norm.running_var) + 0.1
    x = torch.randn(2, 5, 7, 6).to(kind)
    program = ext.from_torch(norm, x)
    torch.testing.assert_close(program(x), norm(x))


def test_slices_are_scaled_to_a_norm_along_any_axis():
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    ways = ((2, 1, 0.5), (2, -1, 0.5), (float("inf"), -3, 0.1), (1, 0, 1e9))
    agrees(lambda x: tuple(torch.renorm(x, *way) for way in ways), x)


def test_a_norm_by_the_mean_square_has_the_least_epsilon_of_its_type():
    def normed(x, weight):
        return F.rms_norm(x, (1,)), F.rms_norm(x, (4, 1), weight, 1e-3)

    x = torch.tensor([0, 1e-4, -1, 3.0]).reshape(1, 4, 1)
    agrees(normed, x, torch.rand(4, 1))
    agrees(lambda x: F.rms_norm(x, (1,)), x.half(), tolerance=1e-3)  # of float32's


def test_instance_norms_are_others_before_the_compiler_sees_them():
    torch.manual_seed(0)
    tracks = torch.nn.InstanceNorm3d(3, affine=True, track_running_stats=True)
    tracks.running_mean.uniform_()
    for layer, x in (
        (torch.nn.InstanceNorm1d(8), torch.randn(2, 8, 7)),
        (torch.nn.InstanceNorm2d(4, affine=True), torch.randn(4, 7, 5)),
        (tracks, torch.randn(2, 3, 4, 5, 6)),
    ):
        agrees(layer.eval(), x)
        exported = torch.export.export(layer, (x,), strict=False)
        assert "instance_norm" not in str(replaced(exported).graph)


def test_batch_norm_in_training_takes_the_batch():
    def normed(x, mean, variance):
        return torch.nn.functional.batch_norm(x, mean, variance, training=True)

    torch.manual_seed(0)
    agrees(normed, torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3))


def test_views_of_what_has_other_strides_when_traced_anew():
    """Attention gives rows whose heads lie next to each other; its decomposition does not."""

    def attended(x, mask):
        heads = x.view(1, 6, 2, 4).transpose(1, 2)
        rows = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)
        return rows.transpose(1, 2).contiguous().view(1, 6, -1)

    agrees(attended, torch.randn(1, 6, 8), torch.zeros(1, 2, 6, 6))
