"""A policy chooses every block size: another policy changes the textures, but no number."""

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Session
from nbglcnn.codegen.builder import Builder


class EveryBlockOperator(nn.Module):
    """Every operator that requests a block and so writes a texture in a new layout."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 5, 3, padding=1), nn.ConvTranspose2d(5, 6, 3, stride=2)
        self.grouped, self.linear = nn.Conv2d(6, 6, 3, groups=2), nn.Linear(6, 7)
        self.volume = nn.Conv3d(3, 4, 3)

    def forward(self, x):
        up = self.up(nn.functional.pad(self.conv(x).relu(), (1, 2, 0, 1)))
        large = nn.functional.interpolate(self.grouped(up), scale_factor=1.5, mode="bilinear")
        volume = nn.functional.max_pool3d(self.volume(torch.stack([x, x + 1, x * x], 2)), (1, 2, 2))
        vectors = self.linear(up.mean((2, 3)))
        attention = torch.matmul(large, large.transpose(2, 3)).softmax(-1)
        picked = x[:, :, ::2].gather(3, torch.arange(4).expand(len(x), 3, 1, 4))
        return (
            torch.cat([vectors.flatten(1), volume.flatten(1), attention.flatten(1)], 1),
            torch.cat([attention, large], 3).topk(3, -1)[0],
            picked.roll(1, 3),
            (vectors.T @ vectors).triu(1),
        )


def one_pixel_blocks(self, frame, *, slices=False):
    return (1, 1, 1)


def image_blocks(self, frame, *, slices=False):
    return (4, 1, 1)


def line_blocks(self, frame, *, slices=False):
    return (1, 1, 4)


@pytest.mark.parametrize("policy", [None, one_pixel_blocks, image_blocks, line_blocks])
def test_operators_lie_in_the_blocks_of_one_policy(monkeypatch, policy):
    torch.manual_seed(0)
    model = EveryBlockOperator().eval()
    x = np.random.default_rng(0).standard_normal((2, 3, 12, 13)).astype(np.float32)
    blocks = set()
    made = Builder.create_scratch_tensor

    def noted(self, layout, copied=None):
        blocks.add(layout.block)
        return made(self, layout, copied)

    monkeypatch.setattr(Builder, "create_scratch_tensor", noted)
    if policy is not None:
        monkeypatch.setattr(Builder, "choose_block", policy)
    plan = nbglcnn.compile(model, x)
    with torch.no_grad():
        expected = model(torch.from_numpy(x))
    with Session(plan) as session:
        values = session.run(x)
    for key, value in zip(plan.header.outputs, expected, strict=True):
        assert_equal(values[key], value.numpy())
    if policy is None:
        assert blocks >= {(1, 2, 2), (1, 1, 4), (1, 4, 1), (2, 1, 1)}
    else:
        own = {(1, 1, 1), (1, 1, 4)}  # a product's columns; elementwise reads
        assert blocks <= {policy(None, None), *own}
