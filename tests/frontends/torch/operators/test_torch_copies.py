"""PyTorch's copies of views and scatters into them, distances and losses, beside eager PyTorch."""

from torch_agreement import agrees, torch


def test_copies_of_views_and_scatters_into_views():
    def copied(x, line):
        return (
            *(
                torch.view_copy(x, (20,)),
                torch.permute_copy(x, (1, 0)),
                torch.narrow_copy(x, 1, 2, 2),
            ),
            *(torch.as_strided_copy(x, (2, 3), (5, 2)), *torch.unbind_copy(x), torch.t_copy(x)),
            *(torch.diagonal_scatter(x, line[:3], 2), x.diagonal_scatter(line, 0, 1, 0)),
            *(torch.as_strided_scatter(x, line, (4,), (5,), 1), torch.put(x, line.long(), line)),
            torch.put(x, torch.tensor([0, -1, 0, 3]), line, accumulate=True),
        )

    agrees(copied, torch.randn(4, 5), torch.arange(4.0))


def test_reductions_of_what_has_no_axes():
    def reduced(x):
        return (
            *(x.amax(0), x.amin(-1, keepdim=True), x.argmax(), x.argmin(0), x.any(0), x.all(0)),
            *(torch.count_nonzero(x, 0), *x.max(0), *x.min(0, keepdim=True), x.prod(0)),
        )

    agrees(reduced, torch.tensor(2.5), others=[(torch.tensor(0.0),)])


def test_images_are_cropped_and_padded_by_copies_at_once():
    def padded(x):
        modes = ("constant", "replicate")
        return tuple(torch.nn.functional.pad(x, (-4, 5, 2, -1), mode) for mode in modes)

    agrees(padded, torch.randn(2, 3, 4, 4))


def test_distances_and_losses_of_all_norms():
    functional = torch.nn.functional

    def distances(a, b, target):
        return (
            *(torch.cdist(a, b, p) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))),
            *(torch.nn.functional.pdist(a, p) for p in (0.0, 2.0, 1.5, float("inf"))),
            *(torch.dist(a, a.flip(0), p) for p in (1, 2, 4)),
            functional.hinge_embedding_loss(a, target.unsqueeze(1).expand(a.shape)),
            functional.cosine_embedding_loss(a, a.flip(0), target, 0.3, reduction="none"),
            *(torch.addmv(target, a, b[0], beta=0, alpha=2), torch.addmv(target, a, b[0], beta=3)),
        )

    target = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0])
    agrees(distances, torch.randn(5, 3), torch.randn(4, 3), target)


def test_bools_are_ordered_as_zero_and_one():
    def ordered(x):
        return (*x.max(1), *x.min(0), torch.sort(x, 1)[0])

    agrees(ordered, torch.tensor([[True, False, True, False], [False, True, True, False]]))
