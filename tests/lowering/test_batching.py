"""Batches in pieces: a Session returns the model's result for all examples at once, or refuses."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import nbglcnn
import zoo
from nbglcnn import InputError, Session
from onnx_models import model_of, node, randn

SHAPE = (4, 6, 6)  # of one example


class FunctionModule(nn.Module):
    """Wrap a function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class TokenAttention(nn.Module):
    """Attention with channels as tokens; `batch_first` sets which axis it takes for the batch."""

    def __init__(self, batch_first: bool, is_transposed: bool) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(36, 4, batch_first=batch_first)
        self.turned = is_transposed

    def forward(self, x: Tensor) -> Tensor:
        y = x.flatten(2)
        y = y.transpose(0, 1) if self.turned else y
        y = self.layer(y, y, y)[0]
        return y.transpose(0, 1) if self.turned else y


def split_into_windows(x: Tensor) -> Tensor:
    """(4 windows of each example, channels, 9 pixels)."""
    return x.reshape(len(x), 4, 2, 3, 2, 3).permute(0, 2, 4, 1, 3, 5).reshape(-1, 4, 9)


def unfold_windows(x: Tensor) -> Tensor:
    """The inverse of `windows`."""
    return x.reshape(-1, 2, 2, 4, 3, 3).permute(0, 3, 1, 4, 2, 5).reshape(-1, *SHAPE)


def sampling_grid(x: Tensor) -> Tensor:
    """A sampling grid per example, which is not an input."""
    matrix = torch.eye(2, 3).expand(len(x), -1, -1)
    return F.affine_grid(matrix, list(x.shape), align_corners=False)


def per_example_conv(x: Tensor, outputs: int) -> Tensor:
    """Convolve each example with its own filters, as in StyleGAN."""
    n = len(x)
    filters = x[:, :, :3, :3].repeat(1, outputs, 1, 1).reshape(-1, 4, 3, 3)
    return F.conv2d(x.reshape(1, -1, 6, 6), filters, groups=n).reshape(n, outputs, 4, 4)


