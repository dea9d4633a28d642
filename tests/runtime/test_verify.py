"""verify() and check(): tables with a verdict, which must be able to fail."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

import nbglcnn
from nbglcnn import InputError, Session, UnsupportedOperator, Viewer, load
from nbglcnn.engine_disagreements import known_disagreement
from nbglcnn.features.edits.replay import EMPTY_REPLAY
from nbglcnn.graph import Node
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_float64, compute_reference, is_faithful, recompute_layers
from nbglcnn.report import Match, Report, compare_values, judge_by_float64, match_layer
from nbglcnn.widget.parity import make_verify_result
from onnx_models import model_of, node, randn
from recorded_runs import is_tracing
from viewer_models import autoencoder, pictures


def with_changed_weight(model: nn.Module, layer: str) -> nn.Module:
    """A copy of the model with one weight of a layer increased."""
    changed = autoencoder(3)
    changed.load_state_dict(model.state_dict())
    with torch.no_grad():
        changed.get_submodule(layer).weight.view(-1)[0] += 0.5
    return changed


def test_a_session_agrees_with_the_model_it_was_compiled_from() -> None:
    model, x = autoencoder(3), pictures(3)
    plan = nbglcnn.compile(model, x)
    with Session(plan) as session:
        report = nbglcnn.verify(session, model, pictures(4))
        assert report.ok
        assert report.first_diverging is None
        rows = [row.layer for row in report.rows]
        assert set(rows) == {value.key for value in plan.values} - {"input"}
        assert rows[: len(plan.layers)] == [layer.name for layer in plan.layers]
        assert all(0 < row.mean_abs <= row.max_abs < 1e-5 for row in report.rows[:3])
        assert f"PyTorch 2.13 on {session.renderer}" in str(report)


def test_the_first_layer_that_differs_is_named() -> None:
    model, x = autoencoder(3), pictures(3)
    wrong = with_changed_weight(model, "encoder.3")
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, wrong, x)
    assert not report.ok
    assert report.first_diverging == "encoder.3"
    assert "the first that is not: encoder.3" in str(report)
    names = [row.layer for row in report.rows]
    at = names.index("encoder.3")
    assert [row.ok for row in report.rows[:at]] == [True] * at
    assert not any(row.ok for row in report.rows[at : at + 3])


INF, NAN = np.inf, np.nan


class ChaoticModel(nn.Module):
    """Each step of the logistic map doubles the rounding error."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(self.conv(x))
        for _ in range(24):
            y = 3.9 * y * (1 - y)
        return self.last(y)


@pytest.mark.parametrize("fault", ["none", "conv", "last"])
def test_rounding_that_layers_enlarge_is_told_from_a_fault(fault: str) -> None:
    torch.manual_seed(0)
    model, x = ChaoticModel().eval(), torch.rand(1, 1, 16, 16)
    with Session(nbglcnn.compile(model, x)) as session:
        if fault != "none":
            with torch.no_grad():
                getattr(model, fault).bias += 1e-3
        report = nbglcnn.verify(session, model, x)
    rows = {row.layer: row for row in report.rows}
    last = rows["last"]
    assert last.relative > 1e-2, "float32 agrees with itself nowhere"
    if fault == "none":
        assert report.ok
        assert last.alone < 1e-6 < last.double[1]
        assert f"; {last.alone:.2g} on its own inputs" in str(report)
        assert rows["conv"].alone is None
    elif fault == "last":
        assert report.first_diverging == "last"
        assert last.alone == pytest.approx(1e-3, rel=0.1)
    else:
        # Layers after a wrong one inherit its errors, although each is correct on its own inputs.
        assert report.first_diverging == "conv"
        assert not last.ok and last.alone is None


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        ([1, 2, 100.0009], [1, 2, 100], True),
        ([1, 2.0009, 100], [1, 2, 100], True),
        ([1, 2.0011, 100], [1, 2, 100], False),
        ([NAN, INF, -INF, 1], [NAN, INF, -INF, 1], True),
        ([NAN, 2, 3], [1, 2, 3], False),
        ([1, 2, 3], [NAN, 2, 3], False),
        ([INF, 2, 3], [-INF, 2, 3], False),
        ([1, 2, INF], [1, 2, 3], False),
        ([NAN, NAN], [NAN, NAN], True),
        ([NAN, INF], [NAN, NAN], False),
    ],
)
def test_layers_match_within_a_share_of_the_largest_and_nan_and_inf_exactly(
    actual: list[float], expected: list[float], ok: bool
) -> None:
    row = match_layer("layer", np.array(actual), np.array(expected))
    assert row.ok == ok


def test_another_shape_is_refused() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3)).eval()
    plan = nbglcnn.compile(model, np.zeros((1, 1, 5, 5), "f4"))
    with (
        Session(plan) as session,
        pytest.raises(InputError, match="Compile again for another shape"),
    ):
        nbglcnn.verify(session, model, np.zeros((1, 1, 6, 6), "f4"))


