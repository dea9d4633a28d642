"""Values accepted as `x`: the same types give the same arrays in every function that takes `x`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, Plan, Session, Viewer, backend
from nbglcnn.features.training.data import open_batches
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.arguments import InputSpec, to_input_arrays

RANDOM = np.random.default_rng(11)
PICTURE_BYTES = RANDOM.integers(0, 256, (2, 5, 7, 3), np.uint8)  # two pictures in PIL's layout
COLOUR_PICTURES = (PICTURE_BYTES.transpose(0, 3, 1, 2) / np.float32(255)).astype(np.float32)
GREY_PICTURES = np.round(RANDOM.random((2, 1, 3, 4)), 2).astype(np.float32)
PICTURES = [Image.fromarray(one) for one in PICTURE_BYTES]
SINGLE, PAIR = COLOUR_PICTURES[:1], (COLOUR_PICTURES, GREY_PICTURES)


class TwoPictures(nn.Module):
    """A model with two inputs, the second of them small."""

    def __init__(self) -> None:
        super().__init__()
        self.colour, self.grey = nn.Conv2d(3, 4, 3), nn.Conv2d(1, 4, (1, 2))

    def forward(self, image: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
        return self.colour(image)[:, :, :, :3] * self.grey(low)


@dataclass(frozen=True)
class NetworkRunners:
    """A model with its Plan, Session and Viewer, compiled for one input."""

    model: nn.Module
    plan: Plan
    session: Session
    viewer: Viewer

    @property
    def session_inputs(self) -> tuple[Array, ...]:
        """The session's current inputs."""
        return tuple(self.session.read(record.key) for record in self.plan.header.inputs)


def make_network(model: nn.Module, x: Any) -> NetworkRunners:
    torch.manual_seed(4)
    plan = nbglcnn.compile(model.eval(), x)
    return NetworkRunners(model, plan, Session(plan), Viewer(model, x))


@pytest.fixture(scope="module")
def networks() -> Iterator[dict[str, NetworkRunners]]:
    """A network with one input of one picture, and one with two inputs of two."""
    made = {
        "one": make_network(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), np.zeros_like(SINGLE)),
        "two": make_network(TwoPictures(), tuple(np.zeros_like(each) for each in PAIR)),
    }
    yield made
    for each in made.values():
        each.session.close()
        each.viewer.close()


def tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(array.copy())


def noncontiguous(array: Array) -> Array:
    """The same numbers in big-endian order, with negative strides, read-only."""
    turned = array[:, ::-1].astype(">f4")[:, ::-1]
    turned.setflags(write=False)
    return turned


# name: (the network, x, the expected arrays)
INPUT_KINDS: dict[str, tuple[str, Any, tuple[Array, ...]]] = {
    "array": ("one", SINGLE, (SINGLE,)),
    "float64 array": ("one", SINGLE.astype(np.float64), (SINGLE,)),
    "big-endian array": ("one", SINGLE.astype(">f4"), (SINGLE,)),
    "big-endian float64": ("one", SINGLE.astype(">f8"), (SINGLE,)),
    "big-endian, read-only and backwards": ("one", noncontiguous(SINGLE), (SINGLE,)),
    "list of big-endian arrays": ("one", [COLOUR_PICTURES[0].astype(">f4")], (SINGLE,)),
    "masked array without a mask": ("one", np.ma.masked_array(SINGLE), (SINGLE,)),
    "tuple of big-endian arrays": ("two", (COLOUR_PICTURES.astype(">f2"),
        GREY_PICTURES.astype(">f4")),
                                   (np.float16(COLOUR_PICTURES).astype(np.float32), GREY_PICTURES)),
    "float16 array": ("one", np.float16(SINGLE), (np.float16(SINGLE).astype(np.float32),)),
    "tensor": ("one", tensor(SINGLE), (SINGLE,)),
    "tensor that requires grad": ("one", tensor(SINGLE).requires_grad_(), (SINGLE,)),
    "result with a gradient": ("one", tensor(SINGLE).requires_grad_() * 1, (SINGLE,)),
    "bfloat16": ("one", tensor(SINGLE).bfloat16(), (tensor(SINGLE).bfloat16().float().numpy(),)),
    "transposed tensor": ("one", tensor(SINGLE.swapaxes(2, 3)).swapaxes(2, 3), (SINGLE,)),
    "picture": ("one", PICTURES[0], (SINGLE,)),
    "list of a picture": ("one", PICTURES[:1], (SINGLE,)),
    "list of an array": ("one", [COLOUR_PICTURES[0]], (SINGLE,)),
    "nested lists": ("one", SINGLE.tolist(), (SINGLE,)),
    "tuple of one": ("one", (SINGLE,), (SINGLE,)),
    "dict of one": ("one", {"input": PICTURES[0]}, (SINGLE,)),
    "tuple": ("two", PAIR, PAIR),
    "tuple of tensors": ("two", (tensor(COLOUR_PICTURES).requires_grad_(), tensor(GREY_PICTURES)),
        PAIR),
    "tuple of pictures and an array": ("two", (PICTURES, GREY_PICTURES), PAIR),
    "dict by name": ("two", {"low": GREY_PICTURES.astype(np.float64), "image": PICTURES}, PAIR),
}  # fmt: skip


