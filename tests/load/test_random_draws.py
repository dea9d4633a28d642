"""Models that draw random numbers in forward: each draw is an input called noise."""

import copy
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

import nbglcnn
from assertions import assert_equal
from nbglcnn import (
    InputError,
    Plan,
    Session,
    UnsupportedModel,
    UnsupportedOperator,
    Viewer,
    apply_bends,
    transforms,
)
from nbglcnn.load import load

LATENT_SIZE = 3


class VAE(nn.Module):
    """Small and convolutional; the numbers that it draws can also be given."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 5, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()
        )
        self.mu = nn.Linear(5 * 4 * 5, LATENT_SIZE)
        self.logvar = nn.Linear(5 * 4 * 5, LATENT_SIZE)
        self.decoder = nn.Sequential(
            nn.Linear(LATENT_SIZE, 40),
            nn.Unflatten(1, (2, 4, 5)),
            nn.ConvTranspose2d(2, 1, 4, 2, 1),
        )

    def sample(self, mu: Tensor, std: Tensor) -> Tensor:
        return mu + std * torch.randn_like(std)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        codes = self.encoder(x)
        mu = self.mu(codes)
        z = self.sample(mu, torch.exp(0.5 * self.logvar(codes)))
        return self.decoder(z), mu


class Rsample(VAE):
    def sample(self, mu: Tensor, std: Tensor) -> Tensor:
        return Normal(mu, std).rsample()


class FixedNoiseVAE(VAE):
    """The reference: the same network with fixed numbers in place of the random draws."""

    eps: Tensor

    def sample(self, mu: Tensor, std: Tensor) -> Tensor:
        return mu + std * self.eps


def with_random_weights(model: nn.Module) -> Any:
    torch.manual_seed(3)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def images(count: int = 2, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 1, 8, 10), np.float32)


def seeded_arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape, np.float32) for shape in shapes]


def expected_values(model: VAE, x: np.ndarray, eps: np.ndarray) -> dict[str, np.ndarray]:
    """Values that hooks see when these numbers replace the random draws."""
    fixed = FixedNoiseVAE()
    fixed.load_state_dict(model.state_dict())
    fixed.eps = torch.from_numpy(eps.copy())
    found: dict[str, np.ndarray] = {"x": x, "noise": eps}
    for path, module in fixed.named_modules():
        if path:
            module.register_forward_hook(
                lambda _, __, out, path=path: found.update({path: out.numpy()})
            )
    with torch.no_grad():
        picture, mu = fixed(torch.from_numpy(x))
    return found | {"output[0]": picture.numpy(), "output[1]": mu.numpy()}


@pytest.mark.parametrize("kind", [VAE, Rsample])
def test_every_layer_of_a_vae_is_pytorchs_with_the_same_noise(kind: type[VAE]) -> None:
    model, x = with_random_weights(kind()), images()
    before = copy.deepcopy(model.state_dict())
    with Session(nbglcnn.compile(model, x)) as session:
        [own] = seeded_arrays((2, LATENT_SIZE))
        for noise in (own, own[::-1] * 2):
            found = session.run(x) if noise is own else session.run(x, noise)
            for key, value in expected_values(model, x, noise).items():
                assert_equal(found[key], value, name=key)
        assert nbglcnn.verify(session, model, (x, own - 1)).ok
        assert nbglcnn.verify(session, model, x).ok
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_viewer_shows_the_same_numbers_each_time_and_leaves_pytorchs_generator_alone() -> None:
    model, x = with_random_weights(VAE()), images()
    state = torch.get_rng_state()
    viewers = [Viewer(model, x), Viewer(model, x)]
    for viewer in viewers:
        assert viewer.verify().ok
        assert_equal(viewer.activations["noise"], seeded_arrays((2, LATENT_SIZE))[0])
    np.testing.assert_array_equal(*(viewer.output[0] for viewer in viewers))
    assert torch.equal(torch.get_rng_state(), state)
    with Session(Plan.from_bytes(nbglcnn.compile(model, x).to_bytes())) as session:
        np.testing.assert_array_equal(session.run(x)["output[0]"], viewers[0].output[0])
    for viewer in viewers:
        viewer.close()


def test_an_input_of_a_viewer_keeps_the_noise_unless_it_has_some() -> None:
    model, (x, other), [own] = (
        with_random_weights(VAE()),
        (images(), images(seed=2)),
        seeded_arrays((2, LATENT_SIZE)),
    )
    viewer = Viewer(model, x)
    given = viewer.input
    assert isinstance(given, tuple) and len(given) == 2
    assert_equal(given[1], own)
    viewer.input = (x, own * 3)
    viewer.input = other
    assert_equal(viewer.activations["noise"], own * 3)
    assert_equal(viewer.activations["decoder"], expected_values(model, other, own * 3)["decoder"])
    assert_equal(viewer.run(x)[0], expected_values(model, x, own * 3)["output[0]"])
    viewer.input = {"noise": own, "x": other}
    assert_equal(viewer.output[0], expected_values(model, other, own)["output[0]"])
    assert viewer.verify(x).ok and viewer.verify((x, own - 2)).ok
    assert_equal(viewer.activations["noise"], own)
    viewer.input = viewer.input
    for wrong, words in [
        ((x, own, own), r"3 inputs were given; the model takes 2 \('x', 'noise'\)"),
        ((x, own[:1]), r"noise: shape \(1, 3\) was given; expected \(2, 3\)"),
        ({"noise": own}, r"the input 'x' is missing"),
        ({"x": x, "nois": own}, r"no input 'nois' \(near: noise\)"),
    ]:
        with pytest.raises(InputError, match=words):
            viewer.input = wrong
    assert_equal(viewer.input[0], other)
    viewer.close()


class DrawsManyWays(nn.Module):
    """Takes an input called noise, and draws random numbers in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        first = self.conv(x + noise) + torch.randn(3, 1, 1)
        second = torch.normal(first, 0.5) + torch.rand_like(first[0])
        third = torch.empty(4, 5).normal_(1, 2) * torch.rand((4, 5))
        return second + third + torch.empty(5).uniform_(-3, -1)