def test_a_session_of_an_onnx_model() -> None:
    nodes = [
        helper.make_node("Softplus", ["x"], ["soft"]),
        helper.make_node("ReduceMean", ["soft", "axes"], ["mean"]),
    ]
    shape = [2, 3, 4, 5]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("mean", TensorProto.FLOAT, [2, 3, 1, 1])],
        [onnx.numpy_helper.from_array(np.array([2, 3]), "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    x = np.random.default_rng(0).normal(size=shape).astype("f4")
    with Session(nbglcnn.compile(model)) as session:
        report = nbglcnn.verify(session, model, x)
        assert report.ok
        assert "ONNX Runtime" in report.summary
        assert [row.layer for row in report.rows] == ["soft", "mean"]
    assert "<th>max abs error</th>" in report._repr_html_()


def test_a_viewer_without_a_page_is_verified_on_local_opengl() -> None:
    viewer = Viewer(autoencoder(3), pictures(3))
    before = viewer.input
    report = viewer.verify(pictures(5))
    assert report.ok
    assert "local (OpenGL" in report.summary
    np.testing.assert_array_equal(viewer.input, before)
    other = {name: value * 1.5 for name, value in autoencoder(3).state_dict().items()}
    viewer.load_state_dict(other)
    assert viewer.verify().ok  # against PyTorch with the Viewer's current weights
    viewer.close()


def test_there_is_nothing_to_verify_where_only_the_framework_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(plan: object) -> None:
        raise nbglcnn.OpenGLUnavailable("none here")

    monkeypatch.setattr("nbglcnn.local_backend.Session", none)
    viewer = Viewer(autoencoder(3), pictures(3))
    with pytest.raises(nbglcnn.DeviceError, match="nothing to verify"):
        viewer.verify()


def test_check_says_of_each_layer_whether_it_can_run() -> None:
    class Sorting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.det(self.conv(x)[:, 0])

    report = nbglcnn.check(Sorting().eval(), np.zeros((1, 1, 6, 6), "f4"))
    assert not report.ok
    assert report.rows[0].layer == "conv"
    assert report.rows[0].ok
    assert report.first_diverging is not None
    assert "Det" in str(report)
    assert nbglcnn.check(autoencoder(3), pictures(3)).ok


class InputFarFromZero(nn.Module):
    """A normalization of numbers near 1000: float32 keeps four digits of their differences."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * 2


def far_input() -> torch.Tensor:
    return torch.rand((4, 64), generator=torch.Generator().manual_seed(0)) + 1e3


def test_a_layer_as_near_to_float64_as_pytorch_is_ok_and_the_report_says_so() -> None:
    with Session(nbglcnn.compile(InputFarFromZero(), far_input())) as session:
        report = nbglcnn.verify(session, InputFarFromZero(), far_input())
    assert report.ok
    assert {row.layer for row in report.rows if row.double} == {"norm", "mul", "output"}
    [row] = [row for row in report.rows if row.layer == "norm"]
    own, reference = row.double
    assert row.relative > 1e-5
    assert 0 < own < 2 * reference < 2e-3
    assert ", 2 of them by float64" in report.summary
    assert f"yes: {own:.2g} from float64, the reference {reference:.2g}" in str(report)


def cancelling_model(fault: float = 0.0, pads: Sequence[int] = (0, 0, 0, 0)) -> onnx.ModelProto:
    """A strided Conv of numbers near 1e3, and the remainder after their mean is subtracted."""
    weight = np.random.default_rng(5).standard_normal((4, 1, 3, 2)).astype(np.float32)
    nodes = [
        helper.make_node(
            "Conv", ["x", "w", "b"], ["conv"], strides=[2, 1], pads=pads, dilations=[1, 2]
        ),
        helper.make_node("ReduceMean", ["conv"], ["mean"], axes=[2, 3], keepdims=1),
        helper.make_node("Sub", ["conv", "mean"], ["left"]),
        helper.make_node("Mul", ["left", "left"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "cancelling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 20, 20))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            onnx.numpy_helper.from_array(weight, "w"),
            onnx.numpy_helper.from_array(np.full(4, fault, np.float32), "b"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def test_an_onnx_layer_is_judged_by_float64_too() -> None:
    x = np.random.default_rng(6).random((1, 1, 20, 20), np.float32)
    x += 1e3
    with Session(nbglcnn.compile(cancelling_model(), x)) as session:
        report = nbglcnn.verify(session, cancelling_model(), x)
        assert report.ok
        assert {row.layer for row in report.rows if row.double} >= {"left"}
        assert not nbglcnn.verify(session, cancelling_model(fault=0.1), x).ok


def test_the_double_precision_of_an_onnx_model_is_that_of_pytorch() -> None:
    x = np.random.default_rng(7).random((1, 1, 20, 20), np.float32)
    model = cancelling_model(0.3, pads=(0, 1, 1, 0))
    graph, _ = load.load(model, x)
    found = compute_float64(model, graph, [x], ["conv", "y"])
    weight, bias = (
        torch.tensor(graph.values[name].data, dtype=torch.float64) for name in ("w", "b")
    )
    padded = nn.functional.pad(torch.from_numpy(x).double(), (1, 0, 0, 1))
    conv = nn.functional.conv2d(padded, weight, bias, stride=(2, 1), dilation=(1, 2))
    left = conv - conv.mean((2, 3), keepdim=True)
    assert np.abs(found["conv"] - conv.numpy()).max() < 1e-12
    assert np.abs(found["y"] - (left * left).numpy()).max() < 1e-12


def test_float64_finds_a_small_fault_that_rounding_could_hide() -> None:
    wrong = InputFarFromZero()
    with torch.no_grad():
        wrong.norm.bias += 3e-3
    with Session(nbglcnn.compile(wrong, far_input())) as session:
        report = nbglcnn.verify(session, InputFarFromZero(), far_input())
    assert not report.ok
    [row] = [row for row in report.rows if row.layer == "norm"]
    own, reference = row.double
    assert own > 2 * reference


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        ([1.00015, 100], [1.0001, 100], True),
        ([1.0003, 100], [1.0001, 100], True),  # within a share of the largest value
        ([1.05, 97], [1.03, 98], False),  # nearly PyTorch's error, but beyond rounding
        ([1.00015, 100.0], [1.0001, NAN], False),
        ([1.00015, NAN], [1.0001, 100.0], False),
    ],
)
def test_float64_excuses_rounding_alone(
    actual: list[float], expected: list[float], ok: bool
) -> None:
    a, b, true = (np.array(one) for one in (actual, expected, [1.0, 100.0]))
    assert judge_by_float64(match_layer("layer", a, b), a, b, true).ok == ok


def test_float64_is_asked_only_where_float32_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def exact(
        model: object, graph: object, arrays: object, names: list[str], bends: object
    ) -> dict:
        asked.append(names)
        return {}

    monkeypatch.setattr("nbglcnn.api.compute_float64", exact)
    with Session(nbglcnn.compile(autoencoder(3), pictures(3))) as session:
        assert nbglcnn.verify(session, autoencoder(3), pictures(3)).ok
    assert asked == []
    with Session(nbglcnn.compile(InputFarFromZero(), far_input())) as session:
        assert not nbglcnn.verify(session, InputFarFromZero(), far_input()).ok
    assert len(asked) == 1
    assert asked[0][0] == "norm"


def test_a_viewer_and_a_comparison_judge_alike() -> None:
    viewer = Viewer(InputFarFromZero(), far_input())
    report = viewer.verify(far_input() + 1)
    assert report.ok
    assert "by float64" in report.summary
    viewer.close()
    both = nbglcnn.compare(InputFarFromZero(), InputFarFromZero(), far_input())
    report = both.verify()
    assert report.ok
    judged = {row.layer for row in report.rows if row.double}
    assert {"A.norm", "B.norm"} <= judged
    both.close()


class SinePositions(nn.Module):
    """Sine positions, computed in forward, explicitly in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], dtype=torch.float32)[:, None]
        speeds = torch.exp(torch.arange(0, 64, 2).float() * (-np.log(1e4) / 64))
        code = torch.stack([torch.sin(places * speeds), torch.cos(places * speeds)], -1)
        return self.line(x + code.flatten(1))