def through_compile(net: NetworkRunners, x: Any, _: pytest.MonkeyPatch) -> tuple[Array, ...]:
    """The arrays from `load`, which compile, check and Viewer(…) share."""
    return nbglcnn.load.load(net.model, x)[1]


def through_session_run(net: NetworkRunners, x: Any, _: pytest.MonkeyPatch) -> tuple[Array, ...]:
    found = net.session.run(x)
    return tuple(found[record.key] for record in net.plan.header.inputs)


def through_session_verify(net: NetworkRunners, x: Any, _: pytest.MonkeyPatch) -> tuple[Array, ...]:
    assert nbglcnn.verify(net.session, net.model, x).ok
    return net.session_inputs


def through_input(net: NetworkRunners, x: Any, _: pytest.MonkeyPatch) -> tuple[Array, ...]:
    net.viewer.input = x
    return as_tuple(net.viewer.input)


def through_run(net: NetworkRunners, x: Any, _: pytest.MonkeyPatch) -> tuple[Array, ...]:
    net.viewer.run(x)
    return tuple(net.viewer.activations[record.key] for record in net.plan.header.inputs)


def through_verify(net: NetworkRunners, x: Any, patch: pytest.MonkeyPatch) -> tuple[Array, ...]:
    used: list[tuple[Array, ...]] = []
    reference = net.viewer.network.local.compute_reference

    def noted(graph: Graph, arrays: tuple[Array, ...], *edits: Any) -> Any:
        used.append(arrays)
        return reference(graph, arrays, *edits)

    patch.setattr(net.viewer.network.local, "compute_reference", noted)
    assert net.viewer.verify(x).ok
    return used[0]


def through_compare(net: NetworkRunners, x: Any, _: pytest.MonkeyPatch) -> tuple[Array, ...]:
    comparison = nbglcnn.compare(net.viewer, net.model.state_dict(), x)
    found = as_tuple(comparison.input)
    comparison.close()
    return found


