"""Every torch.nn module and torch.nn.functional function, and extreme float32 inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

# The inputs that an item can take. "other" and "third" are pictures too, for functions of several.
SHAPES = {
    "vector": (3, 6),
    "row": (2, 5, 12),
    "picture": (2, 4, 9, 8),
    "volume": (1, 4, 5, 6, 4),
    "other": (2, 4, 9, 8),
    "third": (2, 4, 9, 8),
}


def _signs(rng: np.random.Generator, shape: tuple[int, ...], size: float) -> np.ndarray:
    return np.where(rng.random(shape) < 0.5, -size, size)


INPUT_KINDS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "zero": lambda _, shape: np.zeros(shape),
    "tiny": lambda rng, shape: _signs(rng, shape, 1e-30),
    "88": lambda rng, shape: _signs(rng, shape, 88),
    "large": lambda rng, shape: _signs(rng, shape, 1e4),
    "around 250": lambda rng, shape: rng.standard_normal(shape) + 250,
    "around 1000": lambda rng, shape: rng.random(shape) + 1e3,
    "constant": lambda _, shape: np.full(shape, 1234.567),
    "mixed": lambda rng, shape: rng.choice(
        [0.0, 1e-30, -1e-30, 88, -88, 89, -89, 104, -104, 1e4, -1e4, 0.5, -0.5], shape
    ),
}


def make_inputs(kind: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The inputs of one kind; each name has the same values in every run."""
    return {
        name: INPUT_KINDS[kind](
            np.random.default_rng(sum(map(ord, name + kind))), SHAPES[name]
        ).astype(np.float32)
        for name in names
    }


@dataclass(frozen=True)
class ModuleCase:
    """`make` returns a module that takes the inputs in `input_names`."""

    name: str
    make: Callable[[], nn.Module]
    input_names: tuple[str, ...] = ("picture",)