def test_a_model_that_makes_float32_itself_is_run_in_double_precision() -> None:
    from nbglcnn.load import load
    from nbglcnn.reference import compute_float64

    torch.manual_seed(0)
    model, x = SinePositions().eval(), torch.randn(1, 1000, 64)
    graph, arrays = load(model, x)
    [true] = compute_float64(model, graph, arrays, ["line"]).values()
    assert true.dtype == np.float64
    places, speeds = np.arange(1000.0)[:, None], np.exp(np.arange(0, 64, 2) * (-np.log(1e4) / 64))
    code = np.stack([np.sin(places * speeds), np.cos(places * speeds)], -1).reshape(1000, 64)
    weight, bias = (p.detach().double().numpy() for p in (model.line.weight, model.line.bias))
    np.testing.assert_allclose(
        true[0], (x[0].double().numpy() + code) @ weight.T + bias, atol=1e-12
    )
    assert next(model.parameters()).dtype == torch.float32
    with Session(nbglcnn.compile(model, x)) as session:
        assert nbglcnn.verify(session, model, x).ok


class RampConstants(nn.Module):
    """Constants made in forward that float32 would round."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.linspace(0, 1, 7) + torch.full((7,), 0.1)


def test_numbers_that_forward_makes_are_made_in_double_precision() -> None:
    from nbglcnn.load import load
    from nbglcnn.reference import compute_float64

    graph, arrays = load(RampConstants(), torch.ones(1, 7))
    [true] = compute_float64(RampConstants(), graph, arrays, ["output"]).values()
    np.testing.assert_allclose(true[0], np.linspace(0, 1, 7) + 0.1, rtol=1e-14)


class NonfiniteChannels(nn.Module):
    """A layer with an infinite channel, another with NaN, and layers that depend on them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Conv2d(1, 4, 1)
        self.features = nn.Sequential(nn.ReLU(), nn.BatchNorm2d(4), nn.ReLU())
        with torch.no_grad():
            self.scale.weight[:] = 1
            self.scale.bias[:] = torch.tensor([0.0, torch.inf, 0.0, 0.0])
            self.features[1].running_var[2] = -1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.features(self.scale(x))