INDEPENDENT_EXAMPLES: dict[str, Any] = {
    "convolution": nn.Conv2d(4, 3, 3),
    "batch norm": nn.BatchNorm2d(4),
    "instance norm": nn.InstanceNorm2d(4, affine=True),
    "group norm": nn.GroupNorm(2, 4),
    "layer norm": nn.LayerNorm([4, 6, 6]),
    "layer norm of rows": nn.LayerNorm(6),
    "local response norm": nn.LocalResponseNorm(3),
    "classifier": nn.Sequential(nn.Flatten(), nn.Linear(144, 5), nn.Softmax(1)),
    "mean": lambda x: x.mean((2, 3)),
    "pooled and flat": lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1),
    "uneven pool": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "interpolation": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "pixel shuffle": nn.PixelShuffle(2),
    "channel shuffle": nn.ChannelShuffle(2),
    "shuffled by view": lambda x: x.view(len(x), 2, 2, 6, 6).transpose(1, 2).reshape(x.shape),
    "glu": nn.GLU(1),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.flatten(2).transpose(1, 2)] * 3),
    "attention module": TokenAttention(True, False),
    "attention module, turned": TokenAttention(False, True),
    "transformer": nn.Sequential(
        nn.Flatten(2), nn.TransformerEncoderLayer(36, 4, 50, batch_first=True)
    ),
    "both halves of a batch": lambda x: sum(torch.cat([x, x.flip(3)]).relu().chunk(2)),
    "channels as examples": lambda x: x.reshape(-1, 1, 6, 6).softmax(2).reshape(x.shape),
    "pairs of channels as examples": lambda x: (
        x.reshape(-1, 2, 6, 6).mean(1).reshape(len(x), 2, 6, 6)
    ),
    "turned and back": lambda x: x.permute(1, 0, 2, 3).relu().permute(1, 0, 2, 3),
    "rolled pixels": lambda x: x.roll(1, 3),
    "products of an example": lambda x: x.flatten(2) @ x.flatten(2).transpose(1, 2),
    "distances within an example": lambda x: torch.cdist(x.flatten(2), x.flatten(2)),
    "einsum within an example": lambda x: torch.einsum("nchw,ndhw->ncd", x, x),
    "less the largest": lambda x: x - x.amax((1, 2, 3), keepdim=True),
    "variance": lambda x: x / x.var((1, 2, 3), keepdim=True),
    "normalised channels": lambda x: F.normalize(x, dim=1),
    "sorted channels": lambda x: x.sort(1)[0],
    "largest three": lambda x: x.flatten(1).topk(3)[0],
    "sums of channels so far": lambda x: x.cumsum(1),
    "chosen channels": lambda x: x[:, [2, 0, 1]],
    "channels by rank": lambda x: torch.take_along_dim(x, x.argsort(1), 1),
    "scattered channels": lambda x: torch.zeros_like(x).scatter(1, x.argsort(1), x),
    "a channel replaced": lambda x: x.index_copy(1, torch.tensor([0]), x[:, 1:2]),
    "rows replaced": lambda x: torch.slice_scatter(x, x[:, :, :2] * 2, 2, 1, 3),
    "sampled on a grid": lambda x: F.grid_sample(x, sampling_grid(x), align_corners=False),
    "sampled where it says": lambda x: F.grid_sample(
        x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False
    ),
    "unpooled": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "indices of a pool": lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
    "average pool": nn.AvgPool2d(3, 1, 1),
    "reflected": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "cropped": lambda x: x[:, :, 1:-1, 1:-1],
    "where": lambda x: torch.where(x > 0, x, x.mean((1, 2, 3), keepdim=True)),
    "a class token": lambda x: torch.cat(
        [torch.ones(1, 1, 36).expand(len(x), -1, -1), x.flatten(2)], 1
    ),
    "windows unfolded": lambda x: F.unfold(x, 3),
    "stacked and summed": lambda x: torch.stack([x, x * 2], 1).sum(1),
    "stacked in front": lambda x: torch.stack([x, x * 2], 0).sum(0),
    "filters of its own": lambda x: per_example_conv(x, 2),
    "windows": lambda x: unfold_windows(split_into_windows(x).softmax(2)),
    "windows with a mask": lambda x: unfold_windows(
        (split_into_windows(x).reshape(-1, 4, 4, 9) + torch.arange(4.0)[None, :, None,
            None]).reshape(-1, 4, 9)
    ),
    "embedding": lambda x: F.embedding(
        (x.flatten(1) > 0).long(), torch.arange(6.0).view(2, 3)
    ),
    "one-hot": lambda x: F.one_hot((x.flatten(1) > 0).long(), 2),
    "triangle": lambda x: x.tril(),
    "diagonal": lambda x: torch.diagonal(x, 0, 2, 3),
    "spectrum": lambda x: torch.fft.rfft2(x).abs(),
    "channels repeated": lambda x: x.repeat(1, 2, 1, 1),
}  # fmt: skip
COUPLED_EXAMPLES: dict[str, Any] = {
    "batch norm without statistics": nn.Sequential(
        nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)
    ),
    "batch norm of the batch": lambda x: F.batch_norm(x, None, None, training=True),
    "less the mean": lambda x: x - x.mean(0),
    "less the mean, axis kept": lambda x: x - x.mean(0, keepdim=True),
    "less the mean of all": lambda x: x - x.mean(),
    "by the deviation": lambda x: (x - x.mean(0)) / (x.std(0, unbiased=False) + 1),
    "largest of all": lambda x: x - x.amax(),
    "any": lambda x: x * (x > 0).any(0),
    "position of the largest": lambda x: x.argmax(0, keepdim=True) + x,
    "log of the sum of exponentials": lambda x: x - x.logsumexp(0),
    "share of the sum": lambda x: x / x.sum(),
    "product": lambda x: x * x.prod(0),
    "softmax": lambda x: x.softmax(0),
    "normalised": lambda x: F.normalize(x, dim=0),
    "sums so far": lambda x: x.cumsum(0),
    "sorted": lambda x: x.sort(0)[0],
    "products of examples": lambda x: x.flatten(1) @ x.flatten(1).T,
    "distances of examples": lambda x: torch.cdist(x.flatten(1), x.flatten(1)),
    "cosines of examples": lambda x: F.cosine_similarity(x[:, None], x[None], dim=2),
    "einsum of examples": lambda x: torch.einsum("nchw,mchw->nm", x, x),
    "differences of examples": lambda x: x.unsqueeze(0) - x.unsqueeze(1),
    "less the first": lambda x: x - x[0],
    "less the first, axis kept": lambda x: x - x[:1],
    "less the one before": lambda x: x - torch.cat([x[:1], x[:-1]]),
    "the first for all": lambda x: x[torch.zeros(len(x), dtype=torch.long)],
    "reversed": lambda x: x.flip(0),
    "rolled": lambda x: x - x.roll(1, 0),
    "reshaped and softmax": lambda x: x.reshape(-1, 2).softmax(0).reshape(x.shape),
    "channels as examples": lambda x: x.reshape(-1, 1, 6, 6).softmax(0).reshape(x.shape),
    "windows": lambda x: unfold_windows(split_into_windows(x).softmax(0)),
    "turned": lambda x: x.permute(1, 0, 2, 3),
    "turned, softmax and back": lambda x: x.permute(1, 0, 2, 3).softmax(1).permute(1, 0, 2, 3),
    "attention over examples": lambda x: (
        F.scaled_dot_product_attention(*[x.flatten(2).transpose(0, 1)] * 3).transpose(0, 1)
    ),
    "attention module": TokenAttention(False, False),
    "transformer": nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(36, 4, 50)),
    "spectrum of the batch": lambda x: torch.fft.fft(x, dim=0).abs(),
    "deviation as a channel": lambda x: torch.cat(
        [x, x.std(0, unbiased=False).mean().expand(len(x), 1, 6, 6)], 1
    ),
    "scattered": lambda x: torch.zeros_like(x).scatter(0, torch.zeros_like(x).long(), x),
    "added at the first": lambda x: torch.zeros_like(x).index_add(
        0, torch.zeros(len(x), dtype=torch.long), x
    ),
    "mean of pairs of channels": lambda x: x.reshape(len(x) * 2, 2, 6, 6).mean((1, 2, 3)),
    # A Plan for one example does not show the dependence in these.
    "numbered": lambda x: x * torch.arange(1, len(x) + 1).view(-1, 1, 1, 1),
    "numbered by a mask of zeros": lambda x: x * torch.arange(len(x)).view(-1, 1, 1, 1),
    "windows that are numbered": lambda x: unfold_windows(
        split_into_windows(x) + torch.arange(4.0 * len(x))[:, None, None]
    ),
    "numbered from 0 to 1": lambda x: x + torch.linspace(0, 1, len(x)).view(-1, 1, 1, 1),
    "a vector without its batch": lambda x: x.mean((2, 3)).squeeze().softmax(0),
    "group norm of one example": lambda x: (
        F.group_norm(x.reshape(1, -1, 6, 6), 2).reshape(x.shape)
    ),
    "softmax of one example": lambda x: x.reshape(1, -1).softmax(1).reshape(x.shape),
    "turned, flat and the mean": lambda x: x.transpose(0, 1).flatten(1).mean(1),
    "examples as frames": lambda x: F.conv3d(
        x.transpose(0, 1)[None], torch.ones(4, 4, 3, 1, 1), padding=(1, 0, 0)
    )[0].transpose(0, 1),
    "spectrum of all axes": lambda x: torch.fft.fftn(x).real,
    # A Plan for several examples does not show it in these.
    "by the number of examples": lambda x: x / x.shape[0],
}  # fmt: skip
BATCH_SIZE_DEPENDENT: dict[str, Any] = {
    "twice as much for several": (lambda x: x.relu() * (2 if len(x) > 1 else 1), 1),
    "twice as much for four": (lambda x: x.relu() * (2 if len(x) > 3 else 1), 2),
}
CASES = [
    *((f"apart: {name}", one, n) for name, one in INDEPENDENT_EXAMPLES.items() for n in (1, 2)),
    *((f"across: {name}", one, n) for name, one in COUPLED_EXAMPLES.items() for n in (1, 2)),
    *((f"across: {name}", *one) for name, one in BATCH_SIZE_DEPENDENT.items()),
    *(
        (f"across: {name}", COUPLED_EXAMPLES[name], 3)
        for name in ("numbered", "by the number of examples")
    ),
    ("apart: reversed twice", lambda x: x.flip(0).flip(0), 2),
]


