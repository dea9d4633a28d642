"""Einsum, decomposed into sums, products and transpositions."""

import torch
from torch import Tensor, nn

from cases.case import Case, module, node


class Attention(nn.Module):
    """Attention with two heads, written with einsum as in papers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Conv2d(6, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        n, _, h, w = x.shape
        q, k, v = self.qkv(x).view(n, 3, 2, 4, h * w).unbind(1)
        weights = torch.einsum("nhci,nhcj->nhij", q, k).softmax(-1)
        return torch.einsum("nhij,nhcj->nhci", weights, v).reshape(n, 8, h, w)


def einsum_case(equation: str, *shapes: tuple[int, ...]) -> Case:
    return node(f"Einsum {equation}", "Einsum", list(shapes), equation=equation)


CASES: list[Case] = [
    einsum_case("ij,jk->ik", (3, 5), (5, 7)),
    einsum_case("nchw, oc -> nohw", (2, 5, 3, 4), (6, 5)),
    einsum_case("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    einsum_case("...ij,...jk", (2, 3, 4), (4, 5)),
    einsum_case("...ij,...jk->k...i", (2, 1, 3, 4), (3, 4, 5)),
    einsum_case("nchw->nc", (2, 3, 4, 5)),
    einsum_case("abc->cba", (2, 3, 4)),
    einsum_case("ba", (2, 3)),
    einsum_case("i,j->ij", (4,), (3,)),
    einsum_case("i,i->", (9,), (9,)),
    einsum_case("ni,nj,nk->nijk", (2, 3), (2, 4), (2, 5)),
    einsum_case("ab,bc,cd->ad", (3, 4), (4, 5), (5, 6)),
    einsum_case("abx,bcy->c", (3, 4, 2), (4, 5, 3)),
    einsum_case("nchw,nchw->nhw", (2, 5, 3, 4), (2, 5, 3, 4)),
    module("attention by einsum", Attention, (2, 6, 3, 4)),
]