def test_nan_and_infinity_that_match_are_said_with_their_first_place() -> None:
    model, x = NonfiniteChannels().eval(), np.ones((2, 1, 3, 3), "f4")
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, model, x)
    assert report.ok
    assert report.summary.endswith(
        "; 4 layers have NaN or infinity, first infinity: scale, channel 1; "
        "first NaN: features.1, channel 2"
    )
    rows = {row.layer: row for row in report.rows}
    assert (rows["scale"].nan, rows["scale"].inf, rows["scale"].channel) == (0, 18, 1)
    assert (rows["features.1"].nan, rows["features.1"].channel) == (18, 2)
    told = {name: numbers for name, *numbers in make_verify_result(0, report, "PyTorch").non_finite}
    assert (told["scale"], told["features.1"]) == ([0, 18, 1], [18, 18, 2])
    assert "yes: 18 infinities, first in channel 1" in str(report)
    assert "18 NaN, 18 infinities, first in channel 2" in report._repr_html_()


def test_the_channel_of_a_nan_in_a_further_image_is_its_own() -> None:
    model, x = nn.Sequential(nn.Conv2d(1, 3, 1), nn.ReLU()).eval(), np.ones((3, 1, 2, 2), "f4")
    x[2, 0, 1] = np.nan
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, model, x)
    assert [(row.nan, row.channel) for row in report.rows] == [(6, 0)] * 3


def test_a_finite_network_has_no_word_on_nan() -> None:
    model, x = autoencoder(3), pictures(3)
    with Session(nbglcnn.compile(model, x)) as session:
        assert "NaN" not in str(nbglcnn.verify(session, model, x))