class FunctionModule(nn.Module):
    """Wraps a function of the inputs and of constants."""

    def __init__(self, call: Callable[..., object], constants: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self.call = call
        for number, constant in enumerate(constants):
            self.register_buffer(f"c{number}", constant)

    def forward(self, *tensors: Tensor) -> object:
        return self.call(*tensors, *self.buffers())


class ModuleBatch(nn.Module):
    """Several items as one model: compiled once, run on every kind of input."""

    def __init__(self, items: Sequence[ModuleCase]) -> None:
        super().__init__()
        self.inputs = [n for n in SHAPES if any(n in item.input_names for item in items)]
        self.items = items
        self.parts = nn.ModuleList()
        for item in items:
            torch.manual_seed(sum(map(ord, item.name)))
            self.parts.append(item.make())

    def forward(self, *tensors: Tensor) -> Mapping[str, Tensor]:
        given = dict(zip(self.inputs, tensors, strict=True))
        found: dict[str, Tensor] = {}
        for item, part in zip(self.items, self.parts, strict=True):
            result = part(*(given[name] for name in item.input_names))
            while isinstance(result, tuple | list):
                result = result[0]
            found[item.name] = result
        return found


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def _uniform(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _with_random_statistics(module: nn.Module) -> nn.Module:
    """Give a module running statistics other than a fresh module's."""
    for name, tensor in module.named_buffers():
        if name.endswith("running_mean"):
            tensor.copy_(_normal(*tensor.shape))
        elif name.endswith("running_var"):
            tensor.copy_(_uniform(*tensor.shape) + 0.3)
    return module


PICTURE_SHAPE = SHAPES["picture"]
VECTOR_SHAPE = SHAPES["vector"]
ROW_SHAPE = SHAPES["row"]
VOLUME_SHAPE = SHAPES["volume"]
PICTURE_INPUTS, ROW_INPUTS, VOLUME_INPUTS = ("picture",), ("row",), ("volume",)
VECTOR_INPUTS = ("vector",)
TWO_PICTURE_INPUTS, THREE_PICTURE_INPUTS = ("picture", "other"), ("picture", "other", "third")


def _cases_without_arguments(
    *names: str, input_names: tuple[str, ...] = PICTURE_INPUTS
) -> list[ModuleCase]:
    """Modules without arguments."""
    return [ModuleCase(f"nn.{name}", getattr(nn, name), input_names) for name in names]


def _cases_with_arguments(
    input_names: tuple[str, ...], **arguments: tuple[object, ...]
) -> list[ModuleCase]:
    """Modules, by name with their arguments."""
    return [
        ModuleCase(
            f"nn.{name}", lambda name=name, given=given: getattr(nn, name)(*given), input_names
        )
        for name, given in arguments.items()
    ]


def _function_cases(
    input_names: tuple[str, ...], *names: str, **arguments: tuple[object, ...]
) -> list[ModuleCase]:
    """Functions, with the arguments that follow their inputs."""
    return [
        ModuleCase(
            f"F.{name}",
            lambda name=name, given=given: FunctionModule(lambda *x: getattr(F, name)(*x, *given)),
            input_names,
        )
        for name, given in {**dict.fromkeys(names, ()), **arguments}.items()
    ]


def _function_case(
    name: str,
    call: Callable[..., object],
    input_names: tuple[str, ...] = PICTURE_INPUTS,
    *constants: Tensor,
) -> ModuleCase:
    return ModuleCase(f"F.{name}", lambda: FunctionModule(call, constants), input_names)


ACTIVATIONS = (
    *("CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU"),
    *("LogSigmoid", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid"),
    *("Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Identity", "Dropout"),
    *("Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "Softmax2d"),
    *("Flatten",),
)
LOSSES = ("HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss", "SoftMarginLoss", "PoissonNLLLoss")
TARGET_CLASSES = torch.tensor([1, 5, 0])

MODULE_CASES = [
    *_cases_without_arguments(*ACTIVATIONS),
    *_cases_with_arguments(PICTURE_INPUTS, GLU=(1,), Threshold=(0.1, 20.0), LogSoftmax=(1,), Softmax=(-1,), Softmin=(1,)),
    *_cases_with_arguments(PICTURE_INPUTS, AdaptiveAvgPool2d=((4, 3),), AdaptiveMaxPool2d=((4, 3),), AvgPool2d=(3, 2, 1)),
    *_cases_with_arguments(PICTURE_INPUTS, MaxPool2d=(3, 2, 1), LPPool2d=(2, 3), ChannelShuffle=(2,), PixelShuffle=(2,)),
    *_cases_with_arguments(PICTURE_INPUTS, CircularPad2d=(2,), ConstantPad2d=(1, 7.0), ReflectionPad2d=(2,), ZeroPad2d=(1,)),
    *_cases_with_arguments(PICTURE_INPUTS, ReplicationPad2d=(2,), Unflatten=(1, (2, 2)), Unfold=(3,), LocalResponseNorm=(3,)),
    *_cases_with_arguments(PICTURE_INPUTS, CrossMapLRN2d=(3,), Upsample=(None, 2), UpsamplingBilinear2d=(None, 2)),
    *_cases_with_arguments(PICTURE_INPUTS, UpsamplingNearest2d=(None, 2), Conv2d=(4, 5, 3), ConvTranspose2d=(4, 5, 3, 2)),
    *_cases_with_arguments(PICTURE_INPUTS, InstanceNorm2d=(4,), GroupNorm=(2, 4), LayerNorm=(8,), RMSNorm=(8,), Linear=(8, 3)),
    *_cases_with_arguments(PICTURE_INPUTS, FractionalMaxPool2d=(2, (4, 4))),
    ModuleCase("nn.PixelUnshuffle", lambda: nn.Sequential(nn.ZeroPad2d((0, 0, 1, 0)), nn.PixelUnshuffle(2))),
    ModuleCase("nn.BatchNorm2d", lambda: _with_random_statistics(nn.BatchNorm2d(4))),
    ModuleCase("nn.SyncBatchNorm", lambda: _with_random_statistics(nn.SyncBatchNorm(4))),
    ModuleCase("nn.Sequential", lambda: nn.Sequential(nn.Conv2d(4, 3, 3), nn.ReLU())),
    ModuleCase("nn.ParameterList", lambda: ScaledByEntry(nn.ParameterList([nn.Parameter(_normal(8))]), 0)),
    ModuleCase("nn.ParameterDict", lambda: ScaledByEntry(nn.ParameterDict({"a": nn.Parameter(_normal(8))}), "a")),
    ModuleCase("nn.ModuleList", lambda: ModuleSequence(nn.ModuleList([nn.Linear(8, 8), nn.GELU()]))),
    ModuleCase("nn.ModuleDict", lambda: ModuleSequence(nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Tanh()}))),
    *_cases_without_arguments("Dropout1d", input_names=ROW_INPUTS),
    _function_case("dropout1d", lambda x: F.dropout1d(x, training=False), ROW_INPUTS),
    *_cases_with_arguments(ROW_INPUTS, AdaptiveAvgPool1d=(4,), AdaptiveMaxPool1d=(4,), AvgPool1d=(3,), MaxPool1d=(3,)),
    *_cases_with_arguments(ROW_INPUTS, LPPool1d=(2, 3), CircularPad1d=(2,), ConstantPad1d=(1, 7.0), ReflectionPad1d=(2,)),
    *_cases_with_arguments(ROW_INPUTS, ReplicationPad1d=(2,), ZeroPad1d=(1,), Conv1d=(5, 4, 3), ConvTranspose1d=(5, 4, 3)),
    *_cases_with_arguments(ROW_INPUTS, InstanceNorm1d=(5,), GRU=(12, 7), LSTM=(12, 7), RNN=(12, 7)),
    ModuleCase("nn.BatchNorm1d", lambda: _with_random_statistics(nn.BatchNorm1d(5)), ROW_INPUTS),
    ModuleCase("nn.MultiheadAttention", lambda: SelfAttention(12), ROW_INPUTS),
    ModuleCase("nn.TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(12, 3, 16, batch_first=True).eval(), ROW_INPUTS),
    ModuleCase("nn.TransformerEncoder", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 16, batch_first=True), 2, enable_nested_tensor=False).eval(), ROW_INPUTS),
    ModuleCase("nn.TransformerDecoderLayer", lambda: TwoArgumentModule(nn.TransformerDecoderLayer(12, 3, 16, batch_first=True)), ROW_INPUTS),
    ModuleCase("nn.TransformerDecoder", lambda: TwoArgumentModule(nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 3, 16, batch_first=True), 2)), ROW_INPUTS),
    ModuleCase("nn.Transformer", lambda: TwoArgumentModule(nn.Transformer(12, 3, 1, 1, 16, batch_first=True)), ROW_INPUTS),
    *_cases_with_arguments(VECTOR_INPUTS, GRUCell=(6, 5), LSTMCell=(6, 5), RNNCell=(6, 5)),
    *_cases_with_arguments(VOLUME_INPUTS, AdaptiveAvgPool3d=(3,), AdaptiveMaxPool3d=(3,), AvgPool3d=(2,), MaxPool3d=(2,)),
    *_cases_with_arguments(VOLUME_INPUTS, LPPool3d=(2, 2), CircularPad3d=(1,), ConstantPad3d=(1, 7.0), ReflectionPad3d=(1,)),
    *_cases_with_arguments(VOLUME_INPUTS, ReplicationPad3d=(1,), ZeroPad3d=(1,), Conv3d=(4, 3, 2), ConvTranspose3d=(4, 3, 2)),
    *_cases_with_arguments(VOLUME_INPUTS, InstanceNorm3d=(4,), FractionalMaxPool3d=(2, (2, 2, 2))),
    ModuleCase("nn.BatchNorm3d", lambda: _with_random_statistics(nn.BatchNorm3d(4)), VOLUME_INPUTS),
    *(ModuleCase(f"nn.MaxUnpool{n}d", lambda n=n: MaxUnpooled(n), takes) for n, takes in ((1, ROW_INPUTS), (2, PICTURE_INPUTS), (3, VOLUME_INPUTS))),
    ModuleCase("nn.Fold", lambda: nn.Sequential(nn.Unfold(2), nn.Fold((9, 8), 2))),
    ModuleCase("nn.Embedding", lambda: EmbeddingLookup(nn.Embedding(9, 4)), VECTOR_INPUTS),
    ModuleCase("nn.EmbeddingBag", lambda: EmbeddingLookup(nn.EmbeddingBag(9, 4)), VECTOR_INPUTS),
    *(ModuleCase(f"nn.{name}", getattr(nn, name), TWO_PICTURE_INPUTS) for name in (*LOSSES, "KLDivLoss", "CosineSimilarity", "PairwiseDistance")),
    ModuleCase("nn.BCELoss", lambda: LossToTarget(nn.BCELoss(reduction="none"), _uniform(*PICTURE_SHAPE), torch.sigmoid)),
    ModuleCase("nn.BCEWithLogitsLoss", lambda: LossToTarget(nn.BCEWithLogitsLoss(reduction="none"), _uniform(*PICTURE_SHAPE))),
    ModuleCase("nn.GaussianNLLLoss", lambda: GaussianLoss(nn.GaussianNLLLoss(reduction="none")), TWO_PICTURE_INPUTS),
    ModuleCase("nn.HingeEmbeddingLoss", lambda: LossToTarget(nn.HingeEmbeddingLoss(), _normal(*PICTURE_SHAPE).sign())),
    ModuleCase("nn.CrossEntropyLoss", lambda: LossToTarget(nn.CrossEntropyLoss(reduction="none"), TARGET_CLASSES), VECTOR_INPUTS),
    ModuleCase("nn.NLLLoss", lambda: LossToTarget(nn.NLLLoss(reduction="none"), TARGET_CLASSES), VECTOR_INPUTS),
    ModuleCase("nn.NLLLoss2d", lambda: LossToTarget(nn.NLLLoss2d(), torch.arange(144).reshape(2, 9, 8) % 4)),
    ModuleCase("nn.MultiMarginLoss", lambda: LossToTarget(nn.MultiMarginLoss(), TARGET_CLASSES), VECTOR_INPUTS),
    ModuleCase("nn.MultiLabelMarginLoss", lambda: LossToTarget(nn.MultiLabelMarginLoss(), torch.tensor([[3, 0, -1, 1, 1, 1]] * 3)), VECTOR_INPUTS),
    ModuleCase("nn.MultiLabelSoftMarginLoss", lambda: LossToTarget(nn.MultiLabelSoftMarginLoss(), _uniform(*VECTOR_SHAPE).round()), VECTOR_INPUTS),
    ModuleCase("nn.CTCLoss", lambda: CtcLoss(), ROW_INPUTS),
    ModuleCase("nn.AdaptiveLogSoftmaxWithLoss", lambda: LossToTarget(nn.AdaptiveLogSoftmaxWithLoss(6, 8, [4]), TARGET_CLASSES), VECTOR_INPUTS),
    ModuleCase("nn.LinearCrossEntropyLoss", lambda: LossToTarget(nn.LinearCrossEntropyLoss(6, 8), TARGET_CLASSES), VECTOR_INPUTS),
    ModuleCase("nn.MarginRankingLoss", lambda: RankingLoss(nn.MarginRankingLoss(), PICTURE_SHAPE), TWO_PICTURE_INPUTS),
    ModuleCase("nn.CosineEmbeddingLoss", lambda: CosineLoss(nn.CosineEmbeddingLoss()), VECTOR_INPUTS),
    ModuleCase("nn.TripletMarginLoss", nn.TripletMarginLoss, THREE_PICTURE_INPUTS),
    ModuleCase("nn.TripletMarginWithDistanceLoss", nn.TripletMarginWithDistanceLoss, THREE_PICTURE_INPUTS),
    ModuleCase("nn.Bilinear", lambda: nn.Bilinear(8, 8, 3), TWO_PICTURE_INPUTS),
    # Functions
    *_function_cases(PICTURE_INPUTS, "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh"),
    *_function_cases(PICTURE_INPUTS, "leaky_relu", "logsigmoid", "mish", "relu", "relu6", "rrelu", "selu", "silu"),
    *_function_cases(PICTURE_INPUTS, "sigmoid", "softplus", "softshrink", "softsign", "tanh", "tanhshrink"),
    *(_function_case(f"{n}_", lambda x, n=n: getattr(F, f"{n}_")(x.clone())) for n in ("celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu")),
    _function_case("threshold_", lambda x: F.threshold_(x.clone(), 0.1, 20.0)),
    *_function_cases(PICTURE_INPUTS, threshold=(0.1, 20.0), glu=(1,), softmax=(-1,), log_softmax=(1,), softmin=(1,), normalize=()),
    *(_function_case(n, lambda x, n=n: getattr(F, n)(x, training=False)) for n in ("dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")),
    *_function_cases(PICTURE_INPUTS, adaptive_avg_pool2d=((4, 3),), adaptive_max_pool2d=((4, 3),), avg_pool2d=(3, 2, 1), max_pool2d=(3, 2, 1)),
    *_function_cases(PICTURE_INPUTS, lp_pool2d=(3.0, 3), channel_shuffle=(2,), native_channel_shuffle=(2,), pixel_shuffle=(2,), unfold=(3,)),
    *_function_cases(PICTURE_INPUTS, pad=((1, 2, 0, 1), "reflect"), local_response_norm=(3,), instance_norm=(), group_norm=(2,), layer_norm=((9, 8),), rms_norm=((9, 8),)),
    *_function_cases(PICTURE_INPUTS, adaptive_max_pool2d_with_indices=((4, 3),), max_pool2d_with_indices=(3,), fractional_max_pool2d=(2, (4, 4)), fractional_max_pool2d_with_indices=(2, (4, 4))),
    _function_case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x[:, :, 1:], 2)),
    _function_case("fold", lambda x: F.fold(F.unfold(x, 3), (9, 8), 3)),
    _function_case("interpolate", lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic")),
    _function_case("upsample", lambda x: F.upsample(x, scale_factor=2)),
    _function_case("upsample_bilinear", lambda x: F.upsample_bilinear(x, scale_factor=2)),
    _function_case("upsample_nearest", lambda x: F.upsample_nearest(x, scale_factor=2)),
    _function_case("grid_sample", lambda x, a: F.grid_sample(x, a, align_corners=False), PICTURE_INPUTS, _uniform(2, 5, 6, 2) * 2 - 1),
    _function_case("affine_grid", lambda x: F.affine_grid(x[:, :2, 0, :3], (2, 4, 5, 6), align_corners=False)),
    _function_case("linear", lambda x, a, b: F.linear(x, a, b), PICTURE_INPUTS, _normal(5, 8), _normal(5)),
    _function_case("conv2d", lambda x, a, b: F.conv2d(x, a, b), PICTURE_INPUTS, _normal(5, 4, 3, 3), _normal(5)),
    _function_case("conv_transpose2d", lambda x, a: F.conv_transpose2d(x, a, None, 2), PICTURE_INPUTS, _normal(4, 5, 3, 3)),
    _function_case("prelu", lambda x, a: F.prelu(x, a), PICTURE_INPUTS, _normal(4)),
    _function_case("batch_norm", lambda x, a, b, c, d: F.batch_norm(x, a, b, c, d), PICTURE_INPUTS, _normal(4), _uniform(4) + 0.1, _normal(4), _normal(4)),
    _function_case("batch_norm in training", lambda x: F.batch_norm(x, None, None, training=True)),
    _function_case("scaled_dot_product_attention", lambda x: F.scaled_dot_product_attention(x, x, x)),
    _function_case("scaled_dot_product_attention of others", lambda x, y, z: F.scaled_dot_product_attention(x, y, z), THREE_PICTURE_INPUTS),
    _function_case("multi_head_attention_forward", lambda x, a, b, c, d: F.multi_head_attention_forward(x, x, x, 12, 3, a, b, None, None, False, 0.0, c, d, training=False)[0], ROW_INPUTS, _normal(36, 12), _normal(36), _normal(12, 12), _normal(12)),
    *_function_cases(ROW_INPUTS, adaptive_avg_pool1d=(4,), adaptive_max_pool1d=(4,), avg_pool1d=(3,), max_pool1d=(3,), lp_pool1d=(2.0, 3)),
    *_function_cases(ROW_INPUTS, adaptive_max_pool1d_with_indices=(4,), max_pool1d_with_indices=(3,)),
    _function_case("conv1d", lambda x, a, b: F.conv1d(x, a, b), ROW_INPUTS, _normal(4, 5, 3), _normal(4)),
    _function_case("conv_tbc", lambda x, a, b: F.conv_tbc(x, a, b), ROW_INPUTS, _normal(3, 12, 4), _normal(4)),
    _function_case("conv_transpose1d", lambda x, a: F.conv_transpose1d(x, a), ROW_INPUTS, _normal(5, 4, 3)),
    *_function_cases(VOLUME_INPUTS, adaptive_avg_pool3d=(3,), adaptive_max_pool3d=(3,), avg_pool3d=(2,), max_pool3d=(2,), lp_pool3d=(2.0, 2)),
    *_function_cases(VOLUME_INPUTS, adaptive_max_pool3d_with_indices=(3,), max_pool3d_with_indices=(2,), fractional_max_pool3d=(2, (2, 2, 2)), fractional_max_pool3d_with_indices=(2, (2, 2, 2))),
    _function_case("conv3d", lambda x, a: F.conv3d(x, a), VOLUME_INPUTS, _normal(3, 4, 2, 2, 2)),
    _function_case("conv_transpose3d", lambda x, a: F.conv_transpose3d(x, a), VOLUME_INPUTS, _normal(4, 3, 2, 2, 2)),
    _function_case("max_unpool1d", lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), ROW_INPUTS),
    _function_case("max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)),
    _function_case("max_unpool3d", lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), VOLUME_INPUTS),
    *_function_cases(TWO_PICTURE_INPUTS, "cosine_similarity", "huber_loss", "kl_div", "l1_loss", "mse_loss", "pairwise_distance", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss"),
    _function_case("bilinear", lambda x, y, a: F.bilinear(x, y, a), TWO_PICTURE_INPUTS, _normal(3, 8, 8)),
    _function_case("binary_cross_entropy", lambda x, a: F.binary_cross_entropy(x.sigmoid(), a, reduction="none"), PICTURE_INPUTS, _uniform(*PICTURE_SHAPE)),
    _function_case("binary_cross_entropy_with_logits", lambda x, a: F.binary_cross_entropy_with_logits(x, a, reduction="none"), PICTURE_INPUTS, _uniform(*PICTURE_SHAPE)),
    _function_case("gaussian_nll_loss", lambda x, y, a: F.gaussian_nll_loss(x, y, a), TWO_PICTURE_INPUTS, _uniform(*PICTURE_SHAPE) + 0.1),
    _function_case("hinge_embedding_loss", lambda x, a: F.hinge_embedding_loss(x, a), PICTURE_INPUTS, _normal(*PICTURE_SHAPE).sign()),
    _function_case("cross_entropy", lambda x, a: F.cross_entropy(x, a, label_smoothing=0.1), VECTOR_INPUTS, TARGET_CLASSES),
    _function_case("nll_loss", lambda x, a: F.nll_loss(x, a), VECTOR_INPUTS, TARGET_CLASSES),
    _function_case("multi_margin_loss", lambda x, a: F.multi_margin_loss(x, a), VECTOR_INPUTS, TARGET_CLASSES),
    _function_case("multilabel_margin_loss", lambda x, a: F.multilabel_margin_loss(x, a), VECTOR_INPUTS, torch.tensor([[3, 0, -1, 1, 1, 1]] * 3)),
    _function_case("multilabel_soft_margin_loss", lambda x, a: F.multilabel_soft_margin_loss(x, a), VECTOR_INPUTS, _uniform(*VECTOR_SHAPE).round()),
    _function_case("ctc_loss", lambda x, a: F.ctc_loss(x.log_softmax(-1), a, (2,) * 5, (2,) * 5), ROW_INPUTS, torch.tensor([[1, 2], [1, 3], [2, 1], [4, 4], [5, 1]])),
    _function_case("linear_cross_entropy", lambda x, a, b: F.linear_cross_entropy(x, a, b), VECTOR_INPUTS, _normal(8, 6), TARGET_CLASSES),
    _function_case("margin_ranking_loss", lambda x, y, a: F.margin_ranking_loss(x, y, a), TWO_PICTURE_INPUTS, _normal(*PICTURE_SHAPE).sign()),
    _function_case("cosine_embedding_loss", lambda x, a, b: F.cosine_embedding_loss(x, a, b), VECTOR_INPUTS, _normal(*VECTOR_SHAPE), torch.tensor([1, -1, 1])),
    *_function_cases(THREE_PICTURE_INPUTS, "triplet_margin_loss", "triplet_margin_with_distance_loss"),
    _function_case("embedding", lambda x, a: F.embedding(_positive_indices(x), a), VECTOR_INPUTS, _normal(9, 4)),
    _function_case("embedding_bag", lambda x, a: F.embedding_bag(_positive_indices(x), a), VECTOR_INPUTS, _normal(9, 4)),
    _function_case("one_hot", lambda x: F.one_hot(_positive_indices(x), 9), VECTOR_INPUTS),
    _function_case("pdist", F.pdist, VECTOR_INPUTS),
]  # fmt: skip


