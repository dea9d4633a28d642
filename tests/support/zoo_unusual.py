"""Modules as found in the wild: reused, sharing weights, oddly named, functional, in-place."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ReusedModules(nn.Module):
    """One block called three times, one ReLU in four places, a decoder with the encoder's kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv2d(3, 6, 3, padding=1)
        self.act = nn.ReLU()
        self.block = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), self.act)
        self.again = self.block
        self.bias = nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.start(x))
        for _ in range(2):
            x = self.block(x)
        x = self.again(x)
        return F.conv_transpose2d(x, self.start.weight, self.bias, padding=1)


class SharedWeights(nn.Module):
    """A Siamese pair: two convolutions that share a kernel, and their two embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 5, 3), nn.Conv2d(3, 5, 3)
        self.right.weight = self.left.weight
        self.head = nn.Linear(5, 4)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        u = self.head(self.left(a).mean((2, 3)))
        v = self.head(self.right(b).mean((2, 3)))
        return F.cosine_similarity(u, v)


class OddlyNamed(nn.Module):
    """Submodules whose names are attributes of other objects."""

    def __init__(self) -> None:
        super().__init__()
        for name, module in {
            "code": nn.Conv2d(2, 4, 3),
            "input": nn.BatchNorm2d(4),
            "0": nn.ReLU(),
            "output": nn.Conv2d(4, 4, 1),
            "x": nn.Sigmoid(),
            "model": nn.Sequential(nn.Conv2d(4, 3, 1), nn.Tanh()),
            "self": nn.Identity(),
            "graph": nn.Conv2d(3, 3, 1),
        }.items():
            self.add_module(name, module)

    def forward(self, input: Tensor) -> Tensor:
        x = input
        for _, child in self.named_children():
            x = child(x)
        return x


class TwoConvolutions(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(c, 4, 3, padding=1), nn.Conv2d(c, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return self.a(x), {"one by one": self.b(x), "twice": self.b(x) * 2}


class NestedOutputs(nn.Module):
    """Modules that return nested tuples, dicts and lists; some are used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = TwoConvolutions(3)
        self.heads = nn.ModuleDict({"edge": nn.Conv2d(4, 1, 3), "class": nn.Conv2d(4, 2, 1)})

    def forward(self, x: Tensor) -> dict[str, Any]:
        a, rest = self.pair(x)
        joined = a + rest["one by one"] - rest["twice"]
        heads = [head(joined) for head in self.heads.values()]
        return {"heads": heads, "features": {"raw": a, "sum": joined}, "pooled": (a.mean((2, 3)),)}


class FunctionalNet(nn.Module):
    """No layers, only functions and parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(6, 3, 3, 3) / 5)
        self.scale = nn.ParameterList(nn.Parameter(torch.rand(6) + 0.5) for _ in range(2))
        self.register_buffer("mean", torch.randn(6) / 5)
        self.register_buffer("variance", torch.rand(6) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (1, 2, 0, 1), mode="replicate")
        x = F.conv2d(x, self.kernel, stride=(1, 2), dilation=(2, 1), padding=2)
        x = F.batch_norm(x, self.mean, self.variance, self.scale[0], None, False)
        x = F.silu(F.avg_pool2d(x, 3, 1, padding=1)) + F.max_pool2d(x, 3, 1, 1)
        x = F.normalize(x, dim=1) * self.scale[1].view(1, -1, 1, 1)
        a, b = x.split([2, 4], dim=1)
        x = torch.cat([F.glu(b, dim=1), torch.where(a > 0.1, a, a.abs() * 0.5)], dim=1)
        x = torch.stack([x, x.flip(3), x.roll(1, 2)]).amax(0)
        x = F.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=False)
        x = torch.einsum("nchw,oc->nohw", x, self.kernel[:5, :, 0, 0].repeat(1, 2)[:, :4])
        return F.pixel_unshuffle(x[..., :14, :10], 2).clamp(-2, 2)


class InPlaceNet(nn.Module):
    """Values modified in place after their creation: hooks see them as at the call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.act = nn.LeakyReLU(0.1, inplace=True)
        self.last = nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.conv(x))
        y[:, 1] = 0
        y[:, :, 2:4] *= 2
        z = self.last(y)
        z += y
        z.add_(1).mul_(0.5).clamp_(min=-0.5)
        y = y.masked_fill(y > 1, 1)
        return z - y


class SegNet(nn.Module):
    """Max-pooling indices, kept and used for unpooling."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 3, 3, padding=1)
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.down(x))
        pooled, places = self.pool(y)
        return self.up(self.unpool(pooled.tanh(), places, output_size=y.shape))


class Codebook(nn.Module):
    """A VQ-VAE's bottleneck: the nearest of eleven vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.codes = nn.Conv2d(3, 5, 4, 4), nn.Embedding(11, 5)
        self.decoder = nn.ConvTranspose2d(5, 3, 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        z = self.encoder(x)
        n, c, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, c)
        nearest = torch.cdist(flat, self.codes.weight).argmin(1)
        return self.decoder(self.codes(nearest).view(n, h, w, c).permute(0, 3, 1, 2))


class SpatialTransformer(nn.Module):
    """A spatial transformer: the picture is warped by a predicted affine map."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(1, 4, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.turn = nn.Linear(16, 6)
        self.see = nn.Conv2d(1, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        theta = self.turn(self.look(x)).view(-1, 2, 3) + torch.eye(2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return self.see(F.grid_sample(x, grid, align_corners=False))


class PatchTransformer(nn.Module):
    """A small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 12, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 12))
        self.places = nn.Parameter(torch.randn(1, 13, 12) / 5)
        self.layer = nn.TransformerEncoderLayer(12, 3, 20, 0.1, batch_first=True, norm_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.layer(x)[:, 0])


class ModulatedConv(nn.Module):
    """StyleGAN2's convolution: a style modulates the kernel for each image of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.style = nn.Linear(7, 4)
        self.weight = nn.Parameter(torch.randn(6, 4, 3, 3) / 6)

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        n, c, h, width = x.shape
        weight = self.weight[None] * (self.style(w) + 1).view(n, 1, c, 1, 1)
        weight = weight * (weight.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
        x = F.conv2d(x.reshape(1, n * c, h, width), weight.flatten(0, 1), padding=1, groups=n)
        return F.leaky_relu(x.view(n, 6, h, width), 0.2) * 2**0.5


UNUSUAL_NETWORKS = {
    "reused": (ReusedModules, ((2, 3, 9, 8),)),
    "shared": (SharedWeights, ((2, 3, 9, 8), (2, 3, 7, 10))),
    "named": (OddlyNamed, ((1, 2, 7, 9),)),
    "containers": (NestedOutputs, ((1, 3, 6, 5),)),
    "functional": (FunctionalNet, ((2, 3, 9, 11),)),
    "in place": (InPlaceNet, ((1, 3, 9, 8),)),
    "segnet": (SegNet, ((1, 3, 9, 8),)),
    "codebook": (Codebook, ((2, 3, 12, 16),)),
    "spatial transformer": (SpatialTransformer, ((2, 1, 17, 15),)),
    "vision transformer": (PatchTransformer, ((2, 3, 12, 16),)),
    "modulated": (ModulatedConv, ((2, 4, 7, 6), (2, 7))),
}
