"""Small networks with values of every display kind: signals, attention, classes, vectors."""

from collections.abc import Iterator

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from nbglcnn import Plan


class SignalClassifier(nn.Module):
    """A 1-D convolution of two channels, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(2, 6, 5, padding=2), nn.BatchNorm1d(6), nn.ReLU(), nn.MaxPool1d(2)
        )
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean(-1))


class AttentionBlock(nn.Module):
    """A transformer block whose softmax and dropout are modules."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.weights, self.drop = nn.Softmax(-1), nn.Dropout(0.1)
        self.proj, self.mlp = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        parts = self.qkv(self.norm(x)).reshape(n, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        weights = self.drop(self.weights(q @ k.transpose(-2, -1)))
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(n, tokens, width))
        return x + functional.gelu(self.mlp(x))


class ViT(nn.Module):
    """A ViT: patches of 8×8, preceded by a class token, and two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.class_token = nn.Conv2d(3, 16, 8, 8), nn.Parameter(torch.randn(1, 1, 16))
        self.blocks = nn.Sequential(AttentionBlock(16, 2), AttentionBlock(16, 2))
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patch(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), patches], 1)
        return self.head(self.blocks(tokens)[:, 0])


class Segmenter(nn.Module):
    """Segments into five classes at half the size, enlarged to the input's."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.norm = nn.Conv2d(3, 8, 3, 2, 1), nn.InstanceNorm2d(8)
        self.head = nn.Conv2d(8, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(self.norm(self.down(x)))
        return functional.interpolate(y, size=x.shape[-2:], mode="bilinear")


def plans_with_damaged_tokens(plan: Plan) -> Iterator[Plan]:
    """Yield the Plan of a `ViT` with invalid tokens."""
    [tokens] = plan.header.tokens
    for one in (
        (msgspec.structs.replace(tokens, input="y"),),
        (msgspec.structs.replace(tokens, positions=(4, *tokens.positions[1:])),),
        (msgspec.structs.replace(tokens, positions=tokens.positions[1:]),),
        (),
    ):
        header = msgspec.structs.replace(plan.header, tokens=one)
        yield Plan(header, plan.uniforms, plan.blobs)