def through_compare_b(net: NetworkRunners, x: Any, _: pytest.MonkeyPatch) -> tuple[Array, ...]:
    """The second input of a comparison."""
    net.viewer.input = tuple(np.full(v.shape, 2, np.float32) for v in net.plan.header.inputs)
    comparison = nbglcnn.compare(net.viewer, net.viewer, x_b=x)
    found = as_tuple(comparison.input)
    comparison.close()
    return found[len(found) // 2 :]


def as_tuple(x: Any) -> tuple[Array, ...]:
    return x if isinstance(x, tuple) else (x,)


ENTRY_POINTS: dict[str, Callable[[NetworkRunners, Any, pytest.MonkeyPatch], tuple[Array, ...]]] = {
    "compile": through_compile,
    "Session.run": through_session_run,
    "Session.verify": through_session_verify,
    "Viewer.input": through_input,
    "Viewer.run": through_run,
    "Viewer.verify": through_verify,
    "compare": through_compare,
    "compare's x_b": through_compare_b,
}


@pytest.mark.parametrize("place", ENTRY_POINTS)
@pytest.mark.parametrize("kind", INPUT_KINDS)
def test_every_kind_of_input_is_taken_wherever_there_is_an_x(
    networks: dict[str, NetworkRunners], kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, x, expected = INPUT_KINDS[kind]
    arrays = ENTRY_POINTS[place](networks[name], x, monkeypatch)
    assert [a.dtype for a in arrays] == [np.dtype(np.float32)] * len(expected)
    for array, wanted in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_a_session_takes_inputs_one_by_one_too(networks: dict[str, NetworkRunners]) -> None:
    session = networks["two"].session
    expected = session.run(PAIR)["output"]
    for run in (
        lambda: session.run(PICTURES, GREY_PICTURES),
        lambda: session.run(low=GREY_PICTURES, image=tensor(COLOUR_PICTURES)),
        lambda: session.run(PICTURES, low=GREY_PICTURES),
        lambda: session.run({"image": COLOUR_PICTURES}, low=GREY_PICTURES),
        lambda: session.run(COLOUR_PICTURES),  # `low` keeps its value
        lambda: session.run(),
    ):
        np.testing.assert_array_equal(run()["output"], expected)
        session.write("low", GREY_PICTURES)
        session.write("image", PICTURES)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            (GREY_PICTURES, GREY_PICTURES),
            r"shape .2, 1, 3, 4. was given; expected .2, 3, 5, 7.. Compile again",
        ),
        (
            (COLOUR_PICTURES, GREY_PICTURES, GREY_PICTURES),
            "3 inputs given; this Plan has 2: image, low",
        ),
        (
            {"image": COLOUR_PICTURES, "high": GREY_PICTURES},
            "no input 'high'; this Plan's inputs: 'image', 'low'",
        ),
        ((PICTURES, np.uint8(GREY_PICTURES)), "low: dtype uint8"),
    ],
)
def test_a_session_writes_nothing_of_an_input_that_does_not_fit(
    networks: dict[str, NetworkRunners], given: Any, words: str
) -> None:
    net = networks["two"]
    net.session.run(PAIR)
    with pytest.raises(InputError, match=words):
        net.session.run(given)
    for array, wanted in zip(net.session_inputs, PAIR, strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_a_new_session_says_which_inputs_are_missing(networks: dict[str, NetworkRunners]) -> None:
    with Session(networks["two"].plan) as session:
        with pytest.raises(InputError, match="'low' is missing; this Plan has 2: image, low"):
            session.run(COLOUR_PICTURES)
        with pytest.raises(InputError, match="'image' is missing"):
            session.run(low=GREY_PICTURES)


@pytest.mark.parametrize("given", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("wanted", [np.int8, np.int32, np.int64])
def test_integers_of_any_width_fit_where_their_numbers_do(given: Any, wanted: Any) -> None:
    spec = InputSpec("places", (3,), np.dtype(wanted))
    x = np.array([-3, 0, 100], given)
    [found] = to_input_arrays(x, [spec])
    assert found.dtype == wanted
    np.testing.assert_array_equal(found, x)
    [alone] = to_input_arrays(x)
    assert alone.dtype == given
    large = np.array([0, 1, np.iinfo(given).max], given)
    if np.iinfo(given).max > np.iinfo(wanted).max:
        with pytest.raises(InputError, match=f"to {large.max()} were .* the input's {spec.dtype}"):
            to_input_arrays(large, [spec])
    else:
        np.testing.assert_array_equal(to_input_arrays(large, [spec])[0], large)


def test_a_picture_of_16_bits_is_opaque_grey_in_as_many_channels_as_are_wanted() -> None:
    deep = Image.fromarray(np.array([[0, 13107, 65535]], np.uint16))
    grey = np.float32([[0, 0.2, 1]])
    for channels in (1, 3, 4):
        [found] = to_input_arrays(deep, [InputSpec("x", (1, channels, 1, 3))])
        wanted = np.stack([*[grey] * min(channels, 3), *[np.ones_like(grey)] * (channels == 4)])
        np.testing.assert_allclose(found[0], wanted, rtol=1e-6)


def masked_array(array: Array) -> np.ma.MaskedArray[Any, Any]:
    """Mask two of the numbers."""
    hidden = np.zeros(array.shape, bool)
    hidden.reshape(-1)[[3, 7]] = True
    return np.ma.masked_array(np.where(hidden, 1e6, array).astype(array.dtype), hidden)


UNSUPPORTED_INPUTS: dict[str, tuple[Callable[[], Any], str]] = {
    "sparse": (lambda: tensor(SINGLE).to_sparse(), "a sparse tensor was given; .* x.to_dense()"),
    "quantized": (
        lambda: torch.quantize_per_tensor(tensor(SINGLE), 0.1, 0, torch.qint8),
        "a quantized tensor was given; .* x.dequantize()",
    ),
    "complex": (lambda: tensor(SINGLE) + 1j, "a complex tensor was given; .* torch.view_as_real"),
    "nested": (
        lambda: torch.nested.nested_tensor([tensor(COLOUR_PICTURES[0])]),
        "a nested tensor was given",
    ),
    "sparse in a list": (
        lambda: [tensor(COLOUR_PICTURES[0]).to_sparse()],
        "a sparse tensor was given",
    ),
    "meta": (lambda: torch.zeros(SINGLE.shape, device="meta"), "on the meta device has no values"),
    "path of nothing": (lambda: "picture.png", "input: file not found: picture.png"),
    "folder": (lambda: Path(__file__).parent, "is a folder; give the path of a picture in it"),
    "path of no picture": (
        lambda: __file__,
        "test_example_inputs.py is not a picture that Pillow can read",
    ),
    "address": (lambda: "https://a.b/c.png", "which nbglcnn does not download: download it"),
    "loader": (
        lambda: DataLoader(TensorDataset(tensor(COLOUR_PICTURES))),
        r"DataLoader yields batches: give the images of the first one, next\(iter\(loader\)\)\[0\]",
    ),
    "masked": (
        lambda: masked_array(SINGLE),
        r"a masked array was given, with 2 of 105 values",
    ),
    "masked in a list": (
        lambda: [masked_array(COLOUR_PICTURES[0])],
        "with 2 of 105 .* Give x.filled",
    ),
    "uint16": (lambda: np.uint16(SINGLE), r"dtype uint16; .*astype\('float32'\) / 65535"),
    "big-endian uint16": (lambda: SINGLE.astype(">u2"), r"astype\('float32'\) / 65535"),
    "uint8": (lambda: np.uint8(SINGLE), r"dtype uint8; .*astype\('float32'\) / 255"),
    "data set": (
        lambda: TensorDataset(tensor(COLOUR_PICTURES)),
        r"TensorDataset is a data set: give one of its images, dataset\[0\]\[0\]\[None\]$",
    ),
    "images and labels": (
        lambda: (tensor(COLOUR_PICTURES), torch.arange(len(COLOUR_PICTURES))),
        r"For images with labels, .* give only the images: x\[0\]",
    ),
    "batch of a loader": (
        lambda: [tensor(COLOUR_PICTURES), torch.arange(len(COLOUR_PICTURES))],
        r"a list of shapes .* give only the images: x\[0\]",
    ),
    "item of a data set": (
        lambda: (tensor(COLOUR_PICTURES[0]), 3),
        r"For an image with its label, give only the image: x\[0\]\[None\]",
    ),
    "item with a picture": (lambda: (PICTURES[0], 3), r"give only the image: x\[0\]$"),
    "set": (lambda: {1.0}, "set was given; give an array"),
    "object": (lambda: object(), "object was given; give an array"),
    "bytes": (lambda: b"123", "bytes was given; give an array"),
    "dict of text": (
        lambda: {"input": "no"},
        "input: file not found: no|contains neither an array nor a picture",
    ),
    "unknown name": (lambda: {"inputs": SINGLE}, r"no input 'inputs'.* 'input'"),
}


@pytest.mark.filterwarnings("ignore:.*(quantize|nested tensors):UserWarning")
@pytest.mark.parametrize("place", ENTRY_POINTS)
@pytest.mark.parametrize("kind", UNSUPPORTED_INPUTS)
def test_what_is_no_input_is_an_input_error_that_says_what_is(
    networks: dict[str, NetworkRunners], kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, words = UNSUPPORTED_INPUTS[kind]
    x = make()
    with pytest.raises(InputError, match=words):
        ENTRY_POINTS[place](networks["one"], x, monkeypatch)


class EndlessItems:
    """A dataset that isn't a PyTorch class, and never ends when iterated."""

    def __init__(self, item: Any) -> None:
        self.item = item

    def __len__(self) -> int:
        return 3

    def __getitem__(self, at: int) -> Any:
        assert at < 1000, "read without end"
        return self.item


class EndlessDataset(EndlessItems, torch.utils.data.Dataset):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize("make", [EndlessItems, EndlessDataset])
@pytest.mark.parametrize(
    "item",
    [
        tensor(COLOUR_PICTURES[0]),
        (tensor(COLOUR_PICTURES[0]), 3),
        (COLOUR_PICTURES[0], 3),
        (PICTURES[0], 3),
        PICTURES[0],
        {"label": 3, "image": tensor(COLOUR_PICTURES[0])},
        {"image": PICTURES[0], "label": 3},
    ],
)
def test_the_code_that_is_advised_for_a_data_set_gives_an_input(make: Any, item: Any) -> None:
    dataset, model = make(item), nn.Conv2d(3, 4, 3).eval()
    with pytest.raises(InputError, match="is a data set: give one of its images") as error:
        nbglcnn.load.load(model, dataset)
    _, (array,) = nbglcnn.load.load(model, eval(str(error.value).split("images, ")[1]))
    assert array.shape == (1, *COLOUR_PICTURES[0].shape)
    if isinstance(x := item, tuple):
        with pytest.raises(InputError, match="give only the image") as error:
            nbglcnn.load.load(model, x)
        _, (again,) = nbglcnn.load.load(model, eval(str(error.value).split(": ")[-1]))
        np.testing.assert_array_equal(again, array)


def test_a_masked_array_is_named_once() -> None:
    with pytest.raises(InputError) as error:
        nbglcnn.load.load(nn.Conv2d(3, 4, 3).eval(), masked_array(SINGLE))
    assert str(error.value).startswith("input: a masked array was given, with 2 of 105 values")


def byte_swapped(array: Any) -> Array:
    """Convert to the byte order that is not this machine's."""
    found = np.asarray(array)
    return found.astype(found.dtype.newbyteorder("S"))


# Functions that take arrays other than `x`: each passes one in and returns the result.
def through_inject(array: Any) -> Array:
    viewer = Viewer(nn.Sequential(nn.ReLU()).eval(), np.zeros((1, 3, 4, 5), np.float32))
    viewer.inject("0", array)
    return np.asarray(viewer.activations["0"])


def through_load_state_dict(array: Any) -> Array:
    conv = nn.Conv2d(3, 1, 1, bias=False).eval()
    viewer = Viewer(conv, np.zeros((1, 3, 4, 5), np.float32))
    viewer.load_state_dict({"weight": array[:1, :, :1, :1]})
    return np.broadcast_to(viewer.state_dict()["weight"], (1, 3, 1, 1))


def through_set_weight(array: Any) -> Array:
    viewer = Viewer(nn.Conv2d(3, 1, 1, bias=False).eval(), np.zeros((1, 3, 4, 5), np.float32))
    viewer.set_weight("weight", ..., array[:1, :, :1, :1])
    return viewer.state_dict()["weight"]


def through_images(array: Any) -> Array:
    viewer = Viewer(nn.Sequential(nn.ReLU()).eval(), np.zeros((1, 3, 4, 5), np.float32))
    viewer.source = nbglcnn.Images(array)
    return np.asarray(viewer.input)


def through_image_list(array: Any) -> Array:
    viewer = Viewer(nn.Sequential(nn.ReLU()).eval(), np.zeros((1, 3, 4, 5), np.float32))
    viewer.source = nbglcnn.Images(list(array))
    return np.asarray(viewer.input)


def through_training(array: Any) -> Array:
    return (
        open_batches(array, 1, shuffle=False, seed=0, has_model_loss=False).first_batch().inputs[0]
    )


def through_backend(array: Any) -> Array:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,4,5] x) => (float[1,3,4,5] y) '
        "{ y = Identity(x) }"
    )
    return np.asarray(backend.run_model(model, [array])[0])


