"""Networks of `make wild` from further packages and of other kinds than `wild_networks`.

Classifiers not in timm, segmentation of street scenes and poses (pytorchcv), faces (facenet),
metrics of pictures (piq, lpips), super-resolution (torchsr), transformers (vit-pytorch), nnU-Net,
sequences (pytorch-tcn), parts of detectors, autoencoders of sound and video.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from wild_networks import (
    Shape,
    WildNetwork,
    _construct,
    _first_output,
    _make_torchvision,
    _TensorModule,
    _with_timestep,
    picture_shapes,
)


def more_networks() -> dict[str, WildNetwork]:
    """All these networks by name."""
    found: dict[str, WildNetwork] = {}
    for source in (
        _pytorchcv_networks,
        _metric_networks,
        _small_package_networks,
        _vit_pytorch_networks,
    ):
        found.update(source())
    for source in (_detector_networks, _diffusers_networks, _kornia_networks, _monai_networks):
        found.update(source())
    return found


PYTORCHCV_NETWORKS = """
    airnet50_1x64d_r16:224 bagnet9:224 bam_resnet18:224 bninception:224 cbam_resnet18:224
    channelnet:224 condensenet74_c8_g8:224 darknet_tiny:224 diaresnet10:224 dicenet_wd5:224
    diracnet18v2:224 drnc26:224 espnetv2_wd2:224 fdmobilenet_wd4:224 fishnet99:224 hardnet39ds:224
    ibn_densenet121:224 igcv3_wd4:224 menet108_8x1_g3:224 msdnet22:224 nasnet_4a1056:224
    nin_cifar10:32 octresnet10_ad2:224 peleenet:224 preresnet10:224 proxylessnas_cpu:224
    pyramidnet110_a48_cifar10:32 resattnet56:224 revnet38:224 rir_cifar10:32 ror3_56_cifar10:32
    scnet50:224 shakeshakeresnet20_2x16d_cifar10:32 sharesnet18:224 shufflenet_g3_wd4:224
    sparsenet121:224 sqnxt23_w1:224 squeezeresnet_v1_0:224 superpointnet:64 prnet:64
    cgnet_cityscapes:64 ctxnet_cityscapes:64 dabnet_cityscapes:64 edanet_cityscapes:64
    enet_cityscapes:64 erfnet_cityscapes:64 esnet_cityscapes:64 espcnet_cityscapes:64
    fastscnn_cityscapes:128 fpenet_cityscapes:64 lednet_cityscapes:64 linknet_cityscapes:64
    segnet_cityscapes:32 sqnet_cityscapes:64 unet_cityscapes:64 bisenet_resnet18_celebamaskhq:128
    lwopenpose2d_mobilenet_cmupan_coco:64 simplepose_resnet18_coco:64
    simplepose_mobile_resnet18_coco:64 centernet_resnet18_coco:64
"""
# Networks with a fixed input size; street segmentation upsamples to it.
FIXED_SIZE = ("cityscapes", "celebamaskhq", "_coco", "dicenet")


def _pytorchcv_networks() -> dict[str, WildNetwork]:
    found = {}
    for entry in PYTORCHCV_NETWORKS.split():
        name, text = entry.split(":")
        size = int(text)
        more: dict[str, Any] = {"pretrained": False}
        if name.startswith("simplepose"):
            more["return_heatmap"] = True  # else its last block decodes keypoints in a loop
        if any(part in name for part in FIXED_SIZE):
            more["in_size"] = (size, size)
        build = partial(_make_pytorchcv, name, **more)
        channels = 1 if name == "superpointnet" else 3
        found[f"pytorchcv/{name}"] = WildNetwork(build, picture_shapes(size, channels))
    return found


def _make_pytorchcv(name: str, **arguments: Any) -> Any:
    return importlib.import_module("pytorchcv.model_provider").get_model(name, **arguments)


METRIC_NETWORKS = """
    SSIMLoss MultiScaleSSIMLoss GMSDLoss MultiScaleGMSDLoss VIFLoss FSIMLoss SRSIMLoss VSILoss
    MDSILoss HaarPSILoss TVLoss DSSLoss