class AliasedLayers(nn.Module):
    """Containers, aliases of one value, a layer that is called twice, an addition."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Identity(), nn.Dropout())
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.body(x) + self.act(x))


def test_every_count_of_layers_is_that_of_the_table() -> None:
    model, x = AliasedLayers().eval(), np.ones((1, 1, 4, 4), "f4")
    viewer = Viewer(model, x)
    count = len(viewer.layers)
    assert [layer.name for layer in viewer.layers] == [
        "body.0", "body.1", "body.2", "act", "add", "act:1",
    ]  # fmt: skip
    report = viewer.verify()
    assert len(report.rows) == count + 2  # body, output
    assert report.matching == count and report.summary.startswith(f"{count} of {count} layers")
    checked = nbglcnn.check(model, x)
    assert [row.layer for row in checked.rows] == [layer.name for layer in viewer.layers]
    assert checked.summary == f"{count} of {count} layers can run"
    assert f"{count} layers, " in repr(nbglcnn.compile(model, x))
    viewer.close()


def test_without_layers_the_outputs_are_counted_as_values() -> None:
    model, x = AliasedLayers().eval(), np.ones((1, 1, 4, 4), "f4")
    with Session(nbglcnn.compile(model, x, observe="outputs")) as session:
        assert nbglcnn.verify(session, model, x).summary.startswith("1 of 1 values match PyTorch")


def test_the_layers_of_two_networks_are_counted_apart() -> None:
    x = pictures(3)
    comparison = nbglcnn.compare(autoencoder(3), autoencoder(7), x)
    one = len(nbglcnn.compile(autoencoder(3), x).layers)
    report = comparison.verify()
    assert report.summary.startswith(f"{one} + {one} of {one} + {one} layers match PyTorch")
    shared = sum(a in {layer.name.removeprefix("A.") for layer in comparison.layers}
                 for a, _ in comparison.matched)  # fmt: skip
    assert f" of {shared} layers are equal in A and B" in comparison.changes().summary
    assert f"{one} + {one} layers, {shared} compared" in repr(comparison)
    comparison.close()
    longer = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Tanh()).eval()
    comparison = nbglcnn.compare(longer[:2], longer, x)
    assert comparison.verify().summary.startswith("2 + 3 of 2 + 3 layers match PyTorch")
    comparison.close()


@pytest.mark.parametrize("observe", ["all", "outputs"])
def test_a_verdict_that_rounding_may_have_made_says_what_would_tell(observe: str) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).eval()
    plan = nbglcnn.compile(model, np.zeros((1, 1, 5, 5), "f4"), observe=observe)
    right = {value.key: np.ones(value.shape, np.float32) for value in plan.values}
    wrong = {key: array * 1.1 for key, array in right.items()}

    def nothing(*_: object) -> dict[str, np.ndarray]:
        return {}  # the layer's inputs are missing

    told = compare_values(
        plan, wrong, right, "PyTorch", compute_float64=nothing, recompute_layers=nothing
    ).summary
    assert ('verify with observe="all"' in told) == (observe == "outputs")
    assert (
        "observe="
        not in compare_values(plan, right, right, "PyTorch", recompute_layers=nothing).summary
    )


def test_a_tie_that_only_float32_has_is_no_fault() -> None:
    # Like ONNX Runtime, whose preceding values differ in the last digit.
    scale = np.float32(0.05)
    x = np.arange(1, 400, 2, dtype=np.float32)[None] * np.float32(0.025)
    constants = {"scale": scale, "zero": np.int8(0)}
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    graph, _ = load.load(model_of(nodes, {"x": x.shape}, ["y"], constants=constants), x)
    single, wide = (np.clip(np.rint(x / one), -128, 127) for one in (scale, np.float64(scale)))
    assert (single != wide).any()
    plan = lower(graph)
    with Session(plan) as session:
        found = session.run(x)
    np.testing.assert_array_equal(found["q"], single)
    expected = found | {"q": wide.astype(found["q"].dtype), "y": (wide * scale).astype(np.float32)}
    own = partial(recompute_layers, graph)
    assert compare_values(
        plan, found, expected, "ONNX Runtime", recompute_layers=partial(own, found)
    ).ok
    found["y"] = found["y"] + np.float32(0.01)
    report = compare_values(
        plan, found, expected, "ONNX Runtime", recompute_layers=partial(own, found)
    )
    assert [row.layer for row in report.rows if not row.ok] == ["y"]


def test_a_model_in_the_sessions_place_is_told_how_to_make_one() -> None:
    model = nn.Conv2d(1, 1, 1).eval()
    with pytest.raises(InputError, match=r"got Conv2d: with nbglcnn\.Session\(nbglcnn\.compile"):
        nbglcnn.verify(model, torch.ones(1, 1, 2, 2))  # type: ignore[arg-type]


class BetweenConvs(nn.Module):
    """Two convolutions, with a subclass's code between them that depends on the call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)
        self.calls = 0
        self.register_buffer("seen", torch.ones(1))

    def between(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.between(self.conv(x)))


class CountsCalls(BetweenConvs):
    def between(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class CountsInABuffer(BetweenConvs):
    def between(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x * self.seen


class DrawsWithNumpy(BetweenConvs):
    def between(self, x: torch.Tensor) -> torch.Tensor:
        return x * np.random.rand()


class AddsLastInput(BetweenConvs):
    last_input = None

    def between(self, x: torch.Tensor) -> torch.Tensor:
        before, self.last_input = self.last_input, x.detach()
        return x if before is None else x + before


class FailsOnSecondCall(BetweenConvs):
    def __init__(self) -> None:
        super().__init__()
        self.factors = [2.0]

    def between(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factors.pop()


UNREPEATABLE_MODELS = [
    CountsCalls,
    CountsInABuffer,
    DrawsWithNumpy,
    AddsLastInput,
    FailsOnSecondCall,
]
CALLS_DIFFER_TEXT = "two equal calls of the model differ, first in last"


@pytest.mark.filterwarnings("ignore:.*two equal calls")
@pytest.mark.parametrize("kind", UNREPEATABLE_MODELS)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_model_whose_second_equal_call_differs_is_not_verified(
    kind: type[BetweenConvs], batch: int
) -> None:
    np.random.seed(0)
    model, x = kind().eval(), torch.randn(batch, 3, 10, 9)
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, model, x)
    rows = {row.layer: row for row in report.rows}
    assert not report.ok
    assert rows["conv"].ok and rows["conv"].repeated is None
    assert not rows["last"].ok and rows["last"].repeated > 1e-2
    assert "two equal calls of the model differ, first in" in report.summary
    assert "two equal calls of the model differ by" in rows["last"].table_row()[-1]


def test_a_models_own_float64_clears_no_layer_that_it_computes_otherwise() -> None:
    class Sign(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            exported = is_tracing() or x.dtype == torch.float64
            return x * (1.0 if exported else -1.0)

    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), Sign(), nn.ReLU()).eval(), torch.randn(2, 3, 8, 9)
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, model, x)
    assert report.first_diverging == "1"
    assert "1 as loaded computes different values than in the model" in report.summary