def test_each_call_is_an_input_in_the_order_of_the_calls() -> None:
    model, (x, own) = (
        with_random_weights(DrawsManyWays()),
        np.random.default_rng(5).random((2, 1, 2, 4, 5), "f4"),
    )
    plan = nbglcnn.compile(model, (x, own))
    names = ["noise_1", "noise_2", "noise_3", "noise_4", "noise_5", "noise_6"]
    assert [one.key for one in plan.inputs] == ["x", "noise", *names]
    assert plan.noise == set(names)
    generator = np.random.default_rng(0)
    normal = lambda *shape: generator.standard_normal(shape, np.float32)  # noqa: E731
    a, b = normal(3, 1, 1), normal(1, 3, 4, 5)
    c, d = generator.random((3, 4, 5), np.float32), normal(4, 5)
    e, f = generator.random((4, 5), np.float32), generator.random((5,), np.float32)
    with torch.no_grad():
        first = model.conv(torch.from_numpy(x + own)).numpy() + a
    truth = first + 0.5 * b + c + (1 + 2 * d) * e + (2 * f - 3)
    with Session(plan) as session:
        found = session.run(x, own)
        for name, value in zip(names, (a, b, c, d, e, f), strict=True):
            np.testing.assert_array_equal(found[name], value)
        assert_equal(found["output"], truth)
        assert nbglcnn.verify(session, model, (x, own)).ok
        changed = session.run({"x": x, "noise": own, "noise_4": d * 0})["output"]
        assert_equal(changed, truth - 2 * d * e)


def test_noise_may_be_given_with_the_example_by_place_or_by_name() -> None:
    model, x, own = (
        with_random_weights(VAE()),
        images(),
        np.full((2, LATENT_SIZE), 0.25, np.float32),
    )
    for given in ((x, own), {"noise": own, "x": x}, {"x": torch.from_numpy(x), "noise": own}):
        graph, arrays = load(model, given)
        np.testing.assert_array_equal(arrays[1], own)
        # A Plan's initial noise is seeded even then.
        [constant] = graph.noise_defaults.values()
        np.testing.assert_array_equal(
            graph.values[constant].data, seeded_arrays((2, LATENT_SIZE))[0]
        )
    for wrong, words in [
        ((x, own, own), r"2 arrays were given for the model's random .* it samples 1 \('noise'\)"),
        ((x, own[:1]), r"noise: shape \(1, 3\) was given; expected \(2, 3\)"),
        ({"x": x, "noise_1": own}, r"no input 'noise_1' \(near: noise\)"),
    ]:
        with pytest.raises(InputError, match=words):
            load(model, wrong)
    still = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Dropout(0.5)).eval()
    assert not load(still, x)[0].noise_defaults
    with pytest.raises(InputError, match="takes 1 input; 2 were given"):
        load(still, (x, own))


