"""Networks whose values have ranks from 0 to 6, built from modules and functions."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

MAX_ELEMENTS = 3000  # per value
Step = Callable[[Tensor], Tensor]
StepChoice = tuple[int, int]  # index of the step, and of its variant


def divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]


class PerHeadAttention(nn.Module):
    """Self-attention with weights per head, as commonly written."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * 0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(n, tokens, width)


class TorchAttention(nn.Module):
    """PyTorch's own attention, which also returns the weights of each head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y, weights = self.attention(x, x, x, average_attn_weights=False)
        return y + weights.mean()


def any_rank_modules(x: Tensor, variant: int) -> list[nn.Module]:
    last = x.shape[-1] if x.dim() else 1
    modules: list[nn.Module] = [
        nn.ReLU(), nn.Sigmoid(), nn.GELU(), nn.Tanh(), nn.Identity(), nn.Dropout(), nn.Softplus(),
        nn.Hardswish(), nn.SiLU(), nn.ELU(),
    ]  # fmt: skip
    if x.dim():
        modules += [nn.Linear(last, 1 + variant % 9), nn.LayerNorm(last), nn.Softmax(-1)]
    if x.dim() > 1:
        modules += [nn.Flatten(), nn.PReLU(x.shape[1]), nn.Softmax(variant % x.dim())]
    return modules


def map_modules(x: Tensor, variant: int) -> list[nn.Module]:
    """Modules that need a channel axis and one to three spatial axes."""
    rank = x.dim() - 2
    if not 1 <= rank <= 3 or math.prod(x.shape[2:]) < 2:
        return []
    c = x.shape[1]
    after, groups = 1 + variant % 7, divisors(c)[variant % len(divisors(c))]
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
    norm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[rank - 1]
    mean = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[rank - 1]
    most = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[rank - 1]
    each = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[rank - 1]
    modules = [
        conv(c, after, 3, padding=1), conv(c, after, 1), conv(c, c, 3, padding=1, groups=groups),
        norm(c), each(c, affine=True), nn.GroupNorm(groups, c), mean(3, 1, 1), most(3, 1, 1),
    ]  # fmt: skip
    if rank < 3:
        up = (nn.ConvTranspose1d, nn.ConvTranspose2d)[rank - 1]
        pooled = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)[rank - 1]
        modules += [up(c, after, 4, 2, 1), pooled(2), nn.Upsample(scale_factor=2)]
    if rank == 2:
        modules += [nn.LocalResponseNorm(2), nn.Softmax2d(), nn.ReflectionPad2d(0)]
        modules += [nn.PixelShuffle(2)] if c % 4 == 0 else []
    if rank == 1:
        heads = divisors(x.shape[2])
        count = heads[variant % len(heads)]
        modules += [PerHeadAttention(x.shape[2], count), TorchAttention(x.shape[2], count)] * 2
        modules += [nn.BatchNorm1d(c)]
    return modules


def split_into_factors(number: int, rank: int, variant: int) -> list[int]:
    sizes = []
    for left in range(rank - 1, 0, -1):
        each = divisors(number)
        size = each[(variant + left) % len(each)]
        variant //= 2
        sizes.append(size)
        number //= size
    return [*sizes, number]


def rank_functions(x: Tensor, variant: int) -> list[Step]:
    """Functions rather than modules: views into any rank, products and sums."""
    rank, numbers = x.dim(), x.numel()
    found: list[Step] = [lambda x: x * 0.5, lambda x: x + x.mean(), lambda x: x.unsqueeze(0)]
    for to in range(1, 7):
        sizes = split_into_factors(numbers, to, variant)
        found.append(lambda x, sizes=tuple(sizes): x.reshape(sizes))
        if rank and x.shape[0] > 1 and to > 1:
            kept = [x.shape[0], *split_into_factors(numbers // x.shape[0], to - 1, variant)]
            found.append(lambda x, sizes=tuple(kept): x.reshape(sizes))
    if rank > 1:
        orders = list(itertools.islice(itertools.permutations(range(rank)), 1, 24))
        order = orders[variant % len(orders)]
        axis = variant % rank
        found += [
            lambda x: x.permute(order), lambda x: x.sum(axis), lambda x: x.amax(axis, True),
            lambda x: x @ x.transpose(-1, -2), lambda x: (x @ x.transpose(-1, -2)).softmax(-1),
            lambda x: x.select(axis, 0), lambda x: x.narrow(axis, 0, 1), lambda x: x.squeeze(),
            lambda x: torch.cat([x, x.neg()], axis),
        ]  # fmt: skip
    return found


class StepNetwork(nn.Module):
    """A chain of steps; it also outputs some intermediate values, and a scalar."""

    def __init__(self, x: Tensor, choices: Sequence[StepChoice]) -> None:
        super().__init__()
        self.parts = nn.ModuleList()
        self.steps: list[Step | int] = []
        with torch.no_grad():
            for which, variant in choices:
                modules = [*any_rank_modules(x, variant), *map_modules(x, variant) * 2]
                made = [*modules, *rank_functions(x, variant)]
                step = made[which % len(made)]
                try:
                    y = step.eval()(x) if isinstance(step, nn.Module) else step(x)
                except (
                    RuntimeError,
                    ValueError,
                ):  # a window larger than the map, one value a channel
                    continue
                if not 0 < y.numel() <= MAX_ELEMENTS or y.dim() > 6:
                    continue
                x = y
                if isinstance(step, nn.Module):
                    self.parts.append(step)
                    self.steps.append(len(self.parts) - 1)
                else:
                    self.steps.append(step)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        scalar = x.mean()
        for step in self.steps:
            x = self.parts[step](x) if isinstance(step, int) else step(x)
        return x, scalar + x.amax()