def _positive_indices(x: Tensor) -> Tensor:
    return (x > 0).long()


class ScaledByEntry(nn.Module):
    def __init__(self, kept: nn.Module, key: int | str) -> None:
        super().__init__()
        self.kept, self.key = kept, key

    def forward(self, x: Tensor) -> Tensor:
        return x * self.kept[self.key]


class ModuleSequence(nn.Module):
    def __init__(self, kept: nn.Module) -> None:
        super().__init__()
        self.kept = kept

    def forward(self, x: Tensor) -> Tensor:
        for one in self.kept.values() if isinstance(self.kept, nn.ModuleDict) else self.kept:
            x = one(x)
        return x


class SelfAttention(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(size, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x)[0]


class TwoArgumentModule(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x.flip(1))


class MaxUnpooled(nn.Module):
    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dimensions}d")(2, return_indices=True)
        self.back = getattr(nn, f"MaxUnpool{dimensions}d")(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.back(*self.pool(x))


class EmbeddingLookup(nn.Module):
    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table

    def forward(self, x: Tensor) -> Tensor:
        return self.table(_positive_indices(x))


class LossToTarget(nn.Module):
    def __init__(
        self, loss: nn.Module, target: Tensor, first: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        self.loss, self.first = loss, first
        self.register_buffer("target", target)

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x if self.first is None else self.first(x), self.target)


class GaussianLoss(nn.Module):
    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.register_buffer("variance", _uniform(*PICTURE_SHAPE) + 0.1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(x, y, self.variance)


class RankingLoss(nn.Module):
    def __init__(self, loss: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.loss = loss
        self.register_buffer("target", _normal(*shape).sign())

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(x, y, self.target)


class CosineLoss(nn.Module):
    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.register_buffer("other", _normal(*VECTOR_SHAPE))
        self.register_buffer("target", torch.tensor([1, -1, 1]))

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x, self.other, self.target)


class CtcLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.CTCLoss()
        self.register_buffer("target", torch.tensor([[1, 2], [1, 3], [2, 1], [4, 4], [5, 1]]))

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x.log_softmax(-1), self.target, (2,) * 5, (2,) * 5)


# Items that do not load; each raises an nbglcnn error.
REFUSED_CASES = (
    *("F.conv_tbc", "F.cross_entropy", "F.ctc_loss", "F.embedding_bag", "F.fractional_max_pool2d"),
    *(
        "F.fractional_max_pool2d_with_indices",
        "F.fractional_max_pool3d",
        "F.fractional_max_pool3d_with_indices",
    ),
    *(
        "F.gaussian_nll_loss",
        "F.linear_cross_entropy",
        "F.native_channel_shuffle",
        "F.nll_loss",
        "F.pdist",
    ),
    *(
        "F.rrelu_",
        "nn.AdaptiveLogSoftmaxWithLoss",
        "nn.CTCLoss",
        "nn.CrossEntropyLoss",
    ),
    *(
        "nn.CrossMapLRN2d",
        "nn.EmbeddingBag",
        "nn.FractionalMaxPool2d",
        "nn.FractionalMaxPool3d",
        "nn.GRU",
    ),
    *("nn.MultiLabelMarginLoss", "F.multilabel_margin_loss"),
    *("nn.GaussianNLLLoss", "nn.LSTM", "nn.LinearCrossEntropyLoss", "nn.NLLLoss"),
)

# Known numerical differences, by kind of input, and the reasons.
KNOWN_DIFFERENCES: dict[str, tuple[str, ...]] = {
    # sigmoid(-88) is a denormal number, which devices flush to 0; log(0) is then clamped to -100
    **dict.fromkeys(("nn.BCELoss", "F.binary_cross_entropy"), ("88", "mixed")),
    # Scores of 200,000 have a resolution of 1/64; softmax exposes the last step, the order of
    # summation
    "F.scaled_dot_product_attention of others": ("around 250",),
}

# Not callable with tensors alone: containers, lazy modules, in-place functions.
EXCLUDED = (
    *("nn.Module", "nn.Container", "nn.DataParallel", "nn.RNNBase", "nn.RNNCellBase"),
    *("F.Optional", "F.assert_int_or_pair", "F.boolean_dispatch", "F.handle_torch_function"),
    *("F.has_torch_function", "F.has_torch_function_unary", "F.has_torch_function_variadic"),
    *(
        "F.gumbel_softmax",
        "F.grouped_mm",
        "F.scaled_grouped_mm",
        "F.scaled_mm",
    ),  # random; half precision
)
