"""Latents in Python: codes, their principal directions, decoding, and rejected input."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import nbglcnn
from fashion_autoencoder import load_autoencoder, load_images
from nbglcnn import Latent, Plan
from nbglcnn.errors import InputError, OpenGLUnavailable
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.latent import host as latents
from nbglcnn.features.latent import latent as sources
from nbglcnn.features.latent.injection import inject_latent_code
from nbglcnn.widget.network import Network

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
RANDOM = np.random.default_rng(4)


@pytest.fixture(scope="module")
def fashion_case() -> SimpleNamespace:
    model, (images, labels) = load_autoencoder(), load_images()
    network = Network(model, images[:1], observe="all", precision="float32")
    with torch.inference_mode():
        codes = model.encoder(torch.from_numpy(images)).flatten(1).numpy()
    return SimpleNamespace(model=model, images=images, labels=labels, network=network, codes=codes)


@pytest.fixture
def network(fashion_case: SimpleNamespace) -> Network:
    fashion_case.network.set_latent_injection(None)
    fashion_case.network.set_edits((), {})
    return fashion_case.network


def decode(model: nn.Module, code: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return model.decoder(torch.from_numpy(code.reshape(-1, 16, 1, 1))).numpy()


def test_codes_are_those_of_pytorch_and_a_code_begins_where_the_input_is(
    fashion_case: SimpleNamespace, network: Network
) -> None:
    found, _ = latents.open_latent(network, Latent("encoder.6", fashion_case.images))
    np.testing.assert_allclose(found.codes, fashion_case.codes, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(found.code, fashion_case.codes[0], rtol=1e-4, atol=2e-5)
    assert found.items.tolist() == list(range(32))
    # Bytes and tensors give the same pictures; a map without a channel axis is accepted too.
    pixels = (fashion_case.images[:3, 0] * 255).round().astype(np.uint8)
    for data in (
        pixels,
        torch.from_numpy(pixels[:, None]),
        torch.from_numpy(fashion_case.images[:3]),
    ):
        again = latents.open_latent(network, Latent("encoder.6", data))[0].codes
        np.testing.assert_allclose(again, fashion_case.codes[:3], rtol=1e-3, atol=1e-3)
    found.codes[:] = 0  # a copy
    assert found.codes.any()


def test_principal_directions_are_eigenvectors_of_the_covariance(
    fashion_case: SimpleNamespace,
) -> None:
    codes = fashion_case.codes
    known = sources.analyze_codes(codes, np.arange(32), 32)
    covariance = np.cov(codes.T.astype(np.float64))
    values, vectors = np.linalg.eigh(covariance)
    for k in range(2):
        vector = vectors[:, -1 - k]
        assert abs(vector @ known.directions[k]) == pytest.approx(1, abs=1e-5)
        assert known.deviations[k] == pytest.approx(math.sqrt(values[-1 - k]), rel=1e-5)
        assert known.explained[k] == pytest.approx(values[-1 - k] / values.sum(), rel=1e-5)
        assert known.directions[k][np.abs(known.directions[k]).argmax()] > 0
        along = (codes - known.mean) @ known.directions[k]
        assert along.std(ddof=1) == pytest.approx(known.deviations[k], rel=1e-4)
    np.testing.assert_allclose(known.mean, codes.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(known.std, codes.std(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 5), (2, 5), (7, 1), (4, 3)])
def test_few_codes_have_as_many_directions_as_they_have(shape: tuple[int, int]) -> None:
    codes = RANDOM.standard_normal(shape).astype(np.float32)
    if shape == (4, 3):
        codes[:] = codes[0]  # all equal
    known = sources.analyze_codes(codes, np.arange(shape[0]), shape[0])
    lengths = np.linalg.norm(known.directions, axis=1)
    count = 0 if shape == (4, 3) else min(2, shape[0] - 1, shape[1])
    np.testing.assert_allclose(lengths, [1.0] * count + [0.0] * (2 - count), atol=1e-6)
    assert np.isfinite([*known.deviations, *known.explained]).all()


def test_of_many_items_some_are_taken_evenly_and_never_too_many_bytes() -> None:
    assert sources.sample_item_indices(2000, 16).tolist() == list(range(2000))
    some = sources.sample_item_indices(60_000, 16)
    assert len(some) == 2000 == len(set(some.tolist()))
    assert set(np.diff(some)) == {30}
    assert len(sources.sample_item_indices(60_000, 4096)) * 4096 * 4 <= sources.MAX_CODES_BYTES


def test_what_pages_are_given_is_all_that_is_known(
    fashion_case: SimpleNamespace, network: Network
) -> None:
    latent = Latent(
        "encoder.6",
        fashion_case.images,
        fashion_case.labels,
        [*"abcdefghij"],
        fashion_case.codes[3],
    )
    latent, blobs = latents.open_latent(network, latent)
    source = msgspec.structs.replace(latent.to_record("encoder.6"), **blobs.record_fields())
    assert (source.kind, source.input, source.count) == ("latent", "encoder.6", 32)
    np.testing.assert_array_equal(np.float32(source.code), fashion_case.codes[3])
    assert [*blobs.blob_names()] == [source.data, source.labels, source.classes]
    parts = [bytes(blobs.blob(name) or b"") for name in blobs.blob_names()]
    assert sum(map(len, parts)) == blobs.nbytes
    data = parts[0]
    assert json.loads(parts[1]) == fashion_case.labels.tolist()
    assert json.loads(parts[2]) == [*"abcdefghij"]
    assert blobs.blob("another") is None
    size = int.from_bytes(data[:4], "little")
    told = json.loads(data[4 : 4 + size])
    assert size % 4 == 0
    assert told["picture"] == [28, 28, 1]
    assert (told["items"], told["total"], told["numbers"]) == (list(range(32)), 32, 16)
    numbers = np.frombuffer(data[4 + size :], "<f4", 16 * (4 + 32)).reshape(-1, 16)
    np.testing.assert_array_equal(numbers[2:4], latent.known.directions)
    np.testing.assert_array_equal(numbers[4:], latent.codes)
    pictures = np.frombuffer(data[4 + size + numbers.nbytes :], np.uint8).reshape(32, 28, 28)
    np.testing.assert_allclose(pictures, fashion_case.images[:, 0] * 255, atol=0.51)


def test_each_point_has_the_label_of_its_own_item() -> None:
    codes = RANDOM.standard_normal((3, 4)).astype(np.float32)
    known = sources.analyze_codes(codes, np.array([0, 30, 60]), 90)
    blobs = sources.LatentBlobs(known, labels=range(90))
    assert json.loads(bytes(blobs.blob(blobs.record_fields()["labels"]) or b"")) == [0, 30, 60]


def test_small_pictures_are_no_larger_than_28_and_in_their_own_range() -> None:
    large = RANDOM.random((2, 3, 56, 40)).astype(np.float32)
    found = sources.make_thumbnails(large)
    assert found is not None and found.shape == (2, 28, 20, 3)
    whole = Image.fromarray((large[1].transpose(1, 2, 0) * 255 + 0.5).astype(np.uint8))
    np.testing.assert_array_equal(found[1], whole.resize((20, 28), Image.Resampling.BOX))
    signed = np.array([[-2.0, 0.0], [2.0, 1.0]], np.float32)[None, None]
    assert sources.make_thumbnails(signed).tolist() == [[[0, 128], [255, 191]]]
    assert sources.make_thumbnails(np.zeros((3, 9), np.float32)) is None


def test_the_decoder_of_a_code_is_pytorchs(fashion_case: SimpleNamespace, network: Network) -> None:
    for code in (fashion_case.codes[5], 3 * RANDOM.standard_normal(16).astype(np.float32)):
        inject_latent_code(network, "encoder.6", code)
        [found] = network.compute_values(["output"])
        np.testing.assert_allclose(found, decode(fashion_case.model, code), **TOLERANCE)
    np.testing.assert_array_equal(network.compute_values(["encoder.6"])[0].reshape(-1), code)
    assert network.skipped_keys == {f"encoder.{k}" for k in range(6)}
    network.set_latent_injection(None)
    [found] = network.compute_values(["output"])
    np.testing.assert_allclose(
        found, decode(fashion_case.model, fashion_case.codes[0]), **TOLERANCE
    )


def test_bends_and_the_framework_alone_have_the_code_too(
    fashion_case: SimpleNamespace, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = fashion_case.codes[7]
    bend = Edit(layer="encoder.6", name="add", transform="add", parameters=(0.5,))

    def check(one: Network) -> None:
        [found] = one.compute_values(["output"])
        np.testing.assert_allclose(found, decode(fashion_case.model, code + 0.5), **TOLERANCE)
        [before] = one.compute_values(["encoder.6"], before_edits=True)
        np.testing.assert_array_equal(before.reshape(-1), code)

    network.set_edits([bend], {})
    inject_latent_code(network, "encoder.6", code)
    check(network)

    def none(*_: object) -> None:
        raise OpenGLUnavailable("there is none")

    monkeypatch.setattr("nbglcnn.local_backend.Session", none)
    monkeypatch.setattr("nbglcnn.features.latent.host.Session", none)
    other = Network(fashion_case.model, fashion_case.images[:2], observe="all", precision="float32")
    assert other.backend_name.startswith("reference")
    opened, _ = latents.open_latent(other, Latent("encoder.6", fashion_case.images[:5]))
    np.testing.assert_allclose(opened.codes, fashion_case.codes[:5], **TOLERANCE)
    one = Network(fashion_case.model, fashion_case.images[:1], observe="all", precision="float32")
    one.set_edits([bend], {})
    inject_latent_code(one, "encoder.6", code)
    check(one)
    with pytest.raises(KeyError, match="an active latent skips its layer"):
        one.check_not_skipped(["output", "encoder.2"])


class UnsuitableLayers(nn.Module):
    """Layers that cannot be a latent: too large, without followers, with integer values."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(1, 8, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.end = nn.Linear(32, 3)
        self.off = nn.Linear(32, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.wide(x)).flatten(1)
        self.off(y)
        best = y.argmax(1)
        return self.end(y) + best.float()