def as_module(module_or_function: Any) -> nn.Module:
    return (
        module_or_function
        if isinstance(module_or_function, nn.Module)
        else FunctionModule(module_or_function)
    ).eval()


def expected_batch_result(model: nn.Module, x: Tensor, batch: int) -> np.ndarray | None:
    """The model's result for the whole batch; None if results of pieces differ from it."""
    with torch.no_grad():
        batches = [model(x[k : k + batch]) for k in range(0, len(x), batch)]
        try:
            all_of_it = model(x)
        except RuntimeError:  # it takes the batch for another axis
            return None
    if len(all_of_it.shape) == 0 or all_of_it.shape[0] != len(x) or len(batches[0]) != batch:
        return None
    joined = torch.cat(batches).float()
    if joined.shape != all_of_it.shape:
        return None
    near = torch.allclose(joined, all_of_it.float(), rtol=1e-4, atol=1e-5, equal_nan=True)
    return all_of_it.numpy() if near else None


@pytest.mark.parametrize(("name", "given", "batch"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
def test_pieces_give_what_the_whole_batch_gives_or_are_refused(
    name: str, given: Any, batch: int
) -> None:
    torch.manual_seed(0)
    model, x = as_module(given), torch.randn(3 * batch, *SHAPE)
    right = expected_batch_result(model, x, batch)
    assert (right is not None) == name.startswith("apart")
    with Session(nbglcnn.compile(model, x[:batch], observe="outputs")) as session:
        if right is None:
            with pytest.raises(InputError, match=f"compile for a batch of {len(x)}"):
                session.run(x)
        else:
            np.testing.assert_allclose(session.run(x)["output"], right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_the_layer_that_computes_across_examples_is_named(batch: int) -> None:
    model = nn.Sequential(
        nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU()
    )
    x = randn(7, *SHAPE)
    with Session(nbglcnn.compile(model.eval(), x[:batch])) as session:
        words = f"7 examples would run in batches of {batch}, but '1' computes across the batch"
        with pytest.raises(InputError, match=words):
            session.run(x)
        found = session.run(x, read=["0"])["0"]  # values before it are per example
        with torch.no_grad():
            right = model[0](torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, right, atol=1e-5)
        with pytest.raises(InputError, match="'2' depends on it"):
            session.run(x, read=["2"])
    with Session(nbglcnn.compile(model, x)) as session, torch.no_grad():
        right = model(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(session.run(x)["2"], right, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_softmax_over_the_examples_of_an_onnx_file_is_refused_in_pieces(batch: int) -> None:
    # For a torch module, a run with another batch size shows it, too; a file has no such run.
    model = model_of([node("Softmax", ["x"], ["y"], axis=0)], {"x": (batch, 4)}, ["y"])
    x = randn(4, 4)
    with Session(nbglcnn.compile(model, x[:batch])) as session:
        with pytest.raises(InputError, match="compile for a batch of 4"):
            session.run(x)
        expected = torch.from_numpy(x[:batch]).softmax(0).numpy()
        np.testing.assert_allclose(session.run(x[:batch])["y"], expected, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 3])
def test_hooks_of_the_user_see_the_batch_that_was_given_and_no_other(batch: int) -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()).eval()
    seen = []
    model[0].register_forward_hook(lambda module, args, output: seen.append(len(output)))
    plan = nbglcnn.compile(model, randn(batch, *SHAPE))
    assert set(seen) == {batch}
    assert all(value.per_example and not value.mixing_layer for value in plan.values)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_model_that_needs_its_hooks_is_accepted(batch: int) -> None:
    model = nn.Sequential(nn.Flatten(2), nn.Conv2d(4, 4, 3)).eval()
    model[1].register_forward_pre_hook(lambda module, args: (args[0].reshape(-1, *SHAPE),))
    x = randn(batch, *SHAPE)
    with Session(nbglcnn.compile(model, x)) as session, torch.no_grad():
        np.testing.assert_allclose(
            session.run(x)["output"], model(torch.from_numpy(x)).numpy(), atol=1e-5
        )


def test_what_computes_across_examples_is_not_recorded_in_pieces(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)).eval()
    x = randn(6, *SHAPE)
    for size in (1, 2, 4):
        with pytest.raises(InputError, match=r"'1' computes across the.*: give batch_size=6"):
            nbglcnn.record(model, x, ["1"], tmp_path / "a.zarr", batch_size=size)
    assert nbglcnn.record(model, x, ["0"], tmp_path / "b.zarr", batch_size=2)["0"].shape[0] == 6
    group = nbglcnn.record(model, x, ["1"], tmp_path / "c.zarr", batch_size=6)
    with torch.no_grad():
        np.testing.assert_allclose(group["1"][:], model(torch.from_numpy(x)).numpy(), atol=1e-4)


def test_a_source_of_single_examples_is_not_given_to_what_computes_across_them() -> None:
    model = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False)).eval()
    viewer = nbglcnn.Viewer(model, randn(2, 3, 6, 6))
    with pytest.raises(InputError, match="'0' computes across the examples of a batch"):
        viewer.source = nbglcnn.Images([np.zeros((6, 6, 3), np.uint8)] * 2)
    viewer.close()