def test_examples_in_pieces_have_the_same_noise_unless_there_is_some_for_all() -> None:
    model, x, [own] = with_random_weights(VAE()), images(5), seeded_arrays((2, LATENT_SIZE))
    with Session(nbglcnn.compile(model, x[:2])) as session:
        found = session.run(x)["output[0]"]
        repeated = np.concatenate([own, own, own])[:5]
        assert_equal(found, expected_values(model, x, repeated)["output[0]"])
        noise = seeded_arrays((5, LATENT_SIZE))[0]
        assert_equal(
            session.run(x, noise)["output[0]"], expected_values(model, x, noise)["output[0]"]
        )


def test_noise_can_be_bent_and_the_bends_are_replayed_on_what_pytorch_draws() -> None:
    model, x = with_random_weights(VAE()), images()
    viewer = Viewer(model, x)
    viewer.bend("noise", transforms.multiply(2))
    viewer.bend("mu", transforms.add(1))
    report = viewer.verify()
    assert report.ok and max(row.max_abs for row in report.rows) < 1e-4  # vs PyTorch with bends
    for operator in (None, "exp"):  # with hooks alone, or with the traced graph run for forward
        if operator:
            viewer.bend(operator, transforms.multiply(0.5))
            assert viewer.verify().ok
        bent = apply_bends(model, viewer.bends)
        torch.manual_seed(11)
        noise = torch.randn(2, LATENT_SIZE)
        torch.manual_seed(11)
        with torch.no_grad():
            found = bent(torch.from_numpy(x))
        viewer.input = (x, noise)
        for one, value in zip(viewer.output, found, strict=True):
            assert_equal(one, value.numpy())
    viewer.close()


class UnexportableDraw(nn.Module):
    """A layer that no exporter can trace, and that draws random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(np.cumsum((x + torch.randn_like(x)).numpy(), axis=1))


def test_noise_within_a_layer_that_python_computes_is_that_of_the_input() -> None:
    model, x = (
        nn.Sequential(nn.Linear(4, 4), UnexportableDraw(), nn.ReLU(), AddsNoise()).eval(),
        images()[:, 0, 0, :4],
    )
    viewer = Viewer(model, x)
    assert [row.layer for row in nbglcnn.check(model, x).rows if not row.ok] == ["1"]
    assert list(viewer.activations)[:3] == ["input", "noise", "noise_1"]
    assert viewer.verify().ok
    first = viewer.output
    a, b = seeded_arrays((2, 4), (2, 4))
    with torch.no_grad():
        linear = model[0](torch.from_numpy(x))
    truth = torch.cumsum(linear + torch.from_numpy(a), 1).relu() + torch.from_numpy(b)
    assert_equal(first, truth.numpy())
    viewer.input = (x, a * 2, b)
    truth = torch.cumsum(linear + torch.from_numpy(a * 2), 1).relu() + torch.from_numpy(b)
    assert_equal(viewer.output, truth.numpy())
    viewer.close()


class AddsNoise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


def test_two_networks_with_noise_are_compared_with_the_same() -> None:
    model, x = with_random_weights(VAE()), images()
    other = {name: tensor * 0.9 for name, tensor in model.state_dict().items()}
    comparison = nbglcnn.compare(model, other, x)
    assert [array.shape for array in comparison.input] == [x.shape, (2, LATENT_SIZE)]
    assert comparison.verify().ok
    pair = nbglcnn.compare(model, model, x, x * 0.5)
    assert pair.network.plan.noise == {"A.noise", "B.noise"}
    pair.input = (x, x)
    assert all(row.max_abs == 0 for row in pair.changes().rows)
    comparison.close()
    pair.close()


def test_a_source_feeds_the_first_example_and_leaves_its_noise() -> None:
    model, x, [own] = with_random_weights(VAE()), images(), seeded_arrays((2, LATENT_SIZE))
    viewer = Viewer(model, x)
    viewer.input = (x, own * 2)
    with pytest.warns(UserWarning, match="one example"):
        viewer.input = nbglcnn.Noise(seed=4)
    picture, noise = viewer.input
    assert picture.shape == (1, 1, 8, 10)
    assert_equal(noise, own[:1] * 2)
    assert_equal(viewer.output[0], expected_values(model, picture, noise)["output[0]"])
    viewer.close()


def test_noise_goes_behind_a_picture_that_is_preprocessed() -> None:
    model, x = with_random_weights(VAE()), images()
    preprocess = nbglcnn.Preprocess(size=(8, 10), mean=0.5, std=0.25)
    viewer = Viewer(model, x, preprocess=preprocess)
    [own] = seeded_arrays((2, LATENT_SIZE))
    assert_equal(viewer.activations["noise"], own)
    assert viewer.verify().ok
    viewer.close()
    given = Viewer(model, {"x": x, "noise": own + 1}, preprocess=preprocess)
    truth = expected_values(model, (x - np.float32(0.5)) / np.float32(0.25), own + 1)
    assert_equal(given.output[0], truth["output[0]"], rtol=1e-4)
    assert given.verify().ok
    given.close()


def make_function_module(body: str) -> nn.Module:
    """Make a module with a one-line forward."""
    made: dict[str, Any] = {"torch": torch, "nn": nn}
    exec(f"class Drawing(nn.Module):\n    def forward(self, x):\n        return {body}", made)
    return made["Drawing"]().eval()


@pytest.mark.filterwarnings("ignore:the outputs of two equal calls")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("torch.bernoulli(x)", "Bernoulli samples random numbers; sample them outside"),
        ("x + torch.randint(0, 3, (2, 4))", "randint.* samples random numbers; sample them"),
        ("torch.poisson(x)", "poisson samples random numbers; sample them outside"),
        ("x + torch.randn(4, generator=torch.Generator())", "randn samples random numbers; sample"),
        ("x[torch.multinomial(x, 1)[:, 0] % 2] + torch.randn_like(x)", "Multinomial samples"),
        ("x * 2 if x.sum() > 0 else x + torch.randn_like(x)", "depends on the input's values"),
        ("x + torch.randn(int(x.sum()), 1).sum()", "depends on the input's values"),
    ],
)
def test_other_random_numbers_are_refused_by_name(body: str, words: str) -> None:
    x = np.full((2, 4), 0.4, np.float32)
    with pytest.raises((UnsupportedOperator, UnsupportedModel), match=words):
        Viewer(make_function_module(body), x)


RANDOM_OPERATORS_MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (float[2,3] y, float[2,3] u) {
  r = RandomNormal<shape = [2, 3], mean = 1.5, scale = 2.0>()
  u = RandomUniformLike<low = -1.0, high = 3.0>(x)
  a = Add(r, x)
  y = Mul(a, u)
}"""