@pytest.fixture(scope="module")
def unsuitable_plan() -> Plan:
    torch.manual_seed(0)
    return nbglcnn.compile(UnsuitableLayers().eval(), torch.randn(1, 1, 24, 24))


@pytest.mark.parametrize(
    ("layer", "error", "words"),
    [
        ("x", InputError, r"this is the input itself; choose a layer, as Latent\('"),
        ("wide", InputError, r"has 4,608 elements; a code has at most 4,096. Choose a smaller"),
        ("off", (InputError, KeyError), r"no output depends on this layer|is not a value"),
        ("end.3", KeyError, r"'end.3' is not a value of this network; near: 'end'"),
    ],
)
def test_a_layer_that_cannot_be_cut_at_is_refused_with_what_to_do(
    unsuitable_plan: Plan, layer: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sources.validate_layer(unsuitable_plan, layer)
    assert sources.validate_layer(unsuitable_plan, "pool").key == "pool"
    integers = [value.key for value in unsuitable_plan.values if value.dtype != "float32"]
    for key in integers:
        with pytest.raises(InputError, match="only float32 values can be edited"):
            sources.validate_layer(unsuitable_plan, key)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"layer": 6}, "expected the name of a layer, not 6"),
        ({"layer": "encoder.6", "labels": [1]}, "labels and classes describe data"),
        ({"layer": "encoder.6", "code": "abc"}, "expected a code as an array of numbers"),
    ],
)
def test_a_latent_of_nonsense_is_refused_at_once(arguments: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Latent(**arguments)


def test_codes_and_data_that_do_not_fit_are_refused_and_change_nothing(
    fashion_case: SimpleNamespace, network: Network
) -> None:
    nan = np.where(np.arange(16) == 3, np.nan, 0)
    for code, words in ((np.zeros(15), "needs 16 values, not 15"), (nan, "value 3 .* is nan")):
        for attempt in (
            lambda code=code: latents.open_latent(network, Latent("encoder.6", code=code)),
            lambda code=code: inject_latent_code(network, "encoder.6", code),
        ):
            with pytest.raises(InputError, match=words):
                attempt()
    assert network.latent_edit is None and not network.skipped_keys
    images = fashion_case.images.copy()
    images[4] = np.inf
    with pytest.raises(InputError, match="the code of item 4 of the data is not finite"):
        latents.open_latent(network, Latent("encoder.6", images))
    with pytest.raises(InputError, match="2 labels"):
        latents.open_latent(network, Latent("encoder.6", fashion_case.images, [1, 2]))
    with pytest.raises(InputError, match="9"):
        latents.open_latent(network, Latent("encoder.6", np.zeros((3, 1, 9, 9), np.float32)))


def test_codes_are_known_once_it_is_open_and_stay_when_the_code_moves(
    fashion_case: SimpleNamespace, network: Network
) -> None:
    given = Latent("encoder.6", fashion_case.images[:4])
    with pytest.raises(InputError, match="are available after it is a Viewer's source"):
        _ = given.codes
    with pytest.raises(InputError, match="has no data"):
        _ = Latent("encoder.6").codes
    opened, blobs = latents.open_latent(network, given)
    assert repr(opened) == "Latent('encoder.6', 16 values, codes of 4 items)"
    there = opened.with_code(np.arange(16).reshape(4, 4))
    moved, same = latents.open_latent(network, there, (opened, blobs))
    assert moved.known is opened.known and same is blobs
    assert moved.code.tolist() == list(range(16)) != opened.code.tolist()
    wire = moved.to_record("encoder.6")
    other = msgspec.structs.replace(wire, code=(0.5,) * 16)
    assert moved.updated_from(other).code.tolist() == [0.5] * 16
    for wrong in ({"code": (1.0, 2.0)}, {"code": (math.nan,) * 16}, {"input": "encoder.0"}):
        with pytest.raises(InputError, match=r"16 values|finite numbers|can't be changed"):
            moved.updated_from(msgspec.structs.replace(wire, **wrong))


def test_codes_of_two_thousand_items_and_of_16_mib_are_computed_and_no_more() -> None:
    assert (sources.MAX_ENCODED_ITEMS, sources.MAX_CODES_BYTES) == (2000, 2**24)
    for total, numbers, most in (
        (2000, 16, 2000),
        (2001, 16, 2000),
        (1024, 4096, 1024),
        (1025, 4096, 1024),
        (5, 2**30, 2),
        (1, 2**30, 1),
    ):
        found = sources.sample_item_indices(total, numbers)
        assert len(found) == min(total, most)
        assert found[0] == 0 and (np.diff(found) > 0).all() and found[-1] < total


def test_a_code_of_4096_numbers_is_taken_and_a_larger_one_not() -> None:
    def cut(channels: int) -> Plan:
        model = nn.Sequential(nn.Conv2d(1, channels, 1), nn.ReLU(), nn.Conv2d(channels, 1, 1))
        return nbglcnn.compile(model.eval(), torch.zeros(2, 1, 8, 8))

    assert sources.MAX_CODE_SIZE == 4096
    plan = cut(64)
    assert sources.code_size(plan, sources.validate_layer(plan, "1")) == 4096
    with pytest.raises(InputError, match=r"4,160 elements; a code has at most 4,096"):
        sources.validate_layer(cut(65), "1")


@pytest.mark.parametrize(
    ("height", "width", "size"),
    [(28, 28, (28, 28)), (28, 29, (27, 28)), (56, 14, (28, 7)), (1, 60, (1, 28))],
)
def test_small_pictures_have_28_pixels_a_side_at_most(
    height: int, width: int, size: tuple[int, int]
) -> None:
    found = sources.make_thumbnails(np.full((2, 3, height, width), 0.5, np.float32))
    assert found is not None and found.shape == (2, *size, 3)
    assert set(np.unique(found)) == {128}


def test_small_pictures_beyond_0_to_1_go_from_their_least_to_their_greatest() -> None:
    one = np.zeros((1, 3, 2, 2), np.float32)
    one[0, 0, 0, 0], one[0, 2, 1, 1] = -1, 3
    found = sources.make_thumbnails(one)
    assert found is not None
    assert (found[0, 0, 0, 0], found[0, 1, 1, 2], found[0, 0, 1, 1]) == (0, 255, 64)
    within = sources.make_thumbnails(np.full((1, 1, 2, 2), 1, np.float32))
    assert within is not None and within.shape == (1, 2, 2) and within.max() == 255
    assert sources.make_thumbnails(np.zeros((1, 2, 2, 2), np.float32)) is None
