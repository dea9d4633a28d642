"""Small networks that move and join numbers: a ViT with a class token, a Swin, gates."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """Self-attention written with basic operators."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        parts = self.qkv(x).reshape(n, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, tokens, width))


class EncoderBlock(nn.Module):
    """A ViT block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), SelfAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ClassTokenViT(nn.Module):
    """A ViT of 3×3 patches after a class token, with learned positions and two blocks."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width) / 5)
        self.places = nn.Parameter(torch.randn(1, 10, width) / 5)
        self.blocks = nn.Sequential(EncoderBlock(width, heads), EncoderBlock(width, heads))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], dim=1) + self.places
        return self.head(self.norm(self.blocks(tokens))[:, 0])


class TorchAttentionNet(nn.Module):
    """The same with PyTorch's own attention, whose tokens come before the batch axis."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8) / 20)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], dim=1)
        normed = self.norm(tokens)
        tokens = tokens + 4 * self.attention(normed, normed, normed, need_weights=False)[0]
        return self.head(tokens[:, 0])


class WindowAttention(nn.Module):
    """Shifted-window attention as in Swin, with a bias for each pair of positions."""

    def __init__(self, width: int = 8, heads: int = 2, side: int = 2) -> None:
        super().__init__()
        self.heads, self.side, self.width = heads, side, width
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * side - 1) ** 2, heads))
        places = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij"))
        flat = places.flatten(1)
        apart = (flat[:, :, None] - flat[:, None, :] + side - 1).permute(1, 2, 0)
        self.register_buffer("pairs", apart[..., 0] * (2 * side - 1) + apart[..., 1])

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        side, tokens = self.side, self.side**2
        x = torch.roll(x, (-1, -1), (1, 2))
        x = x.view(n, h // side, side, w // side, side, c).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(-1, tokens, c)
        parts = self.qkv(x).reshape(len(x), tokens, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.pairs.flatten()].view(tokens, tokens, -1).permute(2, 0, 1)
        scores = q @ k.transpose(-2, -1) + bias.unsqueeze(0)
        x = self.proj((functional.softmax(scores, -1) @ v).transpose(1, 2).reshape(-1, tokens, c))
        x = x.view(n, h // side, w // side, side, side, c).permute(0, 1, 3, 2, 4, 5)
        return torch.roll(x.reshape(n, h, w, c), (1, 1), (1, 2)).mean((1, 2))


class GatedNet(nn.Module):
    """Squeeze-and-excitation, and every other way to move or join numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.squeeze = nn.Conv2d(3, 8, 3, padding=1), nn.AdaptiveAvgPool2d(1)
        self.excite, self.gate = nn.Conv2d(8, 8, 1), nn.Sigmoid()
        self.line, self.flat = nn.AdaptiveAvgPool1d(1), nn.Flatten()
        self.shuffle = nn.PixelShuffle(2)
        self.register_buffer("scale", torch.rand(8, 1, 1) + 0.5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = self.conv(x)
        gated = maps * self.gate(self.excite(self.squeeze(maps)))
        first, second = gated.chunk(2, dim=1)
        stacked = torch.stack([first, second], dim=2)
        shuffled = stacked.flatten(1, 2)
        turned = shuffled.permute(0, 2, 3, 1)
        chosen = turned.select(2, 3)
        some = shuffled[:, [5, 0, 3], 1:, ::2]
        joined = torch.cat([first, second * 2 - first], dim=-1)
        rolled = torch.roll(joined, 2, 3).flip(2)
        ratio = maps / (gated.abs() + self.scale)
        larger = torch.maximum(first, second)
        masked = torch.where(first > second, first, -second)
        cut = functional.pad(maps, (-1, -1, -2, 0))
        grown = self.shuffle(maps)
        repeated = second[:, :1].expand(-1, 4, -1, -1) - larger.repeat(1, 1, 1, 1)
        return {
            "chosen": chosen, "some": some, "rolled": rolled, "ratio": ratio, "masked": masked,
            "cut": cut, "grown": grown, "repeated": repeated,
            "line": self.flat(self.line(maps.flatten(2))), "total": turned.sum(1),
            "most": turned.amax((1, 2)), "deep": turned.mean(-1), "power": first.abs() ** larger,
        }  # fmt: skip


class FunctionModule(nn.Module):
    """A function as a module: one layer of any number of operators."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: Tensor) -> Tensor:
        return self.function(*x)


MOVING_FUNCTIONS = {
    "shuffle": lambda x: x.unflatten(1, (2, 4)).transpose(1, 2).flatten(1, 2),
    "parts": lambda x: x.unflatten(3, (2, 4)).permute(0, 2, 3, 1, 4)[:, 1].flip(1),
    "stacked": lambda x: torch.stack([x, x.flip(3)], 2).flatten(1, 2),
    "rolled": lambda x: torch.roll(x, (2, -1), (2, 3)),
    "tokens": lambda x: x.flatten(2).transpose(1, 2) @ x.flatten(2),
    "shares": lambda x: x.flatten(2).transpose(1, 2).softmax(-1).transpose(1, 2),
    "scaled": lambda x: (x.mean((2, 3), keepdim=True).transpose(0, 0) * x).permute(0, 2, 3, 1),
    "product": lambda x: (x.transpose(2, 3).flatten(2) * x.flatten(2)).unflatten(2, (8, 6)),
    "crossed": lambda x: torch.cat([x.transpose(1, 2), x.flip(1)[:, :6, :8]], 2),
    "means": lambda x: x.permute(0, 2, 3, 1).mean(1),
}  # fmt: skip


class MovingLayers(nn.Module):
    """Modules of one layer each; all but at most one of a layer's operators only move numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({k: FunctionModule(one) for k, one in MOVING_FUNCTIONS.items()})
        self.mha = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        found = {name: part(x) for name, part in self.parts.items()}
        tokens = x.flatten(2).transpose(1, 2)
        return {**found, "attended": self.mha(tokens, tokens, tokens, need_weights=False)[0]}