def test_a_layer_that_counts_itself_is_named() -> None:
    class Counter(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x * self.calls

    model, x = nn.Sequential(nn.Conv2d(1, 4, 3), Counter(), nn.ReLU()).eval(), pictures(3)
    with pytest.warns(UserWarning, match="two equal calls"):
        plan = nbglcnn.compile(model, x)
    with Session(plan) as session, pytest.warns(UserWarning, match="two equal calls"):
        summary = nbglcnn.verify(session, model, x).summary
    assert "two equal calls of the model differ, first in 1," in summary


@pytest.mark.filterwarnings("ignore:.*two equal calls")
def test_a_viewer_and_both_sides_of_a_comparison_call_the_model_twice() -> None:
    x = torch.randn(2, 3, 10, 9)
    viewer = Viewer(CountsCalls().eval(), x)
    assert CALLS_DIFFER_TEXT in viewer.verify().summary
    viewer.close()
    both = nbglcnn.compare(BetweenConvs().eval(), CountsCalls().eval(), x)
    report = both.verify()
    both.close()
    assert {row.layer for row in report.rows if row.repeated} >= {"B.last"}
    assert not any(row.repeated for row in report.rows if row.layer.startswith("A."))
    assert "differ, first in B.last" in report.summary


@pytest.mark.filterwarnings("ignore:.*two equal calls")
def test_two_calls_leave_the_users_generators_and_the_model_as_they_were() -> None:
    model, x = DrawsWithNumpy().eval(), torch.randn(1, 3, 10, 9)
    with Session(nbglcnn.compile(model, x)) as session:
        state = torch.get_rng_state()
        assert not nbglcnn.verify(session, model, x).ok
        assert torch.equal(torch.get_rng_state(), state)
    counts = CountsInABuffer().eval()
    with Session(nbglcnn.compile(counts, x)) as session:
        nbglcnn.verify(session, counts, x)
    assert counts.seen.item() == 1


def test_noise_that_is_an_input_is_equal_in_both_calls() -> None:
    class Noisy(BetweenConvs):
        def between(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn_like(x)

    model, x = Noisy().eval(), torch.randn(2, 3, 10, 9)
    with Session(nbglcnn.compile(model, x)) as session:
        assert nbglcnn.verify(session, model, x).ok


class ExportsDifferently(BetweenConvs):
    """Its exported program differs from the module by `factor`."""

    factor = 1.5

    def between(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor if is_tracing() else x


@pytest.mark.parametrize("factor", [1.5, 1.001])
def test_float64_of_the_loaded_graph_does_not_clear_what_the_model_computes_otherwise(
    factor: float,
) -> None:
    model, x = ExportsDifferently().eval(), torch.randn(2, 3, 10, 9)
    model.factor = factor
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, model, x)
    assert not report.ok
    assert report.first_diverging == "last"
    assert "on the reference's own inputs, last as loaded computes different values" in str(report)


def test_float64_of_an_onnx_graph_does_not_clear_what_onnx_runtime_computes_otherwise() -> None:
    x = np.random.default_rng(6).random((1, 1, 20, 20), np.float32) + np.float32(1e3)
    graph, arrays = load.load(cancelling_model(), x)
    other, _ = load.load(cancelling_model(fault=0.1), x)
    expected = compute_reference(cancelling_model(fault=0.1), other, arrays)
    plan = lower(graph)
    with Session(plan) as session:
        found = session.run(x)

    def report(faithful: Callable[[str], bool]) -> Report[Match]:
        judges = (
            partial(compute_float64, cancelling_model(), graph, arrays),
            partial(recompute_layers, graph, found),
        )
        return compare_values(
            plan, found, expected, "ONNX Runtime", None, *judges, is_faithful=faithful
        )

    assert not report(partial(is_faithful, graph, expected, EMPTY_REPLAY)).ok
    right = compute_reference(cancelling_model(), graph, arrays)
    assert all(is_faithful(graph, right, EMPTY_REPLAY, key) for key in right)


def int_vector(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


SLICE_INPUTS = {
    "axis": np.array(2, np.int64),
    "start": np.array(1, np.int64),
    "end": np.array(3, np.int64),
}
# Models that ONNX Runtime refuses and nbglcnn runs.
REFUSED_BY_RUNTIMES = {
    "transposed, more padding than stride": model_of(
        [node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[1, 1], dilations=[2, 2],
              output_padding=[1, 1], pads=[1, 0, 0, 1], kernel_shape=[3, 3], group=2)],
        {"x": (2, 4, 5, 6)}, ["y"], constants={"w": randn(4, 3, 3, 3), "b": randn(6)},
    ),
    "squeeze": model_of(
        [node("Squeeze", ["x", "axis"], ["y"])], {"x": (2, 4, 1)}, ["y"], constants=SLICE_INPUTS
    ),
    "slice": model_of(
        [node("Slice", ["x", "start", "end", "axis"], ["y"])], {"x": (2, 3, 5)}, ["y"],
        constants=SLICE_INPUTS,
    ),
    "pad": model_of(
        [node("Pad", ["x", "pads", "", "axis"], ["y"])], {"x": (2, 3, 5)}, ["y"],
        constants={"pads": int_vector(1, 2), **SLICE_INPUTS}, opset=18,
    ),
    "reshape": model_of(
        [node("Reshape", ["x", "shape"], ["y"])], {"x": (2, 3, 5)}, ["y"],
        constants={"shape": np.array(-1, np.int64)},
    ),
    "pool": model_of(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[3, 3],
              auto_pad="SAME_UPPER")], {"x": (2, 3, 12, 12)}, ["y"],
    ),
    "pool, lower": model_of(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[1, 3], strides=[4, 8],
              auto_pad="SAME_LOWER")], {"x": (2, 3, 12, 16)}, ["y"],
    ),
}  # fmt: skip