def test_what_an_onnx_file_draws_is_an_input_under_its_own_name() -> None:
    model = onnx.parser.parse_model(RANDOM_OPERATORS_MODEL)
    x = images()[:, 0, 0, :3]
    generator = np.random.default_rng(0)
    r = generator.standard_normal((2, 3), np.float32) * 2 + np.float32(1.5)
    u = generator.random((2, 3), np.float32) * 4 - 1
    viewer = Viewer(model, x)
    assert [one.key for one in viewer.network.plan.inputs] == ["x", "r", "u"]
    assert_equal(viewer.output["y"], (r + x) * u)
    assert_equal(viewer.output["u"], u)
    report = viewer.verify()
    assert report.ok and "ONNX Runtime" in report.summary
    viewer.input = x - 1
    viewer.bend("r", transforms.multiply(0.5))
    assert_equal(viewer.output["y"], (r / 2 + x - 1) * u)
    assert viewer.verify().ok and viewer.verify({"x": x, "u": u + 1}).ok
    graph, arrays = load(model, {"x": x, "u": x})
    np.testing.assert_array_equal(arrays[2], x)
    np.testing.assert_array_equal(arrays[1], r)
    np.testing.assert_array_equal(load(model, (x, u, r))[1], (x, u, r))
    assert list(graph.noise_defaults) == ["r", "u"]
    viewer.close()


@pytest.mark.parametrize(
    "node",
    [
        "RandomNormal<shape = [4000, 4000]>()",  # more numbers than a small file may request
        "RandomNormal<dtype = 11, shape = [2, 3]>()",
        "Bernoulli(x)",
    ],
)
def test_other_random_numbers_of_a_file_are_refused(node: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float y) '
        f"{{ r = {node}\n s = Cast<to = 1>(r)\n y = ReduceSum<keepdims = 0>(s) }}"
    )
    with pytest.raises(UnsupportedOperator, match="samples random numbers; sample them outside"):
        nbglcnn.compile(model, images()[:, 0, 0, :3])