def test_what_follows_from_no_example_has_no_axis_of_examples() -> None:
    constant = randn(2, 3)
    nodes = [node("Relu", ["x"], ["y"]), node("Identity", ["c"], ["z"])]
    for same in (False, True):
        rows = np.repeat(constant[:1], 2, 0) if same else constant
        model = model_of(nodes, {"x": (2, 3)}, ["y", "z"], constants={"c": rows})
        with Session(nbglcnn.compile(model)) as session:
            if same:
                assert session.run(randn(6, 3))["z"].shape == (6, 3)
            else:
                with pytest.raises(InputError, match=r"'z' of shape .* has no batch axis"):
                    session.run(randn(6, 3))


def test_flat_indices_of_a_pool_count_the_whole_batch() -> None:
    pool = node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2])
    model: onnx.ModelProto = model_of([pool], {"x": (1, 2, 4, 4)}, ["y", "i"])
    with (
        Session(nbglcnn.compile(model)) as session,
        pytest.raises(InputError, match=r"'i' of shape .* has no batch axis"),
    ):
        session.run(randn(3, 2, 4, 4))


# If its windows overlap the border, SegNet unpools by indices into the whole batch.
@pytest.mark.parametrize("name", [name for name in zoo.ZOO if name != "segnet"])
def test_no_ordinary_network_computes_across_examples(name: str) -> None:
    model, inputs = zoo.build(name)
    for batch in (1, 2):
        own = tuple(torch.cat([one, one])[:batch] for one in inputs)
        plan = nbglcnn.compile(model, own, observe="outputs")
        assert [value.mixing_layer for value in plan.values] == [""] * len(plan.values)
        assert all(value.per_example for value in plan.values)


VANISHING_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "cumprod": lambda x: x.cumprod(0),
    "doubling": lambda x: x if len(x) == 1 else x + x.flip(0),
    "mean of several": lambda x: x if len(x) == 1 else x - x.mean(0),
    "loop": lambda x: functools.reduce(lambda y, k: y + x[k : k + 1], range(1, len(x)), x),
}


@pytest.mark.parametrize("name", VANISHING_FUNCTIONS)
def test_what_leaves_no_node_for_one_example_is_not_run_in_pieces(name: str) -> None:
    applied, words = FunctionModule(VANISHING_FUNCTIONS[name]), "computes across the batch"
    for model in (applied, nn.Sequential(nn.Tanh(), applied)):
        plan = nbglcnn.compile(model.eval(), torch.randn(1, 3))
        with Session(plan) as session, pytest.raises(InputError, match=words):
            session.run(torch.randn(3, 3))