def reference_output(name: str, model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """PyTorch's results for the models of REFUSED_BY_RUNTIMES."""
    tensor = torch.from_numpy(x)
    if name.startswith("transposed"):
        weight, bias = map(onnx.numpy_helper.to_array, model.graph.initializer)
        found = nn.functional.conv_transpose2d(
            tensor, torch.tensor(weight), torch.tensor(bias), dilation=2, groups=2,
            output_padding=1,
        )  # fmt: skip
        return found[:, :, 1:, :-1].numpy()
    if name.startswith("pool"):
        kernel, strides = (2, 3) if name == "pool" else ((1, 3), (4, 8))
        return nn.functional.max_pool2d(tensor, kernel, strides).numpy()
    return {
        "squeeze": x[..., 0] if x.shape[-1] == 1 else x,
        "slice": x[..., 1:3],
        "pad": np.pad(x, ((0, 0), (0, 0), (1, 2))),
        "reshape": x.reshape(-1),
    }[name]


@pytest.mark.parametrize("name", REFUSED_BY_RUNTIMES)
def test_what_onnx_runtime_refuses_is_compared_with_another_reference(name: str) -> None:
    model = REFUSED_BY_RUNTIMES[name]
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = randn(*shape)
    with Session(nbglcnn.compile(model, x)) as session:
        np.testing.assert_allclose(session.run(x)["y"], reference_output(name, model, x), atol=1e-5)
        report = nbglcnn.verify(session, model, x)
    assert report.ok
    assert report.summary.startswith("1 of 1 layers match onnx.reference")


def test_layers_that_no_reference_can_run_are_said_and_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nbglcnn.load.passes import evaluate

    model = model_of(
        [node("Relu", ["x"], ["r"]), node("MaxPool", ["r"], ["y"], kernel_shape=[2, 2],
                                          strides=[3, 3], auto_pad="SAME_UPPER")],
        {"x": (1, 3, 12, 12)}, ["y"],
    )  # fmt: skip
    x = randn(1, 3, 12, 12)

    def fails(given: Node, _: object) -> Node:
        raise ValueError(f"no {given.op} here")

    monkeypatch.setattr(evaluate, "_with_pads", fails)
    with Session(nbglcnn.compile(model)) as session:
        report = nbglcnn.verify(session, model, x)
        assert not report.ok
        assert report.first_diverging is None
        assert "1 of 1 layers match" in report.summary
        assert "the reference cannot run y (MaxPool (node 'y'): cannot be" in report.summary
        assert "no MaxPool here" in report.summary
    with Session(nbglcnn.compile(model, observe="outputs")) as session:
        report = nbglcnn.verify(session, model, x)
        assert not report.ok
        assert report.summary.startswith("no layer could be compared; the reference cannot run y")
    viewer = Viewer(model, x)
    assert "the reference cannot run y" in viewer.verify().summary
    viewer.close()


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op", ["Conv", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("kernel", "stride", "size", "left"),
    [(5, 10, 200, 5), (2, 5, 10, 3), (1, 4, 12, 3), (1, 2, 8, 1), (3, 5, 25, 2), (2, 3, 11, 0)],
)
def test_windows_that_leave_pixels_out_are_onnx_runtimes_or_refused(
    op: str, mode: str, kernel: int, stride: int, size: int, left: int
) -> None:
    made = node(
        op, ["x", "w"] if op == "Conv" else ["x"], ["y"], auto_pad=mode,
        strides=[1, stride], kernel_shape=[1, kernel],
    )  # fmt: skip
    constants = {"w": randn(3, 2, 1, kernel)} if op == "Conv" else {}
    model, x = (
        model_of([made], {"x": (2, 2, 3, size)}, ["y"], constants=constants),
        randn(2, 2, 3, size),
    )
    if left > (2 if op == "Conv" else 1):
        words = f"kernel of {kernel} and a stride of {stride} over {size} pixels omits {left} of"
        with pytest.raises(UnsupportedOperator, match=words):
            nbglcnn.compile(model)
        return
    with Session(nbglcnn.compile(model)) as session:
        report = nbglcnn.verify(session, model, x)
    assert report.ok and "match ONNX Runtime" in report.summary