"""


def _metric_networks() -> dict[str, WildNetwork]:
    found = {}
    for name in METRIC_NETWORKS.split():
        size = 176 if name == "MultiScaleSSIMLoss" else 64
        count = 1 if name == "TVLoss" else 2
        found[f"piq/{name}"] = WildNetwork(
            partial(_construct, "piq", name), picture_shapes(size) * count
        )
    for name in ("alex", "squeeze", "vgg"):
        build = partial(
            _construct, "lpips", "LPIPS", net=name, pretrained=False, pnet_rand=True, verbose=False
        )
        found[f"lpips/{name}"] = WildNetwork(build, picture_shapes(64) * 2)
    return found


def _small_package_networks() -> dict[str, WildNetwork]:
    found = {}
    for name, size in {"PNet": 24, "RNet": 24, "ONet": 48}.items():
        build = partial(_construct, "facenet_pytorch.models.mtcnn", name, pretrained=False)
        found[f"facenet/{name}"] = WildNetwork(build, picture_shapes(size))
    build = partial(
        _construct, "facenet_pytorch", "InceptionResnetV1", classify=True, num_classes=5
    )
    found["facenet/InceptionResnetV1"] = WildNetwork(build, picture_shapes(96))
    for name in ("carn_m", "edsr_r16f64", "ninasr_b0", "rcan_b20r10g", "rdn_a", "vdsr"):
        build = partial(
            _construct, "torchsr.models", name.split("_b20")[0], scale=2, pretrained=False
        )
        found[f"torchsr/{name}"] = WildNetwork(build, picture_shapes(24))
    for causal in (True, False):
        build = partial(
            _construct, "pytorch_tcn", "TCN", num_inputs=4, num_channels=[8, 8, 16], causal=causal
        )
        found[f"pytorch-tcn/TCN{' causal' if causal else ''}"] = WildNetwork(build, ((1, 4, 48),))
    for name in ("resnet18", "mobilenet_v2", "densenet121", "alexnet"):
        build = partial(_construct, "antialiased_cnns", name, pretrained=False)
        found[f"antialiased_cnns/{name}"] = WildNetwork(build, picture_shapes(128))
    found.update(_nnunet_networks())
    return found


def _nnunet_networks() -> dict[str, WildNetwork]:
    import torch

    home = "dynamic_network_architectures.architectures.unet"
    found = {}
    for axes in (2, 3):
        given = {
            "input_channels": 1, "n_stages": 3, "kernel_sizes": 3,
            "features_per_stage": (8, 16, 32),
            "conv_op": (torch.nn.Conv2d, torch.nn.Conv3d)[axes - 2], "strides": (1, 2, 2),
            "num_classes": 3, "n_conv_per_stage_decoder": 1, "conv_bias": True,
            "norm_op": (torch.nn.InstanceNorm2d, torch.nn.InstanceNorm3d)[axes - 2],
            "norm_op_kwargs": {"affine": True}, "nonlin": torch.nn.LeakyReLU,
        }  # fmt: skip
        shapes = ((1, 1, *(16,) * axes),)
        plain = partial(_construct, home, "PlainConvUNet", n_conv_per_stage=2, **given)
        found[f"nnU-Net/PlainConvUNet {axes}-D"] = WildNetwork(plain, shapes)
        residual = partial(_construct, home, "ResidualEncoderUNet", n_blocks_per_stage=1, **given)
        found[f"nnU-Net/ResidualEncoderUNet {axes}-D"] = WildNetwork(residual, shapes)
    return found


def _vit_pytorch_networks() -> dict[str, WildNetwork]:
    plain = {"num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 48}
    of_parts = {"image_size": 32, "patch_size": 8, **plain}
    builders: dict[str, tuple[str, dict[str, Any], int]] = {
        "SimpleViT": ("simple_vit", of_parts, 32),
        "DeepViT": ("deepvit", of_parts, 32),
        "CaiT": ("cait", {**of_parts, "cls_depth": 1}, 32),
        "PiT": ("pit", {**of_parts, "patch_size": 4, "depth": (1, 1, 1)}, 32),
        "CvT": ("cvt", {"num_classes": 5, "s1_emb_dim": 16, "s2_emb_dim": 16, "s3_emb_dim": 32,
                        "s2_depth": 1, "s3_depth": 1, "s2_heads": 2, "s3_heads": 2}, 64),
        "CCT": ("cct", {"img_size": 32, "embedding_dim": 32, "n_conv_layers": 1, "num_layers": 2,
                        "num_heads": 2, "mlp_ratio": 2.0, "num_classes": 5,
                        "positional_embedding": "learnable"}, 32),
        "CrossFormer": ("crossformer", {"num_classes": 5, "dim": (32, 32, 64, 64),
                                        "depth": (1, 1, 1, 1), "global_window_size": (4, 2, 2, 1),
                                        "local_window_size": 2}, 64),
        "ScalableViT": ("scalable_vit", {"num_classes": 5, "dim": 16, "heads": (1, 2, 2, 2),
                                         "depth": (1, 1, 1, 1), "ssa_dim_key": (8, 8, 8, 8),
                                         "reduction_factor": (4, 2, 1, 1),
                                         "window_size": (8, 4, None, None)}, 64),
        "SepViT": ("sep_vit", {"num_classes": 5, "dim": 16, "dim_head": 8, "heads": (1, 2, 2),
                               "depth": (1, 1, 1)}, 112),
        "RegionViT": ("regionvit", {"num_classes": 5, "dim": (16, 16, 32, 32),
                                    "depth": (1, 1, 1, 1), "window_size": 2}, 64),
        "RvT": ("rvt", of_parts, 32),
        "T2TViT": ("t2t", {"image_size": 32, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2,
                           "mlp_dim": 48, "t2t_layers": ((3, 2), (3, 2))}, 32),
        "ViViT": ("vivit", {"image_size": 16, "image_patch_size": 8, "frames": 4,
                            "frame_patch_size": 2, "num_classes": 5, "dim": 32, "spatial_depth": 1,
                            "temporal_depth": 1, "heads": 2, "mlp_dim": 48}, 16),
    }  # fmt: skip
    found = {}
    for name, (module, given, size) in builders.items():
        build = partial(_construct, f"vit_pytorch.{module}", name, **given)
        shapes = ((1, 3, 4, size, size),) if name == "ViViT" else picture_shapes(size)
        found[f"vit-pytorch/{name}"] = WildNetwork(build, shapes)
    return found


def _detector_networks() -> dict[str, WildNetwork]:
    """Detectors up to the box selection: backbone, pyramid and heads."""

    def detector(name: str) -> Callable[[], Any]:
        def built() -> Any:
            whole = _make_torchvision(name, weights_backbone=None)

            def call(net: Any, x: Any) -> Any:
                features = list(net.backbone(x).values())
                found = net.head(features) if hasattr(net, "head") else net.rpn.head(features)
                return tuple(found.values()) if isinstance(found, dict) else (*found[0], *found[1])

            return _TensorModule.wrap(whole, call)

        return built

    sizes = {
        "retinanet_resnet50_fpn": 64, "retinanet_resnet50_fpn_v2": 64, "fcos_resnet50_fpn": 64,
        "ssdlite320_mobilenet_v3_large": 64, "ssd300_vgg16": 300,
        "fasterrcnn_mobilenet_v3_large_fpn": 64, "fasterrcnn_resnet50_fpn_v2": 64,
    }  # fmt: skip
    found = {
        f"torchvision/{n}": WildNetwork(detector(n), picture_shapes(s)) for n, s in sizes.items()
    }

    def masks(part: str) -> Any:
        net = _make_torchvision(f"{part}rcnn_resnet50_fpn", weights_backbone=None).roi_heads
        heads = {"mask": ("mask_head", "mask_predictor"),
                 "keypoint": ("keypoint_head", "keypoint_predictor")}[part]  # fmt: skip
        import torch

        return torch.nn.Sequential(*(getattr(net, head) for head in heads))

    for part in ("mask", "keypoint"):
        build = partial(masks, part)
        found[f"torchvision/{part}rcnn heads"] = WildNetwork(build, ((2, 256, 14, 14),))
    return found


def _diffusers_networks() -> dict[str, WildNetwork]:
    of = partial(partial, _construct, "diffusers")
    down = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
    text = {"encoder_hidden_states": (1, 7, 16)}
    control = of(
        "ControlNetModel", in_channels=4, cross_attention_dim=16, attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        conditioning_embedding_out_channels=(8, 16), **down,
    )  # fmt: skip

    def controlled() -> Any:
        import torch

        given = torch.sin(torch.arange(7 * 16) * 1.0).view(1, 7, 16)
        step = torch.tensor([10])

        def call(net: Any, x: Any) -> Any:
            picture = torch.nn.functional.interpolate(x[:, :3], scale_factor=2)
            found = net(x, step, given, controlnet_cond=picture, return_dict=False)
            return (*found[0], found[1])

        return _TensorModule.wrap(control(), call)

    film = {"down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
            "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D")}  # fmt: skip
    moving = of("UNet3DConditionModel", sample_size=8, cross_attention_dim=16, attention_head_dim=8,
                **down, **film)  # fmt: skip
    sound = of("UNet1DModel", sample_size=64, in_channels=2, out_channels=2, extra_in_channels=32,
               block_out_channels=(16, 32), layers_per_block=1,
               down_block_types=("DownBlock1DNoSkip", "DownBlock1D"),
               up_block_types=("UpBlock1D", "UpBlock1DNoSkip"))  # fmt: skip
    adapter = of("T2IAdapter", in_channels=3, channels=[16, 32], num_res_blocks=1,
                 downscale_factor=4, adapter_type="full_adapter")  # fmt: skip
    oobleck = of("AutoencoderOobleck", encoder_hidden_size=8, downsampling_ratios=[2, 4],
                 channel_multiples=[1, 2], decoder_channels=8, decoder_input_channels=4,
                 audio_channels=1)  # fmt: skip
    deep = of("AutoencoderDC", in_channels=3, latent_channels=4, attention_head_dim=4,
              encoder_block_out_channels=(8, 16), decoder_block_out_channels=(8, 16),
              encoder_layers_per_block=(1, 1), decoder_layers_per_block=(1, 1),
              encoder_block_types=("ResBlock", "EfficientViTBlock"),
              decoder_block_types=("ResBlock", "EfficientViTBlock"),
              encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,)),
              upsample_block_type="interpolate", downsample_block_type="conv",
              scaling_factor=0.4)  # fmt: skip
    temporal = of("AutoencoderKLTemporalDecoder", latent_channels=4, block_out_channels=(32, 64),
                  layers_per_block=1, down_block_types=("DownEncoderBlock2D",) * 2)  # fmt: skip
    video = of("AutoencoderKLCogVideoX", latent_channels=4, block_out_channels=(8, 8, 8, 8),
               down_block_types=("CogVideoXDownBlock3D",) * 4, layers_per_block=1,
               up_block_types=("CogVideoXUpBlock3D",) * 4, norm_num_groups=2)  # fmt: skip
    flux = of("FluxTransformer2DModel", patch_size=1, in_channels=4, num_layers=1,
              num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
              joint_attention_dim=32, pooled_projection_dim=32,
              axes_dims_rope=[4, 4, 8])  # fmt: skip
    sd3 = of("SD3Transformer2DModel", sample_size=16, patch_size=2, in_channels=4, num_layers=1,
             attention_head_dim=8, num_attention_heads=4, joint_attention_dim=32,
             caption_projection_dim=32, pooled_projection_dim=32, out_channels=4)  # fmt: skip
    sana = of("SanaTransformer2DModel", in_channels=4, out_channels=4, num_layers=1, sample_size=16,
              num_attention_heads=2, attention_head_dim=8, num_cross_attention_heads=2,
              cross_attention_head_dim=8, cross_attention_dim=16, caption_channels=16)  # fmt: skip
    consistency = of("ConsistencyDecoderVAE", latent_channels=4,
                     encoder_block_out_channels=(32, 64),
                     encoder_down_block_types=("DownEncoderBlock2D",) * 2,
                     encoder_layers_per_block=1, decoder_layers_per_block=1,
                     decoder_block_out_channels=(32, 64),
                     decoder_down_block_types=("ResnetDownsampleBlock2D",) * 2,
                     decoder_up_block_types=("ResnetUpsampleBlock2D",) * 2)  # fmt: skip
    return {
        "diffusers/ControlNetModel": WildNetwork(controlled, picture_shapes(16, 4)),
        "diffusers/UNet3DConditionModel": WildNetwork(_with_timestep(moving, **text),
                                                  ((1, 4, 2, 8, 8),)),
        "diffusers/UNet1DModel": WildNetwork(_with_timestep(sound), ((1, 2, 64),)),
        "diffusers/T2IAdapter": WildNetwork(
            lambda: _TensorModule.wrap(adapter(), lambda net, x: tuple(net(x))), picture_shapes(32)
        ),
        "diffusers/AutoencoderOobleck": WildNetwork(_first_output(oobleck), ((1, 1, 128),)),
        "diffusers/AutoencoderDC": WildNetwork(_first_output(deep), picture_shapes(32)),
        "diffusers/AutoencoderKLTemporalDecoder": WildNetwork(
            lambda: _TensorModule.wrap(
                temporal(), lambda net, x: net.decode(net.encode(x)[0].mode(), num_frames=2)[0]
            ), ((2, 3, 16, 16),),
        ),
        "diffusers/AutoencoderKLCogVideoX": WildNetwork(_first_output(video), ((1, 3, 1, 16, 16),)),
        "diffusers/FluxTransformer2DModel": WildNetwork(_flux_builder(flux), ((1, 16, 4),)),
        "diffusers/SD3Transformer2DModel": WildNetwork(
            lambda: _TensorModule.wrap(sd3(), _call_sd3), picture_shapes(16, 4)
        ),
        "diffusers/SanaTransformer2DModel": WildNetwork(
            lambda: _TensorModule.wrap(sana(), _call_sana), picture_shapes(16, 4)
        ),
        "diffusers/ConsistencyDecoder": WildNetwork(
            _with_timestep(lambda: consistency().decoder_unet), picture_shapes(16, 7)
        ),
    }  # fmt: skip


def _flux_builder(build: Callable[[], Any]) -> Callable[[], Any]:
    def built() -> Any:
        import torch

        words = torch.sin(torch.arange(7 * 32) * 1.0).view(1, 7, 32)
        places = torch.stack([torch.zeros(16), torch.arange(16) // 4, torch.arange(16) % 4], 1)
        given = {"encoder_hidden_states": words, "pooled_projections": words[:, 0],
                 "timestep": torch.tensor([0.5]), "img_ids": places, "txt_ids": torch.zeros(7, 3),
                 "guidance": None}  # fmt: skip
        return _TensorModule.wrap(build(), lambda net, x: net(x, return_dict=False, **given)[0])

    return built


def _call_sd3(net: Any, x: Any) -> Any:
    import torch

    words = torch.sin(torch.arange(7 * 32) * 1.0).view(1, 7, 32)
    return net(x, words, words[:, 0], torch.tensor([10]), return_dict=False)[0]


def _call_sana(net: Any, x: Any) -> Any:
    import torch

    words = torch.sin(torch.arange(7 * 16) * 1.0).view(1, 7, 16)
    return net(x, words, torch.tensor([10]), return_dict=False)[0]


def _kornia_networks() -> dict[str, WildNetwork]:
    def of(name: str, call: Callable[..., Any] | None = None, **given: Any) -> Callable[[], Any]:
        def built() -> Any:
            net = _construct("kornia.feature", name, **given)
            return net if call is None else _TensorModule.wrap(net, call)

        return built

    patches: tuple[Shape, ...] = ((2, 1, 32, 32),)
    return {
        "kornia/DISK": WildNetwork(
            of("DISK", lambda net, x: tuple(net.heatmap_and_dense_descriptors(x))),
            picture_shapes(64)
        ),
        "kornia/SIFTDescriptor": WildNetwork(of("SIFTDescriptor", patch_size=32), patches),
        "kornia/DenseSIFTDescriptor": WildNetwork(of("DenseSIFTDescriptor"), picture_shapes(32, 1)),
        "kornia/MKDDescriptor": WildNetwork(of("MKDDescriptor", whitening=None), patches),
        "kornia/LAFAffNet": WildNetwork(of(
            "LAFAffNetShapeEstimator", lambda net, x: net.features(x), pretrained=False), patches),
        "kornia/CornerGFTT": WildNetwork(of("CornerGFTT"), picture_shapes(32, 1)),
        "kornia/BlobDoG": WildNetwork(of("BlobDoG"), ((1, 1, 4, 32, 32),)),
        "kornia/PatchDominantGradientOrientation": WildNetwork(
            of("PatchDominantGradientOrientation"), patches
        ),
        "kornia/FilterResponseNorm2d": WildNetwork(
            of("FilterResponseNorm2d", num_features=4), picture_shapes(16, 4)
        ),
    }  # fmt: skip


def _monai_networks() -> dict[str, WildNetwork]:
    of = partial(partial, _construct, "monai.networks.nets")
    flat = {"spatial_dims": 2, "in_channels": 1, "out_channels": 1}
    slices = picture_shapes(32, 1)
    latent = {"channels": (8, 16), "latent_channels": 3, "num_res_blocks": (1, 1),
              "norm_num_groups": 4, "attention_levels": (False, False)}  # fmt: skip
    noise = {"channels": (8, 16), "attention_levels": (False, True), "num_res_blocks": 1,
             "norm_num_groups": 4, "num_head_channels": 8}  # fmt: skip

    def spade(name: str, given: dict[str, Any], call: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: _TensorModule.wrap(of(name, **given)(), call)

    def mean(net: Any, x: Any) -> Any:
        return net.decode(net.encode(x)[0])

    def mixed(net: Any, x: Any) -> Any:
        return net.decode(net.encode(x)[0], _striped_labels(x))

    def controlled(net: Any, x: Any) -> Any:
        import torch

        low, middle = net(x, torch.tensor([10]), x)
        return (*low, middle)

    return {
        "monai/AutoencoderKL": WildNetwork(
            spade("AutoencoderKL", {**flat, **latent}, mean), slices
        ),
        "monai/SPADEAutoencoderKL": WildNetwork(
            spade("SPADEAutoencoderKL", {**flat, **latent, "label_nc": 3}, mixed), slices
        ),
        "monai/SPADENet": WildNetwork(
            spade("SPADENet", {**flat, "label_nc": 3, "input_shape": [32, 32], "channels": [8, 16],
                               "is_vae": False}, lambda net, x: net(_striped_labels(x) * x)[0]),
            slices,
        ),
        "monai/ControlNet": WildNetwork(
            spade("ControlNet", {"spatial_dims": 2, "in_channels": 1, **noise,
                                 "conditioning_embedding_num_channels": (8,),
                                 "conditioning_embedding_in_channels": 1}, controlled), slices,
        ),
        "monai/GlobalNet": WildNetwork(
            of("GlobalNet", image_size=[32, 32], spatial_dims=2, in_channels=1,
               num_channel_initial=4, depth=2), slices,
        ),
        "monai/LocalNet": WildNetwork(
            of("LocalNet", num_channel_initial=4, extract_levels=[0, 1], **flat), slices
        ),
        "monai/DAF3D": WildNetwork(
            of("DAF3D", in_channels=1, out_channels=2), ((1, 1, 32, 32, 32),)
        ),
        "monai/Quicknat": WildNetwork(of("Quicknat", num_channels=1, num_filters=8), slices),
        "monai/SEResNeXt50": WildNetwork(
            of("SEResNext50", spatial_dims=2, in_channels=3, num_classes=4), picture_shapes(64)
        ),
        "monai/Critic": WildNetwork(
            of("Critic", in_shape=(1, 32, 32), channels=(8, 16), strides=(2, 2)), slices
        ),
        "monai/Regressor": WildNetwork(
            of("Regressor", in_shape=(1, 32, 32), out_shape=(2,), channels=(8, 16), strides=(2, 2)),
            slices,
        ),
        "monai/MILModel": WildNetwork(
            of("MILModel", num_classes=3, mil_mode="att", pretrained=False), ((1, 3, 3, 64, 64),)
        ),
        "monai/MaskedAutoEncoderViT encoder": WildNetwork(
            lambda: _construct("monai.networks.nets", "MaskedAutoEncoderViT", in_channels=1,
                               img_size=(32, 32), patch_size=(8, 8), hidden_size=48, mlp_dim=96,
                               num_layers=1, num_heads=3, spatial_dims=2).blocks[0], ((1, 16, 48),),
        ),
        "monai/DecoderOnlyTransformer block": WildNetwork(
            lambda: _construct("monai.networks.nets", "DecoderOnlyTransformer", num_tokens=16,
                               max_seq_len=16, attn_layers_dim=24, attn_layers_depth=1,
                               attn_layers_heads=2).blocks[0], ((1, 16, 24),),
        ),
    }  # fmt: skip


def _striped_labels(x: Any) -> Any:
    """Labels of three classes in stripes, with the size of `x`."""
    import torch

    rows = torch.arange(x.shape[-2]) * 3 // x.shape[-2]
    one = torch.nn.functional.one_hot(rows, 3).T.to(torch.float32)
    return one[None, :, :, None].expand(1, 3, x.shape[-2], x.shape[-1])
