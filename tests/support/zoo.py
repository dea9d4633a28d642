"""Common architectures in plain torch, small, each with its input shapes."""

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo_unusual import UNUSUAL_NETWORKS


def conv_bn(
    i: int, o: int, k: int = 3, s: int = 1, act: nn.Module | None = None, **kw
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(i, o, k, s, kw.pop("padding", k // 2), bias=False, **kw),
        nn.BatchNorm2d(o),
        *([act] if act is not None else []),
    )


class BasicBlock(nn.Module):
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        self.downsample = None
        if stride != 1 or i != o:
            self.downsample = nn.Sequential(
                nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for k in range(4):
            i, o = width * 2 ** max(k - 1, 0), width * 2**k
            setattr(
                self,
                f"layer{k + 1}",
                nn.Sequential(BasicBlock(i, o, 1 if k == 0 else 2), BasicBlock(o, o, 1)),
            )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width * 8, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def autoencoder() -> nn.Module:
    model = nn.Sequential()
    model.encoder = nn.Sequential(
        nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 10, 3, 2, 1), nn.ReLU(), nn.Conv2d(10, 5, 7),
    )  # fmt: skip
    model.decoder = nn.Sequential(
        nn.ConvTranspose2d(5, 10, 7), nn.ReLU(),
        nn.ConvTranspose2d(10, 6, 3, 2, 1, output_padding=1), nn.ReLU(),
        nn.ConvTranspose2d(6, 1, 3, 2, 1, output_padding=1), nn.Sigmoid(),
    )  # fmt: skip
    return model


class UNet(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        w = width
        self.down1, self.down2 = self._double_conv(3, w), self._double_conv(w, 2 * w)
        self.middle = self._double_conv(2 * w, 4 * w)
        self.up2, self.up1 = (
            nn.ConvTranspose2d(4 * w, 2 * w, 2, 2),
            nn.Upsample(scale_factor=2, mode="bilinear"),
        )
        self.join2, self.join1 = self._double_conv(4 * w, 2 * w), self._double_conv(3 * w, w)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Conv2d(w, 3, 1)

    @staticmethod
    def _double_conv(i: int, o: int) -> nn.Sequential:
        return nn.Sequential(*conv_bn(i, o, act=nn.ReLU()), *conv_bn(o, o, act=nn.ReLU()))

    def forward(self, x: Tensor) -> Tensor:
        a = self.down1(x)
        b = self.down2(self.pool(a))
        y = self.middle(self.pool(b))
        y = self.join2(torch.cat([b, self.up2(y)], 1))
        y = self.join1(torch.cat([a, self.up1(y)], 1))
        return torch.sigmoid(self.head(y))


class Pix2Pix(nn.Module):
    """The U-Net-256 generator down to 1×1, with `levels` downsampling steps."""

    def __init__(self, width: int = 4, levels: int = 6) -> None:
        super().__init__()
        sizes = [min(width * 2**k, width * 8) for k in range(levels)]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for k, o in enumerate(sizes):
            i = 3 if k == 0 else sizes[k - 1]
            norm = [nn.BatchNorm2d(o)] if 0 < k < levels - 1 else []
            self.down.append(
                nn.Sequential(
                    nn.LeakyReLU(0.2) if k else nn.Identity(), nn.Conv2d(i, o, 4, 2, 1), *norm
                )
            )
        for k in reversed(range(levels)):
            i = sizes[k] * (1 if k == levels - 1 else 2)
            o = 3 if k == 0 else sizes[k - 1]
            norm = [nn.BatchNorm2d(o), nn.Dropout(0.5)] if k else [nn.Tanh()]
            self.up.append(nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(i, o, 4, 2, 1), *norm))

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        for k, up in enumerate(self.up):
            x = up(x if k == 0 else torch.cat([x, skips[-1 - k]], 1))
        return x


class InvertedResidual(nn.Module):
    def __init__(self, i: int, o: int, stride: int, expand: int) -> None:
        super().__init__()
        e = i * expand
        self.use = stride == 1 and i == o
        first = [*conv_bn(i, e, 1, act=nn.ReLU6())] if expand != 1 else []
        self.conv = nn.Sequential(
            *first,
            *conv_bn(e, e, 3, stride, nn.ReLU6(), groups=e),
            nn.Conv2d(e, o, 1, bias=False),
            nn.BatchNorm2d(o),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use else self.conv(x)


class MobileNetV2(nn.Module):
    SETTING = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self, scale: float = 1.0, classes: int = 1000) -> None:
        super().__init__()

        def size(c: int) -> int:
            return max(4, int(c * scale))

        parts: list[nn.Module] = [conv_bn(3, size(32), 3, 2, nn.ReLU6())]
        i = size(32)
        for expand, o, count, stride in self.SETTING:
            for k in range(count):
                parts.append(InvertedResidual(i, size(o), stride if k == 0 else 1, expand))
                i = size(o)
        parts.append(conv_bn(i, size(1280), 1, act=nn.ReLU6()))
        self.features = nn.Sequential(*parts)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(size(1280), classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class SqueezeExcite(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, max(1, c // 4), 1), nn.Conv2d(max(1, c // 4), c, 1)

    def forward(self, x: Tensor) -> Tensor:
        s = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(s))))


class MobileNetV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(3, 8, 3, 2, nn.Hardswish()),
            conv_bn(8, 24, 1, act=nn.Hardswish()),
            conv_bn(24, 24, 5, 2, nn.Hardswish(), groups=24),
            SqueezeExcite(24),
            conv_bn(24, 12, 1),
        )
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(12, 20),
            nn.Hardswish(),
            nn.Linear(20, 7),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Fire(nn.Module):
    def __init__(self, i: int, s: int, e: int) -> None:
        super().__init__()
        self.squeeze, self.one, self.three = (
            nn.Conv2d(i, s, 1),
            nn.Conv2d(s, e, 1),
            nn.Conv2d(s, e, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)


def squeezenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(16, 6, 10), Fire(20, 6, 10),
        nn.MaxPool2d(3, 2, ceil_mode=True), Fire(20, 8, 12), nn.Dropout(), nn.Conv2d(24, 10, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class DenseBlock(nn.Module):
    def __init__(self, i: int, growth: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(i + k * growth),
                nn.ReLU(),
                nn.Conv2d(i + k * growth, growth, 3, padding=1, bias=False),
            )
            for k in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 7, 3, padding=1), DenseBlock(7, 5, 3), nn.BatchNorm2d(22), nn.ReLU(), nn.Conv2d(22, 11, 1),
        nn.AvgPool2d(2), DenseBlock(11, 5, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(21, 5),
    )  # fmt: skip


class ShuffleUnit(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        h = c // 2
        self.branch = nn.Sequential(
            *conv_bn(h, h, 1, act=nn.ReLU()),
            *conv_bn(h, h, 3, groups=h),
            *conv_bn(h, h, 1, act=nn.ReLU()),
        )

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        y = torch.cat([a, self.branch(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class CBAM(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(c, c // 2), nn.ReLU(), nn.Linear(c // 2, c))
        self.spatial = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3))))
        x = x * gate[:, :, None, None]
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * torch.sigmoid(self.spatial(both))


class ConvNeXtBlock(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.dw, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.fc1, self.fc2 = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.gamma = nn.Parameter(torch.full((c,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        y = self.gamma * self.fc2(F.gelu(self.fc1(y)))
        return x + y.permute(0, 3, 1, 2)


class StyleNet(nn.Module):
    def __init__(self, w: int = 6) -> None:
        super().__init__()

        def block(i: int, o: int, k: int, s: int) -> list[nn.Module]:
            return [
                nn.ReflectionPad2d(k // 2),
                nn.Conv2d(i, o, k, s),
                nn.InstanceNorm2d(o, affine=True),
                nn.ReLU(),
            ]

        self.down = nn.Sequential(*block(3, w, 9, 1), *block(w, 2 * w, 3, 2))
        self.residual = nn.Sequential(*block(2 * w, 2 * w, 3, 1)[:-1])
        self.up = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest"),
            *block(2 * w, w, 3, 1),
            nn.ReflectionPad2d(4),
            nn.Conv2d(w, 3, 9),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.down(x)
        return self.up(x + self.residual(x))


def espcn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(8, 4, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(4, 9, 3, padding=1),
        nn.PixelShuffle(3),
    )


class AttentionBlock(nn.Module):
    def __init__(self, c: int = 8) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.GroupNorm(4, c),
            nn.Conv2d(c, 3 * c, 1),
            nn.Conv2d(c, c, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, c, h * w).unbind(1)
        attention = torch.softmax(q.transpose(1, 2) @ k / c**0.5, -1)
        return x + self.out((v @ attention.transpose(1, 2)).reshape(n, c, h, w))


class DiffusionBlock(nn.Module):
    """A residual block conditioned on the time, then multi-head attention."""

    def __init__(self, i: int = 6, o: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 2 * o))
        self.norm1, self.conv1 = nn.GroupNorm(3, i), nn.Conv2d(i, o, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1)
        self.norm3, self.qkv, self.out = (
            nn.GroupNorm(4, o),
            nn.Conv1d(o, 3 * o, 1),
            nn.Conv1d(o, o, 1),
        )

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        angles = t[:, None] * torch.exp(-torch.arange(4) * 1.5)
        scale, shift = self.time(torch.cat([angles.sin(), angles.cos()], 1))[
            :, :, None, None
        ].chunk(2, 1)
        y = self.conv1(F.silu(self.norm1(x)))
        y = self.norm2(y) * (1 + scale) + shift
        y = self.skip(x) + self.conv2(F.silu(y))
        n, c, h, w = y.shape
        z = self.qkv(self.norm3(y).flatten(2)).view(n, 3, self.heads, c // self.heads, h * w)
        q, k, v = z.transpose(-1, -2).unbind(1)
        z = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(n, c, h * w)
        return y + self.out(z).view(n, c, h, w)


class FCN(nn.Module):
    """Scores at three resolutions, upsampled and added."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 6, 10, 14)
        self.stages = nn.ModuleList(
            nn.Sequential(*conv_bn(i, o, act=nn.ReLU()), nn.MaxPool2d(2, ceil_mode=True))
            for i, o in pairwise(widths)
        )
        self.scores = nn.ModuleList(nn.Conv2d(c, 5, 1) for c in widths[1:])

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        size = x.shape[2:]
        total = None
        for stage, score in zip(self.stages, self.scores, strict=True):
            x = stage(x)
            one = F.interpolate(score(x), size, mode="bilinear", align_corners=False)
            total = one if total is None else total + one
        return {"out": total, "classes": total.softmax(1)}


class FPN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2, self.c3 = (
            conv_bn(i, o, 3, 2, nn.ReLU()) for i, o in ((3, 8), (8, 12), (12, 16))
        )
        self.l2, self.l3, self.smooth = (
            nn.Conv2d(12, 8, 1),
            nn.Conv2d(16, 8, 1),
            nn.Conv2d(8, 8, 3, padding=1),
        )
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        c2 = self.c2(self.c1(x))
        c3 = self.c3(c2)
        p3 = self.l3(c3)
        p2 = self.smooth(
            self.l2(c2) + F.interpolate(p3, size=c2.shape[2:], mode="bilinear", align_corners=False)
        )
        full = F.interpolate(self.head(p2), size=x.shape[2:], mode="bilinear", align_corners=True)
        return {"masks": full, "coarse": p3}


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 6, 4, 2, 1), nn.ReLU(), nn.Conv2d(6, 12, 4, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.mean, self.log_variance = nn.Linear(12 * 16, 5), nn.Linear(12 * 16, 5)
        self.widen = nn.Linear(5, 12 * 16)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(12, 6, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(6, 1, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + noise * torch.exp(0.5 * log_variance)
        return self.decoder(self.widen(z).view(-1, 12, 4, 4)), mean, log_variance


def dcgan() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(20, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip


class Inception(nn.Module):
    def __init__(self, i: int) -> None:
        super().__init__()
        self.a, self.b = (
            nn.Conv2d(i, 5, 1),
            nn.Sequential(nn.Conv2d(i, 3, 1), nn.ReLU(), nn.Conv2d(3, 6, 3, padding=1)),
        )
        self.c = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(i, 4, 1))
        self.d = nn.Sequential(
            nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.Conv2d(i, 2, (1, 7), padding=(0, 3))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1))


def vgg() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d((4, 4)), nn.Flatten(), nn.Linear(192, 30), nn.ReLU(), nn.Dropout(), nn.Linear(30, 10), nn.Softmax(1),
    )  # fmt: skip


class PNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.pool1 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv2, self.prelu2, self.conv3, self.prelu3 = (
            nn.Conv2d(10, 16, 3),
            nn.PReLU(16),
            nn.Conv2d(16, 32, 3),
            nn.PReLU(32),
        )
        self.conv4_1, self.softmax4_1, self.conv4_2 = (
            nn.Conv2d(32, 2, 1),
            nn.Softmax(dim=1),
            nn.Conv2d(32, 4, 1),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), self.softmax4_1(self.conv4_1(x))


ZOO: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "resnet18": (lambda: ResNet18(8, 10), ((1, 3, 65, 63),)),
    "autoencoder": (autoencoder, ((2, 1, 28, 28),)),
    "unet": (UNet, ((2, 3, 24, 32),)),
    "pix2pix": (Pix2Pix, ((2, 3, 64, 64),)),
    "pix2pix 256": (lambda: Pix2Pix(3, 8), ((1, 3, 256, 256),)),
    "mobilenet_v2": (lambda: MobileNetV2(0.2, 10), ((1, 3, 64, 64),)),
    "mobilenet_v3": (MobileNetV3, ((2, 3, 33, 31),)),
    "squeezenet": (squeezenet, ((1, 3, 42, 40),)),
    "densenet": (densenet, ((1, 3, 14, 15),)),
    "shufflenet": (lambda: nn.Sequential(conv_bn(3, 12, 3, 2, nn.ReLU()), ShuffleUnit(12), ShuffleUnit(12)), ((1, 3, 17, 18),)),
    "channel shuffle": (lambda: nn.Sequential(nn.Conv2d(3, 12, 1), nn.ReLU(), nn.ChannelShuffle(3), nn.Conv2d(12, 12, 3, groups=4), nn.ChannelShuffle(4)), ((2, 3, 7, 8),)),
    "inception": (lambda: nn.Sequential(Inception(3), Inception(17)), ((1, 3, 11, 13),)),
    "vgg": (vgg, ((3, 3, 17, 19),)),
    "convnext": (lambda: nn.Sequential(nn.Conv2d(3, 10, 4, 4), ConvNeXtBlock(10)), ((2, 3, 28, 20),)),
    "se": (lambda: nn.Sequential(nn.Conv2d(3, 9, 3), SqueezeExcite(9)), ((2, 3, 9, 8),)),
    "cbam": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), CBAM(8)), ((2, 3, 12, 11),)),
    "style transfer": (StyleNet, ((1, 3, 22, 26),)),
    "espcn": (espcn, ((1, 1, 9, 7),)),
    "attention": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), AttentionBlock(8)), ((2, 3, 6, 7),)),
    "diffusion block": (DiffusionBlock, ((2, 6, 6, 7), (2,))),
    "fcn": (FCN, ((1, 3, 37, 43),)),
    "fpn": (FPN, ((1, 3, 41, 39),)),
    "vae": (VAE, ((2, 1, 16, 16), (2, 5))),
    "dcgan": (dcgan, ((2, 20, 1, 1),)),
    "mtcnn": (PNet, ((1, 3, 29, 31),)),
    **UNUSUAL_NETWORKS,
}  # fmt: skip


def build(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Build a network of the zoo with non-trivial statistics, and normal inputs."""
    torch.manual_seed(sum(map(ord, name)))
    make, shapes = ZOO[name]
    model = make().eval()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.2)
            part.running_var.uniform_(0.5, 2)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.2)
    return model, tuple(torch.randn(shape) for shape in shapes)