def disputed_layer(
    op: str, shape: tuple[int, ...], *constants: np.ndarray, **attributes: Any
) -> Any:
    """A layer for which ONNX Runtime and onnx.reference differ; and an input."""
    names = {f"c{at}": array for at, array in enumerate(constants)}
    model = model_of(
        [node(op, ["x", *names], ["y"], **attributes)], {"x": shape}, ["y"], constants=names
    )
    return model, np.random.default_rng(0).random(shape, np.float32)


EMPTY_ROI = np.zeros(0, np.float32)
DISPUTED_LAYERS: dict[str, tuple[Any, str]] = {
    "Resize": (
        disputed_layer("Resize", (1, 1, 2, 4), EMPTY_ROI, np.float32([1, 1, 0.6, 0.6]),
                       mode="linear", coordinate_transformation_mode="align_corners"),
        "ONNX Runtime rounds the resized length before it aligns the corners; onnx.reference",
    ),
    "LRN": (
        disputed_layer("LRN", (2, 7, 3, 3), size=4, alpha=1.0),
        "ONNX Runtime rejects an even size, and onnx.reference omits channels",
    ),
    "ConvTranspose": (
        disputed_layer("ConvTranspose", (1, 1, 4, 5), np.ones((1, 1, 2, 2), np.float32),
                       strides=[3, 3], auto_pad="SAME_UPPER"),
        "this layer and onnx.reference follow",
    ),
    "AveragePool": (
        disputed_layer("AveragePool", (1, 1, 9), kernel_shape=[2], dilations=[2],
                       auto_pad="SAME_LOWER"),
        "pad as if the kernel had no dilations; this layer pads for the dilated kernel",
    ),
}  # fmt: skip


@pytest.mark.parametrize("op", DISPUTED_LAYERS)
def test_a_report_says_where_the_references_disagree_and_which_a_layer_follows(op: str) -> None:
    (model, x), words = DISPUTED_LAYERS[op]
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, model, x)
    assert not report.ok
    assert words in report.summary
    assert "this is no rounding" not in report.summary


def test_a_wrong_layer_of_an_undisputed_shape_has_no_such_words() -> None:
    for op, shape, options in (
        ("LRN", (2, 7, 3, 3), {"size": 3}),
        ("AveragePool", (1, 1, 9), {"kernel_shape": [2], "auto_pad": "SAME_LOWER"}),
    ):
        model, x = disputed_layer(op, shape, **options)
        graph, _ = load.load(model, x)
        assert known_disagreement(graph, "y") == ""
    model, x = disputed_layer(
        "ConvTranspose", (1, 1, 4, 5), np.ones((1, 1, 2, 2), np.float32), strides=[2, 2],
        auto_pad="SAME_UPPER",
    )  # fmt: skip
    assert known_disagreement(load.load(model, x)[0], "y") == ""
    model, x = disputed_layer(
        "Resize", (1, 1, 2, 4), EMPTY_ROI, np.float32([1, 1, 2, 1.5]), mode="linear",
        coordinate_transformation_mode="align_corners",
    )  # fmt: skip
    assert known_disagreement(load.load(model, x)[0], "y") == ""
    with Session(nbglcnn.compile(model, x)) as session:
        assert nbglcnn.verify(session, model, x).ok


@pytest.mark.parametrize(
    ("mode", "scale", "shape", "wanted"),
    [
        # The expected values of ONNX's test_resize_downsample_scales_{linear,cubic}_align_corners.
        ("linear", 0.6, (2, 4), [[1.0, 3.142857]]),
        (
            "cubic", 0.8, (4, 4),
            [[1.0, 2.3951917, 3.790383], [6.580766, 7.975958, 9.371149],
             [12.161532, 13.556724, 14.951915]],
        ),
    ],
)  # fmt: skip
def test_aligned_corners_take_the_fractional_length_as_onnx_tests_do(
    mode: str, scale: float, shape: tuple[int, int], wanted: list[list[float]]
) -> None:
    model, _ = disputed_layer(
        "Resize", (1, 1, *shape), EMPTY_ROI, np.float32([1, 1, scale, scale]), mode=mode,
        coordinate_transformation_mode="align_corners",
    )  # fmt: skip
    x = np.arange(1, shape[0] * shape[1] + 1, dtype=np.float32).reshape(1, 1, *shape)
    with Session(nbglcnn.compile(model, x)) as session:
        np.testing.assert_allclose(session.run(x)["y"][0, 0], wanted, rtol=1e-5)
