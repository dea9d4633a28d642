"""Numbers at the limits of float32: large means, large angles, sigmoids that underflow to 0."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Plan, Session
from webgl_page import GlPage


class ParallelModules(nn.Module):
    """Runs each module on a separate input."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(part(x) for part, x in zip(self.parts, inputs, strict=True))


class ManualNorm(nn.Module):
    """A normalization written out by hand."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((2, 3), keepdim=True)
        return (x - mean) / (x - mean).square().mean((2, 3), keepdim=True).sqrt()


class DivideByDeviation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.std((2, 3), keepdim=True)


def test_norms_keep_the_digits_in_which_large_numbers_differ() -> None:
    rng = torch.Generator().manual_seed(1)
    far = torch.rand((2, 8, 40, 44), generator=rng) + 1e3
    picture = torch.linspace(0, 255, 3 * 96 * 128).reshape(1, 3, 96, 128)
    parts = {
        nn.LayerNorm(64): torch.rand((4, 16, 64), generator=rng) + 1e3,
        nn.LayerNorm(1500): torch.rand((4, 1500), generator=rng) + 250,
        nn.InstanceNorm2d(3): picture,
        nn.InstanceNorm2d(8): far,
        nn.GroupNorm(2, 8): far,
        nn.BatchNorm2d(8, track_running_stats=False): far,
        ManualNorm(): far,
        DivideByDeviation(): far,
        nn.AdaptiveAvgPool2d(1): far,
    }
    model, inputs = ParallelModules(*parts).eval(), tuple(parts.values())
    with Session(nbglcnn.compile(model, inputs, observe="outputs")) as session:
        found = session.run(*(x.numpy() for x in inputs))
        names = session.plan.header.outputs
    with torch.no_grad():
        single = model(*inputs)
        double = model.double()(*(x.double() for x in inputs))
    for part, name, near, true in zip(parts, names, single, double, strict=True):
        own = float(np.abs(found[name] - true.numpy()).max())
        bound = 1.5 * float((near - true).abs().max()) + 1e-6 * float(true.abs().max())
        assert own <= bound, (part, own, bound)


def test_a_norm_of_a_constant_map_is_zero() -> None:
    model = nn.Sequential(nn.GroupNorm(2, 6)).eval()
    x = np.full((1, 6, 24, 20), 1234.567, "f4")
    with Session(nbglcnn.compile(model, x)) as session:
        np.testing.assert_array_equal(session.run(x)["0"], 0)


def test_a_mean_survives_nan_inf_and_numbers_near_the_largest() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(-1)

    rows = [
        [np.inf, 1, 2], [1, np.inf, 2], [1, -np.inf, np.inf], [np.nan, 1, 2], [1, 2, np.nan],
        [3e38, -3e38, 0], [-np.inf, 1, 1], [1e30, -1e30, 0], [-0.0, 0.0, 0.0],
    ]  # fmt: skip
    x = np.array(rows, "f4")
    with Session(nbglcnn.compile(Mean(), x)) as session:
        [key] = session.plan.header.outputs
        assert_equal(session.run(x)[key], Mean()(torch.from_numpy(x)).numpy())


class LossFunctions(nn.Module):
    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        loss = nn.functional.binary_cross_entropy_with_logits(x, target, reduction="none")
        many = nn.functional.multilabel_soft_margin_loss(x, target, reduction="none")
        return nn.functional.logsigmoid(x), loss, many


def test_the_logarithm_of_a_sigmoid_is_finite_everywhere() -> None:
    x = torch.tensor(
        [[0, 1e-30, -1e-30, 5, -5, 87, -87, 88, -88, 104, -104, 1e4, -1e4, 3e38, -3e38]]
    )
    x = torch.cat([x, torch.tensor([[torch.inf, -torch.inf, torch.nan] * 5])])
    target = torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
    with Session(nbglcnn.compile(LossFunctions(), (x, target), observe="outputs")) as session:
        found = session.run(x.numpy(), target.numpy())
        names = session.plan.header.outputs
    with torch.no_grad():
        expected = LossFunctions()(x, target)
    for name, value in zip(names[:2], expected[:2], strict=True):
        for own, true in zip(found[name].T, value.numpy().T, strict=True):
            assert_equal(own, true, name=name)
    assert_equal(found[names[2]], expected[2].numpy())


def test_a_log_sigmoid_keeps_its_modules_key() -> None:
    x = np.array([[-200, -1, 3]], "f4")
    model = nn.Sequential(nn.LogSigmoid(), nn.LogSigmoid()).eval()
    with Session(nbglcnn.compile(model, x)) as session:
        found = session.run(x)
        assert nbglcnn.verify(session, model, x).ok
    assert_equal(found["0"], nn.LogSigmoid()(torch.from_numpy(x)).numpy())


class TrigFunctions(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.sin(), x.cos(), x.tan()


def angles() -> np.ndarray:
    """Angles of every magnitude, also the float nearest to a multiple of a quarter turn."""
    rng = np.random.default_rng(5)
    sizes = [np.exp(rng.uniform(np.log(1e-3), np.log(3.4e38), 3000)), rng.uniform(0, 1e5, 3000)]
    turns = np.arange(1, 400) * np.pi / 2
    x = np.concatenate([*sizes, turns, [511.9999, 512, 512.0001, 16367173.0 * 2**72]])
    return np.concatenate([x, -x]).astype("f4").reshape(1, -1)


def check_sines(run: Callable[[Plan, tuple[np.ndarray]], dict[str, np.ndarray]]) -> None:
    x = angles()
    plan = nbglcnn.compile(TrigFunctions(), x, observe="outputs")
    found = run(plan, (x,))
    sine, cosine, tangent = (found[name] for name in plan.header.outputs)
    exact = x.astype("f8")
    np.testing.assert_allclose(sine, np.sin(exact), rtol=0, atol=2e-7)
    np.testing.assert_allclose(cosine, np.cos(exact), rtol=0, atol=2e-7)
    assert max(np.abs(sine).max(), np.abs(cosine).max()) <= 1
    # Near a pole or near 0, fewer digits of the reduced angle remain.
    plain = (np.abs(np.sin(exact)) > 1e-5) & (np.abs(np.cos(exact)) > 1e-5)
    np.testing.assert_allclose(tangent[plain], np.tan(exact[plain]), rtol=3e-6)


def test_sines_of_every_float_are_right() -> None:
    def opengl(plan: Plan, arrays: tuple[np.ndarray]) -> dict[str, np.ndarray]:
        with Session(plan) as session:
            return session.run(*arrays)

    check_sines(opengl)


def test_sines_of_every_float_are_right_in_a_page(gl: GlPage) -> None:
    check_sines(gl.run_plan)


def test_a_batch_norm_of_variance_and_epsilon_0_gives_the_same_kept_and_fused() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(5, eps=0.0).eval()
    norm.running_var[1:] = 0
    norm.running_mean[:] = torch.tensor([0.5, -0.5, 0.5, 0.0, -0.5])
    with torch.no_grad():
        norm.weight[4] = 0
    model, x = nn.Sequential(nn.Conv2d(2, 5, 3), norm).eval(), torch.randn(1, 2, 9, 8)
    with torch.no_grad():
        expected = model(x).numpy()
    assert {np.inf, -np.inf} <= set(expected[np.isinf(expected)])
    for observe in ("all", "outputs"):
        with Session(nbglcnn.compile(model, x, observe=observe)) as session:
            assert_equal(session.run(x.numpy())["output"], expected, name=observe)


def test_a_batch_norm_that_gets_variance_0_later_leaves_the_convolution() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5, eps=0.0), nn.ReLU()).eval()
    x, state = torch.randn(1, 2, 9, 8), model.state_dict()
    viewer = nbglcnn.Viewer(model, x, observe="outputs")
    assert_equal(viewer.output, model(x).detach().numpy(), name="before")
    for variance in (2.0, 0.0, 3.0):
        state["1.running_var"] = torch.tensor([1.0, variance, 1.0, variance, 1.0])
        state["1.running_mean"] = torch.tensor([0.1, 0.5, 0.1, -0.5, 0.2])
        viewer.load_state_dict(state)
        model.load_state_dict(state)
        expected = model(x).detach().numpy()
        assert np.isinf(expected).any() == (variance == 0)
        assert_equal(viewer.output, expected, name=f"variance {variance}")
    viewer.close()


class TrigOfAngles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft2(x).angle()


def test_angles_of_a_spectrum_are_pytorchs_but_for_whole_turns() -> None:
    """Where rounding makes a real negative number complex, its angle is π or −π."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 16, 12)
    with nbglcnn.Session(nbglcnn.compile(TrigOfAngles(), x)) as session:
        found = session.run(x.numpy())["output"]
    difference = np.abs(found - TrigOfAngles()(x).numpy())
    np.testing.assert_allclose(np.minimum(difference, 2 * np.pi - difference), 0, atol=1e-4)
