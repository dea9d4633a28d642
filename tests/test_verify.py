"""verify() and check(): tables with a verdict, which must be able to say no."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

import nbglcnn
from nbglcnn import InputError, Session, Viewer
from viewer_models import autoencoder, pictures


def another(model: nn.Module, layer: str) -> nn.Module:
    """The model with one weight of a layer larger."""
    changed = autoencoder(3)
    changed.load_state_dict(model.state_dict())
    with torch.no_grad():
        changed.get_submodule(layer).weight.view(-1)[0] += 0.5
    return changed


def test_a_session_agrees_with_the_model_it_was_compiled_from() -> None:
    model, x = autoencoder(3), pictures(3)
    plan = nbglcnn.compile(model, x)
    with Session(plan) as session:
        report = session.verify(model, pictures(4))
        assert report.ok
        assert report.first_diverging is None
        rows = [row.layer for row in report.rows]
        assert set(rows) == {value.key for value in plan.values} - {"input"}
        assert rows[: len(plan.layers)] == [layer.name for layer in plan.layers]
        assert all(0 < row.mean_abs <= row.max_abs < 1e-5 for row in report.rows[:3])
        assert f"PyTorch 2.13 on {session.renderer}" in str(report)


def test_the_first_layer_that_differs_is_named() -> None:
    model, x = autoencoder(3), pictures(3)
    wrong = another(model, "encoder.3")
    with Session(nbglcnn.compile(model, x)) as session:
        report = session.verify(wrong, x)
    assert not report.ok
    assert report.first_diverging == "encoder.3"
    assert "the first that is not: encoder.3" in str(report)
    names = [row.layer for row in report.rows]
    at = names.index("encoder.3")
    assert [row.ok for row in report.rows[:at]] == [True] * at
    assert not any(row.ok for row in report.rows[at : at + 3])


def test_another_shape_is_refused() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3)).eval()
    plan = nbglcnn.compile(model, np.zeros((1, 1, 5, 5), "f4"))
    with (
        Session(plan) as session,
        pytest.raises(InputError, match="Compile again for another shape"),
    ):
        session.verify(model, np.zeros((1, 1, 6, 6), "f4"))


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
        report = session.verify(model, x)
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
    assert viewer.verify().ok  # against PyTorch with the weights that the Viewer has now
    viewer.close()


def test_there_is_nothing_to_verify_where_only_the_framework_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(plan: object) -> None:
        raise nbglcnn.OpenGLUnavailable("none here")

    monkeypatch.setattr("nbglcnn.viewer.local.Session", none)
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