ARRAY_ENTRY_POINTS = {
    one.__name__: one
    for one in (
        through_inject,
        through_load_state_dict,
        through_set_weight,
        through_images,
        through_image_list,
        through_training,
        through_backend,
    )
}


@pytest.mark.filterwarnings("ignore:no page:UserWarning")
@pytest.mark.parametrize("entrance", ARRAY_ENTRY_POINTS)
def test_other_byte_orders_enter_everywhere(entrance: str) -> None:
    array = RANDOM.random((1, 3, 4, 5), np.float32)
    take = ARRAY_ENTRY_POINTS[entrance]
    np.testing.assert_array_equal(take(byte_swapped(array)), take(array))
    np.testing.assert_array_equal(take(byte_swapped(array.astype(np.float64))), take(array))


@pytest.mark.filterwarnings("ignore:no page:UserWarning")
@pytest.mark.parametrize("entrance", ARRAY_ENTRY_POINTS)
def test_masked_numbers_enter_nowhere(entrance: str) -> None:
    array = RANDOM.random((1, 3, 4, 5), np.float32)
    hidden = np.ma.masked_array(array, np.zeros(array.shape, bool))
    np.testing.assert_array_equal(
        ARRAY_ENTRY_POINTS[entrance](hidden), ARRAY_ENTRY_POINTS[entrance](array)
    )
    hidden.mask[0, :, 0, 0] = True
    with pytest.raises(InputError, match=r"a masked array was given, with .*Give x\.filled"):
        ARRAY_ENTRY_POINTS[entrance](hidden)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
