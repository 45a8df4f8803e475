"""Bits of integers with numbers, and loops whose end the data says, from PyTorch."""

import torch
from torch_agreement import agrees


def test_bits_of_integers_with_numbers_and_common_divisors():
    def of_integers(a, b):
        return (
            *(a & 6, a | 3, a ^ 5, a & b, torch.bitwise_or(3, a), torch.gcd(a, b)),
            *(torch.lcm(a, b), torch.gcd(a, a[:1])),
        )

    a, b = torch.randint(-99, 99, (2, 60), generator=torch.Generator().manual_seed(0))
    a[:3], b[1:5] = 0, 0
    agrees(of_integers, a, b)
    fibonacci = torch.tensor([7540113804746346429]), torch.tensor([4660046610375530309])
    agrees(torch.gcd, *fibonacci)
    agrees(
        lambda a, b: (torch.gcd(a.t(), b), torch.pow(b, a.t() & 3)), a.view(6, 10), b.view(10, 6)
    )
