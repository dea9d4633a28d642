"""The networks of `make wild`, by the package that defines them; no weights are loaded.

Every network is named `package/name`, with its constructor and input shapes. Inputs are as small as
a network accepts, and the smallest network represents its family.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WildNetwork:
    """A module's constructor, and the shapes of its input arrays."""

    build: Callable[[], Any]
    shapes: tuple[Shape, ...]


def _construct(module: str, name: str, **arguments: Any) -> Any:
    return getattr(importlib.import_module(module), name)(**arguments)


def prepare_imports() -> None:
    """Prepare for the import of torchvision, by us or by another package.

    Its compiled operators are built for CUDA and don't load here. The networks below use none of
    them, but the package refers to two during its import.
    """
    import torch

    for operator in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{operator}",
            "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        )


def _make_torchvision(name: str, **arguments: Any) -> Any:
    import torchvision

    return torchvision.models.get_model(name, weights=None, **arguments)


def _make_timm(name: str, **arguments: Any) -> Any:
    import timm

    return timm.create_model(name, pretrained=False, **arguments)


class _TensorModule:
    """Wraps modules that take non-tensors or return objects as modules of tensors."""

    @staticmethod
    def wrap(module: Any, call: Callable[..., Any]) -> Any:
        import torch

        class Alone(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = module

            def forward(self, x: Any) -> Any:
                return call(self.net, x)

        return Alone()


def _with_timestep(build: Callable[[], Any], **others: Shape) -> Callable[[], Any]:
    """A denoiser at step 10; `others` are further inputs with fixed numbers."""

    def built() -> Any:
        import torch

        given = {
            n: torch.sin(torch.arange(0, _element_count(s)) * 1.0).view(s)
            for n, s in others.items()
        }
        step = torch.tensor([10])

        def call(net: Any, x: Any) -> Any:
            return net(x, step, return_dict=False, **given)[0]

        return _TensorModule.wrap(build(), call)

    return built


def _element_count(shape: Shape) -> int:
    size = 1
    for dimension in shape:
        size *= dimension
    return size


def _first_output(build: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: _TensorModule.wrap(build(), lambda net, x: net(x, return_dict=False)[0])


def picture_shapes(size: int, channels: int = 3) -> tuple[Shape, ...]:
    """The shapes of one square picture."""
    return ((1, channels, size, size),)


def wild_networks() -> dict[str, WildNetwork]:
    """All networks by name."""
    from more_wild_networks import more_networks

    found = more_networks()
    for source in (
        _torchvision_networks,
        _timm_networks,
        _smp_networks,
        _diffusers_networks,
        _kornia_networks,
        _monai_networks,
    ):
        found.update(source())
    found.update(_spandrel_networks())
    return found


TORCHVISION_NETWORKS = """
    alexnet:64 vgg11_bn:32 resnet18:64 resnet50:64 wide_resnet50_2:32 resnext50_32x4d:64
    densenet121:64 googlenet:64 inception_v3:80 mobilenet_v2:64 mobilenet_v3_small:64
    mobilenet_v3_large:64 mnasnet0_5:64 mnasnet1_0:64 shufflenet_v2_x0_5:64 shufflenet_v2_x1_0:64
    squeezenet1_0:64 squeezenet1_1:64 efficientnet_b0:64 efficientnet_v2_s:64 regnet_y_400mf:64
    regnet_x_400mf:64 convnext_tiny:64 swin_t:64 swin_v2_t:64 maxvit_t:224 vit_b_32:224
    fcn_resnet50:64 deeplabv3_resnet50:64 deeplabv3_mobilenet_v3_large:64
    lraspp_mobilenet_v3_large:64
"""
VIDEO_NETWORKS = {"r3d_18": (4, 32), "mc3_18": (4, 32), "r2plus1d_18": (4, 32), "swin3d_t": (4, 32)}


def _torchvision_networks() -> dict[str, WildNetwork]:
    found = {}
    for entry in TORCHVISION_NETWORKS.split():
        name, size = entry.split(":")
        more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        if "deeplab" in name or "fcn" in name or "lraspp" in name:
            more = {"weights_backbone": None}
        build = partial(_make_torchvision, name, **more)
        found[f"torchvision/{name}"] = WildNetwork(build, picture_shapes(int(size)))
    for name, (frames, size) in VIDEO_NETWORKS.items():
        build = partial(_make_torchvision, name)
        found[f"torchvision/{name}"] = WildNetwork(build, ((1, 3, frames, size, size),))
    pair = ((1, 3, 128, 128), (1, 3, 128, 128))

    def flow() -> Any:
        net = _make_torchvision("raft_small")
        net.forward = partial(net.forward, num_flow_updates=2)
        return net

    found["torchvision/raft_small"] = WildNetwork(flow, pair)
    return found


# Each name is followed by the size; those under "of their size" are built for it (`img_size`).
TIMM_NETWORKS = """
    bat_resnext26ts:256 caformer_s18:64 convformer_s18:64 convmixer_768_32:64 convnext_atto:64
    convnextv2_atto:64 crossvit_tiny_240:240 cs3darknet_focus_s:64 cspdarknet53:64 cspresnet50:64
    davit_tiny:64 densenet121:64 dla34:64 dla46_c:64 dpn68:64 eca_nfnet_l0:64 edgenext_xx_small:64
    efficientnet_b0:64 efficientnet_es:64 efficientvit_b0:64 ese_vovnet19b_slim:64 fasternet_t0:64
    fastvit_t8:64 fbnetc_100:64 focalnet_tiny_srf:64 gcresnext26ts:64 ghostnet_050:64
    ghostnetv2_100:64 hardcorenas_a:64 hgnetv2_b0:64 hrnet_w18_small:64 inception_next_atto:64
    inception_v3:96 inception_v4:96 lcnet_050:64 mambaout_femto:64 mixnet_s:64 mnasnet_small:64
    mobilenetv3_large_100:64 mobilenetv3_small_050:64 mobilenetv4_conv_small:64
    mobilenetv4_hybrid_medium:64 nextvit_small:64 nf_regnet_b0:64 nf_resnet26:64 poolformer_s12:64
    poolformerv2_s12:64 pvt_v2_b0:64 rdnet_tiny:64 regnetx_002:64 regnety_002:64 regnetv_040:64
    repghostnet_050:64 res2net50_14w_8s:64 resnest14d:64 resnet10t:64 resnet18:64 resnet26d:64
    resnet50_gn:64 resnetblur50:64 resnetv2_50:64 resnext50_32x4d:64 rexnet_100:64 selecsls42:64
    semnasnet_050:64 seresnext26t_32x4d:64 shvit_s1:64 skresnet18:64 spnasnet_100:64 starnet_s1:64
    test_convnext:64 test_efficientnet:64 test_mambaout:64 test_nfnet:64 test_resnet:64
    tf_efficientnet_lite0:64 tf_efficientnetv2_b0:64 tiny_vit_5m_224:64 tinynet_e:64 tresnet_m:64
    vgg11:32 xception41:64
"""
FIXED_SIZE = """
    beit_base_patch16_224:64 botnet26t_256:64 cait_xxs24_224:112 coat_lite_tiny:64 coat_tiny:64
    coatnet_nano_rw_224:64 convit_tiny:112 deit_tiny_distilled_patch16_224:112
    efficientformer_l1:224 efficientformerv2_s0:128 efficientvit_m0:128 eva02_tiny_patch14_224:112
    flexivit_small:64 gcvit_xxtiny:128 gernet_s:64 gmlp_ti16_224:112 haloregnetz_b:224
    hiera_tiny_224:64 lambda_resnet26t:64 lamhalobotnet50ts_256:128 levit_128s:128
    maxvit_rmlp_pico_rw_256:64 mixer_s32_224:128 mobileone_s0:64 mobilevit_xxs:64 mobilevitv2_050:64
    mvitv2_tiny:64 nest_tiny:64 pit_ti_224:112 repvgg_a0:64 repvit_m0_9:64 resmlp_12_224:112
    sebotnet33ts_256:64 sequencer2d_s:112 swiftformer_xs:64 swin_tiny_patch4_window7_224:112
    swinv2_tiny_window8_256:64 swinv2_cr_tiny_ns_224:64 test_byobnet:64 test_vit:64 test_vit2:64
    test_vit4:64 tnt_s_legacy_patch16_224:112 twins_pcpvt_small:64 twins_svt_small:64
    visformer_tiny:112 vit_relpos_small_patch16_224:112 vit_small_r26_s32_224:64
    vit_tiny_patch16_224:112 vitamin_small_224:64 volo_d1_224:64 xcit_nano_12_p16_224:112
"""


def _timm_networks() -> dict[str, WildNetwork]:
    found = {}
    for entry in TIMM_NETWORKS.split():
        name, size = entry.split(":")
        found[f"timm/{name}"] = WildNetwork(partial(_make_timm, name), picture_shapes(int(size)))
    for entry in FIXED_SIZE.split():
        name, size = entry.split(":")
        build = partial(_make_timm, name, img_size=int(size))
        found[f"timm/{name}"] = WildNetwork(build, picture_shapes(int(size)))
    return found


SEGMENTATION_ARCHITECTURES = (
    "Unet UnetPlusPlus FPN PSPNet DeepLabV3 DeepLabV3Plus Linknet MAnet PAN UPerNet"
)


def _smp_networks() -> dict[str, WildNetwork]:
    found = {}
    for name in (*SEGMENTATION_ARCHITECTURES.split(), "Segformer", "DPT"):
        encoder = "tu-vit_tiny_patch16_224" if name == "DPT" else "resnet18"
        arguments = {"encoder_name": encoder, "encoder_weights": None, "classes": 4}
        build = partial(_construct, "segmentation_models_pytorch", name, **arguments)
        size = {"DPT": 224, "PAN": 256}.get(name, 64)
        found[f"smp/{name}"] = WildNetwork(build, picture_shapes(size))
    arguments = {"encoder_name": "mobilenet_v2", "encoder_weights": None, "classes": 4}
    build = partial(_construct, "segmentation_models_pytorch", "Unet", **arguments)
    found["smp/Unet mobilenet_v2"] = WildNetwork(build, picture_shapes(64))
    arguments = {"encoder_name": "mit_b0", "encoder_weights": None, "classes": 4}
    build = partial(_construct, "segmentation_models_pytorch", "FPN", **arguments)
    found["smp/FPN mit_b0"] = WildNetwork(build, picture_shapes(64))
    return found


def _diffusers_networks() -> dict[str, WildNetwork]:
    of = partial(partial, _construct, "diffusers")
    down = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
    plain = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
             "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}  # fmt: skip
    crossed = {"down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
               "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}  # fmt: skip
    autoencoder = {"down_block_types": ("DownEncoderBlock2D",) * 2,
                   "up_block_types": ("UpDecoderBlock2D",) * 2}  # fmt: skip
    text = {"encoder_hidden_states": (1, 7, 16)}
    unet = of("UNet2DModel", in_channels=3, out_channels=3, sample_size=16, **down, **plain)
    conditioned = of(
        "UNet2DConditionModel", sample_size=16, cross_attention_dim=16, attention_head_dim=8,
        **down, **crossed,
    )  # fmt: skip
    small = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}
    dit = of(
        "DiTTransformer2DModel", in_channels=4, out_channels=8, sample_size=16, norm_num_groups=4,
        **small,
    )  # fmt: skip
    pixart = of(
        "PixArtTransformer2DModel", in_channels=4, out_channels=8, sample_size=16,
        cross_attention_dim=32, caption_channels=16, use_additional_conditions=False, **small,
    )  # fmt: skip

    def classes() -> Any:
        import torch

        step, label = torch.tensor([10]), torch.tensor([3])
        return _TensorModule.wrap(dit(), lambda net, x: net(x, step, label, return_dict=False)[0])

    return {
        "diffusers/UNet2DModel": WildNetwork(_with_timestep(unet), picture_shapes(16)),
        "diffusers/UNet2DConditionModel": WildNetwork(
            _with_timestep(conditioned, **text), picture_shapes(16, 4)
        ),
        "diffusers/AutoencoderKL": WildNetwork(
            _first_output(of("AutoencoderKL", latent_channels=4, **down, **autoencoder)),
            picture_shapes(32),
        ),
        "diffusers/AutoencoderTiny": WildNetwork(
            _first_output(of("AutoencoderTiny")), picture_shapes(32)
        ),
        "diffusers/AsymmetricAutoencoderKL": WildNetwork(
            _first_output(
                of(
                    "AsymmetricAutoencoderKL",
                    down_block_types=("DownEncoderBlock2D",) * 2,
                    up_block_types=("UpDecoderBlock2D",) * 2,
                    down_block_out_channels=(32, 64),
                    up_block_out_channels=(32, 64),
                    norm_num_groups=8,
                )
            ),
            picture_shapes(32),
        ),
        "diffusers/VQModel": WildNetwork(
            _first_output(
                of("VQModel", latent_channels=4, num_vq_embeddings=32, **down, **autoencoder)
            ),
            picture_shapes(32),
        ),
        "diffusers/DiTTransformer2DModel": WildNetwork(classes, picture_shapes(16, 4)),
        "diffusers/PixArtTransformer2DModel": WildNetwork(
            lambda: _TensorModule.wrap(pixart(), _call_pixart), picture_shapes(16, 4)
        ),
    }


def _call_pixart(net: Any, x: Any) -> Any:
    import torch

    text = torch.sin(torch.arange(7 * 16) * 1.0).view(1, 7, 16)
    known = {"resolution": None, "aspect_ratio": None}
    return net(
        x, timestep=torch.tensor([10]), encoder_hidden_states=text, added_cond_kwargs=known,
        return_dict=False,
    )[0]  # fmt: skip


def _kornia_networks() -> dict[str, WildNetwork]:
    found: dict[str, WildNetwork] = {}
    patches = ((3, 1, 32, 32),)
    for name in ("HardNet", "HardNet8", "SOSNet", "TFeat", "HyNet", "OriNet"):
        build = partial(_construct, "kornia.feature", name, pretrained=False)
        found[f"kornia/{name}"] = WildNetwork(build, patches)
    build = partial(_construct, "kornia.feature", "KeyNet", pretrained=False)
    found["kornia/KeyNet"] = WildNetwork(build, picture_shapes(32, 1))
    found["kornia/XFeatModel"] = WildNetwork(
        partial(_construct, "kornia.feature", "XFeatModel"), picture_shapes(64, 1)
    )
    found["kornia/CornerHarris"] = WildNetwork(
        partial(_construct, "kornia.feature", "CornerHarris", k=0.04), picture_shapes(32, 1)
    )
    found["kornia/BlobHessian"] = WildNetwork(
        partial(_construct, "kornia.feature", "BlobHessian"), picture_shapes(32, 1)
    )
    found["kornia/DexiNed"] = WildNetwork(
        partial(_construct, "kornia.models.dexined", "DexiNed", pretrained=False),
        picture_shapes(64),
    )
    found["kornia/TinyViT"] = WildNetwork(
        partial(_construct, "kornia.models.tiny_vit", "TinyViT", img_size=64), picture_shapes(64)
    )
    filters: dict[str, dict[str, Any]] = {
        "BoxBlur": {"kernel_size": (3, 5)},
        "GaussianBlur2d": {"kernel_size": (5, 5), "sigma": (1.5, 1.5)},
        "BilateralBlur": {"kernel_size": (5, 5), "sigma_color": 0.1, "sigma_space": (1.5, 1.5)},
        "MedianBlur": {"kernel_size": (3, 3)},
        "MaxBlurPool2D": {"kernel_size": 3},
        "BlurPool2D": {"kernel_size": 3},
        "MotionBlur": {"kernel_size": 5, "angle": 35.0, "direction": 0.5},
        "Laplacian": {"kernel_size": 3},
        "Sobel": {},
        "SpatialGradient": {},
        "UnsharpMask": {"kernel_size": (3, 3), "sigma": (1.5, 1.5)},
        "Canny": {},
    }
    for name, arguments in filters.items():
        build = partial(_construct, "kornia.filters", name, **arguments)
        found[f"kornia/{name}"] = WildNetwork(build, picture_shapes(24))
    for name in ("RgbToHsv", "RgbToLab", "RgbToYcbcr", "RgbToLuv", "RgbToXyz", "RgbToGrayscale"):
        found[f"kornia/{name}"] = WildNetwork(
            partial(_construct, "kornia.color", name), picture_shapes(24)
        )
    return found


def _monai_networks() -> dict[str, WildNetwork]:
    of = partial(partial, _construct, "monai.networks.nets")
    flat = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
    deep = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
    unet = {"channels": (8, 16, 32), "strides": (2, 2), "num_res_units": 2}
    kernels = {"kernel_size": (3, 3, 3), "strides": (1, 2, 2), "upsample_kernel_size": (2, 2)}
    volume = ((1, 1, 16, 16, 16),)
    slices = picture_shapes(32, 1)
    vit = {"in_channels": 1, "img_size": (32, 32), "patch_size": (4, 4), "hidden_size": 48,
           "mlp_dim": 96, "num_layers": 2, "num_heads": 3, "spatial_dims": 2}  # fmt: skip
    builders: dict[str, tuple[Callable[[], Any], tuple[Shape, ...]]] = {
        "UNet": (of("UNet", **flat, **unet), slices),
        "UNet 3-D": (of("UNet", **deep, **unet), volume),
        "BasicUNet": (of("BasicUNet", features=(8, 8, 16, 16, 32, 8), **flat), slices),
        "BasicUNet 3-D": (of("BasicUNet", features=(8, 8, 16, 16, 32, 8), **deep),
                          ((1, 1, 32, 16, 16),)),
        "BasicUNetPlusPlus": (
            of("BasicUNetPlusPlus", features=(8, 8, 16, 16, 32, 8), **flat), slices,
        ),
        "AttentionUnet": (of("AttentionUnet", channels=(8, 16, 32), strides=(2, 2), **flat),
                          slices),
        "DynUNet": (of("DynUNet", filters=(8, 16, 32), **kernels, **flat), slices),
        "VNet": (of("VNet", **deep), ((1, 1, 16, 16, 16),)),
        "SegResNet": (of("SegResNet", init_filters=8, **flat), slices),
        "SegResNet 3-D": (of("SegResNet", init_filters=8, **deep), volume),
        "SegResNetDS": (of("SegResNetDS", init_filters=8, blocks_down=(1, 2), **flat), slices),
        "UNETR": (
            of("UNETR", img_size=32, feature_size=8, hidden_size=48, mlp_dim=96, num_heads=3,
               **flat), slices,
        ),
        "SwinUNETR": (of("SwinUNETR", feature_size=12, depths=(1, 1, 1, 1), **flat),
                      picture_shapes(64, 1)),
        "DenseNet121": (of("DenseNet121", **flat), slices),
        "SEResNet50": (of("SEResNet50", spatial_dims=2, in_channels=3, num_classes=4),
                       picture_shapes(64)),
        "ResNet": (
            of("resnet10", spatial_dims=3, n_input_channels=1, num_classes=3), volume,
        ),
        "EfficientNetBN": (
            of("EfficientNetBN", model_name="efficientnet-b0", pretrained=False, spatial_dims=2,
               in_channels=1, num_classes=4), picture_shapes(64, 1),
        ),
        "AHNet": (of("AHNet", layers=(1, 1, 1, 1), spatial_dims=2, in_channels=1, out_channels=2,
                     psp_block_num=0), picture_shapes(64, 1)),
        "HighResNet": (of("HighResNet", **flat), slices),
        "ViT": (of("ViT", classification=True, num_classes=4, **vit), slices),
        "ViTAutoEnc": (of("ViTAutoEnc", **vit), slices),
        "RegUNet": (
            of("RegUNet", num_channel_initial=8, depth=2, **flat), slices,
        ),
        "Classifier": (
            of("Classifier", in_shape=(1, 32, 32), classes=4, channels=(8, 16), strides=(2, 2)),
            slices,
        ),
        "Discriminator": (
            of("Discriminator", in_shape=(1, 32, 32), channels=(8, 16), strides=(2, 2)), slices,
        ),
        "Generator": (
            of("Generator", latent_shape=(12,), start_shape=(8, 4, 4), channels=(8, 1),
               strides=(2, 2)), ((2, 12),),
        ),
        "AutoEncoder": (
            of("AutoEncoder", channels=(8, 16), strides=(2, 2), **flat), slices,
        ),
        "FlexibleUNet": (
            of("FlexibleUNet", in_channels=3, out_channels=2, backbone="efficientnet-b0",
               pretrained=False, spatial_dims=2, decoder_channels=(32, 16, 16, 8, 8)),
            picture_shapes(64),
        ),
        "MedNeXt": (
            of("MedNeXt", init_filters=8, encoder_expansion_ratio=2, decoder_expansion_ratio=2,
               bottleneck_expansion_ratio=2, blocks_down=(1, 1, 1, 1), blocks_bottleneck=1,
               blocks_up=(1, 1, 1, 1), deep_supervision=False, **flat), slices,
        ),
        "DiffusionModelUNet": (lambda: _denoiser(), picture_shapes(16, 1)),
        "VQVAE": (
            of("VQVAE", channels=(8, 16), num_res_layers=1, num_res_channels=(8, 16),
               downsample_parameters=((2, 4, 1, 1),) * 2,
               upsample_parameters=((2, 4, 1, 1, 0),) * 2, num_embeddings=16, embedding_dim=8,
               spatial_dims=2, in_channels=1, out_channels=1), picture_shapes(16, 1),
        ),
        "PatchDiscriminator": (
            of("PatchDiscriminator", spatial_dims=2, channels=8, in_channels=1, num_layers_d=2),
            slices,
        ),
        "VoxelMorphUNet": (
            of("VoxelMorphUNet", spatial_dims=2, in_channels=2, unet_out_channels=8,
               channels=(8, 8, 8, 8, 8, 8), final_conv_channels=(8,)), picture_shapes(32, 2),
        ),
        "FullyConnectedNet": (
            of("FullyConnectedNet", in_channels=10, out_channels=3, hidden_channels=(8, 16)),
            ((2, 10),),
        ),
        "HoVerNet": (of("HoVerNet", mode="fast", out_classes=3), picture_shapes(256)),
    }  # fmt: skip
    return {f"monai/{name}": WildNetwork(*entry) for name, entry in builders.items()}


def _denoiser() -> Any:
    import torch

    net = _construct(
        "monai.networks.nets", "DiffusionModelUNet", spatial_dims=2, in_channels=1, out_channels=1,
        channels=(8, 16), attention_levels=(False, True), num_res_blocks=1, norm_num_groups=4,
        num_head_channels=8,
    )  # fmt: skip
    return _TensorModule.wrap(net, lambda net, x: net(x, torch.tensor([10])))


def _with_stable_sort(build: Callable[[], Any]) -> Callable[[], Any]:
    """Make a network's unstable sort a stable one.

    PyTorch may otherwise order ties arbitrarily, and does so with vector instructions for floats
    and integers. That differs from the first-comes-first order, which is ours.
    """

    def built() -> Any:
        import torch

        sort = torch.sort
        torch.sort = lambda x, dim=-1, **given: sort(x, dim=dim, **{**given, "stable": True})
        return build()

    return built


def _spandrel_networks() -> dict[str, WildNetwork]:
    def of(name: str, path: str = "", **arguments: Any) -> Callable[[], Any]:
        module = f"spandrel.architectures.{path or name}"
        return partial(_construct, module, name, **arguments)

    swin = {"depths": [2, 2], "embed_dim": 24, "num_heads": [2, 2], "window_size": 8,
            "img_size": 32, "upscale": 2, "upsampler": "pixelshuffle"}  # fmt: skip
    builders: dict[str, tuple[Callable[[], Any], int]] = {
        "ATD": (of("ATD", img_size=32, embed_dim=24, depths=(2,), num_heads=(2,), upscale=2,
                   category_size=32, num_tokens=16, reducted_dim=4, window_size=8,
                   upsampler="pixelshuffledirect"), 32),
        "CRAFT": (of("CRAFT", embed_dim=24, depths=(2,), num_heads=(2,),
                     split_size_0=4, split_size_1=8, upscale=2), 32),
        "Compact": (of("Compact"), 24),
        "DAT": (of("DAT", img_size=32, embed_dim=24, split_size=[4, 8], depth=[2], num_heads=[2],
                   upscale=2), 32),
        "DCTLSA": (of("DCTLSA"), 24),
        "DITN": (of("DITN"), 32),
        "DRCT": (of("DRCT", img_size=32, embed_dim=24, depths=(2,), num_heads=(2,), gc=8,
                    upscale=2, window_size=8, upsampler="pixelshuffle"), 32),
        "DRUNet": (of("DRUNet", in_nc=4, out_nc=3, nc=[8, 16, 32, 64], nb=1), 32),
        "DnCNN": (of("DnCNN", in_nc=3, out_nc=3, nc=16, nb=5), 24),
        "ESRGAN": (of("ESRGAN", num_filters=16, num_blocks=2), 24),
        "FBCNN": (of("FBCNN", nb=1), 32),
        "FDAT": (of("FDAT", embed_dim=24, num_groups=1, num_heads=2), 32),
        "FFTformer": (of("FFTformer", dim=12, num_blocks=[1, 1, 1], num_refinement_blocks=1), 32),
        "GRL": (of("GRL", img_size=32, embed_dim=24, depths=[2], num_heads_window=[2],
                   num_heads_stripe=[2], window_size=8, upscale=2), 32),
        "HAT": (of("HAT", num_feat=16, overlap_ratio=0.5, compress_ratio=3, squeeze_factor=6,
                   **swin), 32),
        "HVICIDNet": (of("HVICIDNet", channels=[8, 8, 16, 32], heads=[1, 1, 2, 4]), 32),
        "KBNet": (of("KBNet_s", "KBNet", width=8, middle_blk_num=1, enc_blk_nums=[1, 1, 1, 1],
                     dec_blk_nums=[1, 1, 1, 1]), 32),
        "LaMa": (of("LaMa", in_nc=4), 0),
        "MixDehazeNet": (of("MixDehazeNet", embed_dims=[8, 16, 32, 16, 8],
                            depths=[1, 1, 1, 1, 1]), 64),
        "MoESR": (of("MoESR", dim=16, n_blocks=2, n_block=1, scale=2), 24),
        "MoSR": (of("MoSR", dim=16, n_block=3, upscale=2), 24),
        "NAFNet": (of("NAFNet", width=8, enc_blk_nums=[1, 1], dec_blk_nums=[1, 1],
                      middle_blk_num=1), 32),
        "OmniSR": (of("OmniSR", num_feat=16, res_num=1), 32),
        "PLKSR": (of("PLKSR", dim=16, n_blocks=2, upscaling_factor=2), 24),
        "RealPLKSR": (of("RealPLKSR", "PLKSR", dim=16, n_blocks=2, upscaling_factor=2), 24),
        "RCAN": (of("RCAN", n_resgroups=1, n_resblocks=2, n_feats=16), 24),
        "RGT": (of("RGT", img_size=32, embed_dim=24, depth=[2], num_heads=[2], split_size=[4, 8],
                   upscale=2), 32),
        "RealCUGAN": (of("UpCunet2x", "RealCUGAN"), 24),
        "RestoreFormer": (of("RestoreFormer", ch=32, resolution=32, n_embed=16, embed_dim=32,
                             z_channels=32, head_size=2, ch_mult=(1, 2), num_res_blocks=1,
                             attn_resolutions=[16]), 32),
        "RetinexFormer": (of("RetinexFormer", n_feat=8, stage=1, num_blocks=[1, 1, 1]), 32),
        "SAFMN": (of("SAFMN", dim=16, n_blocks=2, upscaling_factor=2), 24),
        "SAFMNBCIE": (of("SAFMNBCIE", dim=16, n_blocks=2, num_layers=1), 24),
        "SCUNet": (of("SCUNet", config=[1, 1, 1, 1, 1, 1, 1], dim=64), 64),
        "SPAN": (of("SPAN", num_in_ch=3, num_out_ch=3, feature_channels=16, upscale=2), 24),
        "SeemoRe": (of("SeemoRe", embedding_dim=16, num_layers=2, scale=2), 32),
        "SwiftSRGAN": (of("SwiftSRGAN", num_channels=16, num_blocks=2, upscale_factor=2), 24),
        "Swin2SR": (of("Swin2SR", **swin), 32),
        "SwinIR": (of("SwinIR", **swin), 32),
        "Uformer": (of("Uformer", img_size=64, embed_dim=8, depths=[1] * 9), 128),
    }  # fmt: skip
    found = {}
    for name, (build, size) in builders.items():
        shapes = picture_shapes(size or 32, 4 if name == "DRUNet" else 3)
        if name == "ATD":
            build = _with_stable_sort(build)
        if name == "LaMa":
            shapes = ((1, 3, 32, 32), (1, 1, 32, 32))
        found[f"spandrel/{name}"] = WildNetwork(build, shapes)
    return found