def test_integers_of_other_byte_orders_fit_where_their_numbers_do(dtype: str) -> None:
    array = RANDOM.integers(0, 100, (2, 3)).astype(dtype)
    [found] = to_input_arrays(byte_swapped(array), [InputSpec("x", (2, 3), np.dtype(dtype))])
    np.testing.assert_array_equal(found, array)
    assert found.dtype == dtype and found.dtype.isnative


def test_a_data_set_of_uint16_says_what_white_is() -> None:
    for given in (np.zeros((2, 4, 5), np.uint16), [np.zeros((4, 5), np.uint16)]):
        with pytest.raises(InputError, match=r"dtype uint16; .*\(array / 65535\)"):
            nbglcnn.Images(given)


def test_the_path_of_a_picture_is_the_picture_in_every_door(tmp_path: Path) -> None:
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    for path, pixels in zip(paths, PICTURE_BYTES, strict=False):
        Image.fromarray(pixels).save(path)
    pictures = [Image.open(path) for path in paths]
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU()).eval()
    for given, picture in [(str(paths[0]), pictures[0]), (paths, pictures)]:
        [wanted] = to_input_arrays(picture)
        with Session(nbglcnn.compile(model, given)) as session, torch.no_grad():
            found = session.run(given)["output"]
            assert_equal(found, model(tensor(wanted)).numpy())
        viewer = Viewer(model, given)
        np.testing.assert_array_equal(viewer.input, wanted)
        viewer.input = given
        np.testing.assert_array_equal(viewer.input, wanted)
        viewer.close()
