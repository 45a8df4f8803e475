"""PyTorch's order statistics, searches and counts, beside eager PyTorch."""

from torch_agreement import agrees, torch

F = torch.nn.functional
NAN = float("nan")


def test_medians_quantiles_and_modes_with_and_without_missing_numbers():
    def statistics(x, whole, place):
        return (
            *(*torch.median(x, 1), *torch.nanmedian(x, 0), torch.median(x), torch.nanmedian(x)),
            *(*torch.mode(whole, 1), *torch.kthvalue(x, 2, 1, keepdim=True), torch.median(place)),
            *(torch.quantile(x, 0.3, 1), torch.nanquantile(x, torch.tensor([0.0, 0.4, 1.0]), 0)),
            *(torch.quantile(x[0], 0.35, interpolation="nearest"), *torch.median(whole, 0)),
        )

    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    x[1, 2], x[3, 1:6] = NAN, NAN
    whole = torch.tensor([[3, 1, 3, 1, 2], [7, 7, 7, 0, 0], [4, 3, 2, 1, 0]])
    agrees(statistics, x, whole, torch.tensor(2.5))


def test_searches_find_both_sides_and_place_what_is_no_number_last():
    def searched(lines, values, line):
        return (
            *(torch.searchsorted(lines, values), torch.searchsorted(lines, values, right=True)),
            *(torch.bucketize(values, line, out_int32=True), torch.isin(values, line)),
            *(torch.isin(values, line, invert=True), torch.histc(line, 4, 0, 3)),
        )

    line = torch.tensor([0.0, 1, 1, 1, 2.5, 3, 3])
    values = torch.tensor([[1.0, 0.5, 3.0, 9.0], [-1.0, NAN, 2.5, 2.0]])
    agrees(searched, torch.stack((line, line * 2)), values, line)


def test_histograms():
    def counted(x, weight, bounds):
        return (
            *(*torch.histogram(x, 10), *torch.histogram(x, 7, range=(-1.0, 1.5))),
            *(*torch.histogram(x, 5, weight=weight, density=True), *torch.histogram(x * 0, 4)),
            *(*torch.histogram(x, bounds), *torch.histogram(x, bounds, weight=weight)),
        )

    torch.manual_seed(0)
    agrees(counted, torch.randn(7, 30), torch.rand(7, 30), torch.tensor([-2.0, -1, 0, 0.5, 3]))


def test_unique_ones_are_as_many_as_data_says():
    def unique(x):
        return torch.unique(x, return_inverse=True, return_counts=True)

    def neighbours(x):
        return torch.unique_consecutive(x, return_inverse=True, return_counts=True)

    x, other = torch.tensor([3, 1, 3, 3, 2, 1]), torch.tensor([5, 5, 5, 5, 5, 5])
    agrees(unique, x, others=[(other,)])
    agrees(neighbours, x, others=[(other,)])


def test_what_looks_at_its_numbers_while_it_is_traced():
    def covariances(x, counts, worth):
        return (
            *(torch.cov(x), x.cov(correction=0), torch.cov(x[0]), torch.cov((x * 9).long())),
            *(torch.cov(x, fweights=counts, correction=2), torch.cov(x, aweights=worth)),
            *(torch.cov(x, fweights=counts, aweights=worth), torch.corrcoef(x), x[0].corrcoef()),
        )

    def losses(mean, target, variance):
        return (
            F.gaussian_nll_loss(mean, target, variance, full=True),
            F.gaussian_nll_loss(mean, target, variance[:, 0], reduction="none"),
            F.gaussian_nll_loss(mean, target, 0.5, reduction="sum"),
        )

    def chosen(x):
        return torch.combinations(x), torch.combinations(x, 3, True), torch.combinations(x, 0)

    torch.manual_seed(0)
    x = torch.randn(4, 5)
    agrees(covariances, x, torch.tensor([1, 2, 1, 1, 3]), torch.rand(5))
    agrees(losses, x, 2 * x, x.abs())
    agrees(chosen, x[0].clone())
    agrees(lambda x, start: torch.narrow(x, 1, start, 2), x, torch.tensor(2))
