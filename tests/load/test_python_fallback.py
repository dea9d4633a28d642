"""Layers that cannot run: Python computes them, the rest runs, and every surface reports it."""

import io
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import parser
from PIL import Image
from playwright.sync_api import Browser, expect
from torch import nn

import nbglcnn
from assertions import assert_equal
from jupyter_lab import LabServer, new_notebook
from nbglcnn import InputError, UnsupportedModel, Viewer, local_backend
from nbglcnn.errors import OpenGLUnavailable
from python_fallback_models import (
    NETWORKS,
    NumpyCumsum,
    SingularValues,
    conv3x3,
    make_network,
    record_calls,
)
from viewer_models import IMPORTS_CELL
from views_page import ViewsPage


def assert_all_values(viewer: Viewer, model: nn.Module, x: np.ndarray, min_count: int) -> None:
    """Check all keys that hooks see against PyTorch's numbers."""
    expected = record_calls(model, x)
    values = viewer.activations.to_dict()
    common = [key for key in values if key in expected]
    assert len(common) >= min_count
    for key in common:
        assert_equal(values[key], expected[key], name=key)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_is_pytorchs_before_in_and_behind_python(name: str) -> None:
    model, x, own = make_network(name)
    viewer = Viewer(model, x)
    assert tuple(layer.name for layer in viewer.layers if layer.python) == own
    assert viewer.network.plan.header.batch == len(x)
    assert_all_values(viewer, model, x, len(own) if name != "ViT" else 5)
    viewer.input = x[::-1] * 2  # Python's values follow the input
    assert_all_values(viewer, model, x[::-1] * 2, 2)
    other, *_ = make_network(name, seed=1)
    viewer.load_state_dict(other.state_dict())  # and the weights
    assert_all_values(viewer, other, x[::-1] * 2, 2)
    report = viewer.verify(x)
    assert report.ok and report.in_python == own
    assert_equal(viewer.input, x[::-1] * 2)
    viewer.close()


class SumsInPlace(nn.Module):
    """Writes the result of code outside PyTorch's operators into its input."""

    def __init__(self, *, returned: bool) -> None:
        super().__init__()
        self.returned = returned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.copy_(torch.from_numpy(np.cumsum(x.numpy(), -1)))
        return x if self.returned else x.amax(1)


class WritesConvOutput(nn.Module):
    def __init__(self, *, returned: bool) -> None:
        super().__init__()
        self.conv = conv3x3(3, 4)
        self.sums = SumsInPlace(returned=returned)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        z = self.sums(y)
        return y * 2 + z.mean()


def test_what_a_layer_in_python_writes_into_its_input_is_read_behind_it() -> None:
    x = np.random.default_rng(2).standard_normal((2, 3, 6, 5)).astype(np.float32)
    model = WritesConvOutput(returned=True).eval()
    viewer = Viewer(model, x)
    assert [layer.name for layer in viewer.layers if layer.python] == ["sums"]
    assert_all_values(viewer, model, x, 3)
    viewer.input = x * 3
    assert_all_values(viewer, model, x * 3, 3)
    viewer.close()
    with pytest.raises(UnsupportedModel, match=r"sums \(SumsInPlace\).*writes into an argument"):
        Viewer(WritesConvOutput(returned=False).eval(), x)


def test_compile_strict_viewers_and_sessions_refuse_as_before() -> None:
    model, x, _ = make_network("LSTM")
    refused = r"lstm \(LSTM\): the operator LSTM is not among"
    with pytest.raises(UnsupportedModel, match=refused):
        nbglcnn.compile(model, x)
    with pytest.raises(UnsupportedModel, match=refused):
        Viewer(model, x, strict=True)
    with pytest.raises(UnsupportedModel, match=refused):
        nbglcnn.compare(model, model, x, x_b=-x, strict=True)


class InputDependentBranch(nn.Module):
    """Its control flow depends on values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


class UnexportableModel(nn.Module):
    """A model whose own forward cannot be exported, so that no module of it can be replaced."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.cumsum(x.numpy(), -1))


def test_control_flow_and_a_forward_without_modules_are_refused() -> None:
    x = np.ones((1, 3, 4, 4), np.float32)
    with pytest.raises(
        UnsupportedModel, match=r"in 1, a InputDependentBranch.*depends on the input's values"
    ):
        Viewer(nn.Sequential(conv3x3(3, 3), InputDependentBranch()), x)
    with pytest.raises(UnsupportedModel, match=r"UnexportableModel cannot be traced.*\.numpy\(\)"):
        Viewer(UnexportableModel(), x)


def test_verify_calls_nothing_matched_that_is_pythons_own() -> None:
    model, x, own = make_network("LSTM")
    viewer = Viewer(model, x)
    report = viewer.verify()
    assert [row.in_python for row in report.rows if row.layer in own] == [True] * 3
    assert report.found.startswith("8 of 8 layers match PyTorch")
    assert report.summary.endswith("; 3 run in Python (lstm[0], lstm[1][0], lstm[1][1])")
    assert str(report).count("in Python\n") == 3
    assert "LSTM (in Python)" in repr(viewer.layers)
    assert viewer.status["in_python"] == list(own)
    # A value that differs from Python's result doesn't match either.
    viewer.network.python_values = tuple(array + 1 for array in viewer.network.python_values)
    viewer.network.revision += 1
    assert viewer.verify().first_diverging == "lstm[0]"
    viewer.close()


def test_check_marks_them_and_is_not_ok() -> None:
    model, x, own = make_network("one after the other")
    report = nbglcnn.check(model, x)
    assert [(row.layer, row.operator, row.ok, row.in_python) for row in report.rows] == [
        ("0", "Conv", True, False),
        ("1", "NumpyCumsum", False, True),
        ("2", "CustomTanh", False, True),
        ("3", "Conv", True, False),
        ("4", "NumpyCumsum", False, True),
        ("5", "ReLU", True, False),
    ]
    assert "it calls .numpy() on a tensor" in report.rows[1].reason
    assert not report.ok and report.in_python == own
    assert str(report).count("  in Python  ") == 3


def test_only_what_is_read_is_sent() -> None:
    model, x, _ = make_network("LSTM")
    viewer = Viewer(model, x, observe="outputs")
    assert [record.key for record in viewer.network.plan.in_python] == ["lstm[0]", "lstm[1][0]"]
    assert_equal(viewer.output, record_calls(model, x)["output"])
    assert_equal(viewer.run(-x), record_calls(model, -x)["output"])
    viewer.close()


def test_another_shape_for_another_input_is_an_error_that_names_the_layer() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (float[1,6] x) => (y) {\n  r = Relu(x)\n  u = Unique(r)\n  y = Neg(u)\n}"
    )
    x = np.float32([[1, 2, 2, 3, -4, 5]])
    viewer = Viewer(model, x)
    with pytest.raises(InputError, match=r"u \(Unique\) runs in Python.*\(2,\).*\(5,\)"):
        viewer.input = np.float32([[1, 1, 1, 1, 2, 2]])
    assert_equal(viewer.input, x)
    assert_equal(viewer.output, np.float32([0, -1, -2, -3, -5]))
    viewer.close()


def test_two_networks_are_compared_with_their_layers_in_python() -> None:
    (a, x, own), (b, *_) = make_network("LSTM"), make_network("LSTM", seed=1)
    comparison = nbglcnn.compare(a, b, x)
    mine, theirs = record_calls(a, x), record_calls(b, x)
    for key in ("relu", "lstm[0]", "after"):
        found = comparison[key]
        assert_equal(found.difference, theirs[key] - mine[key], name=key)
    report = comparison.verify()
    assert report.ok and len(report.in_python) == 2 * len(own)
    comparison.input = -x
    assert_equal(comparison["lstm[0]"].b, record_calls(b, -x)["lstm[0]"])
    comparison.close()


def test_a_snapshot_and_no_opengl_work_as_with_other_networks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, x, _ = make_network("one after the other")
    viewer = Viewer(model, x)
    Image.open(io.BytesIO(viewer.network.snapshot(1))).verify()
    viewer.close()

    def missing(_: object) -> None:
        raise OpenGLUnavailable("none here")

    monkeypatch.setattr(local_backend, "Session", missing)
    viewer = Viewer(model, x)
    assert_all_values(viewer, model, x, 6)
    viewer.input = -x
    assert_all_values(viewer, model, -x, 6)
    assert viewer.activations.source.startswith("reference (PyTorch")
    viewer.close()


def test_any_place_behind_depends_on_every_place_before() -> None:
    model, x, _ = make_network("one after the other")
    header = Viewer(model, x).network.plan.header
    layer = header.layers[1]
    ((reader, source, reach),) = layer.dependencies
    assert (reader, source) == (0, 1)
    assert header.field_maps[reach].input_sizes == (7, 5)
    assert [along.axis for along in header.field_maps[reach].windows] == [-1, -1]
    assert not {step.layer for step in header.passes} & {1, 2, 4}  # no pass to time


ONNX_MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "no shader": ("r = Relu(x)\n d = Det(r)\n y = Neg(d)", ("d",)),
    "first": ("d = Det(x)\n y = Neg(d)", ("d",)),
    "last": ("d = Neg(x)\n y = Det(d)", ("y",)),
    "of a vendor, twice": (
        "d = com.microsoft.Inverse(x)\n s = Neg(d)\n e = com.microsoft.Inverse(s)\n y = Add(e, x)",
        ("d", "e"),
    ),
    "of a shape that numbers decide": (
        "r = Relu(x)\n u, i, v, c = Unique(r)\n y = Neg(u)",
        ("u", "i", "v", "c"),
    ),
    "scalars": ("q, s, z = DynamicQuantizeLinear(x)\n y = DequantizeLinear(q, s, z)",
                ("q", "s", "z")),
}  # fmt: skip


def onnx_model(body: str) -> onnx.ModelProto:
    imports = '"" : 17, "com.microsoft" : 1'
    return parser.parse_model(
        f"<ir_version: 8, opset_import: [{imports}]>\ng (float[2,3,4,4] x) => (y) {{\n {body}\n}}"
    )


@pytest.mark.parametrize("name", ONNX_MODELS)
def test_nodes_of_an_onnx_file_are_computed_by_onnx_runtime(name: str) -> None:
    body, own = ONNX_MODELS[name]
    model = onnx_model(body)
    x = np.random.default_rng(3).standard_normal((2, 3, 4, 4)).astype(np.float32)
    viewer = Viewer(model, x)
    assert tuple(layer.name for layer in viewer.layers if layer.python) == own
    for given in (x, x * 3):
        viewer.input = given
        report = viewer.verify()
        assert report.ok and report.in_python == own
    assert nbglcnn.check(model, x).in_python == own
    with pytest.raises(UnsupportedModel):
        nbglcnn.compile(model, x)
    viewer.close()


def test_what_a_file_asks_onnx_runtime_for_is_limited() -> None:
    # A shape of 10^10 elements from three numbers; then a tensor in another file, which the loader
    # of plain nodes would refuse.
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (float[1,3] x) => (float[a,b] y) {\n  k = Constant<value=float{1e10}>()\n"
        "  m = ReduceMax<keepdims=0>(x)\n  l = Mul(m, k)\n  c = Cast<to=7>(l)\n"
        "  s = Constant<value=int64[1]{1}>()\n  n = Reshape(c, s)\n  o = Concat<axis=0>(s, n)\n"
        "  t = Tile(x, o)\n  y = Neg(t)\n}"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = np.ones((1, 3), np.float32)
    with pytest.raises(UnsupportedModel, match="Tile"):
        Viewer(model, x)
    assert not nbglcnn.check(model, x).ok
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # kB
    model = onnx_model("y = com.microsoft.Inverse(x)")
    outside = onnx.TensorProto(name="t", data_type=1, dims=[1], data_location=1)
    outside.external_data.add(key="location", value="../secret")
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("t", outside))
    with pytest.raises(nbglcnn.ModelError, match="another file"):
        Viewer(model)


def test_random_numbers_and_loops_of_a_file_are_refused() -> None:
    with pytest.raises(UnsupportedModel, match="samples random numbers"):
        Viewer(onnx_model("r = Bernoulli(x)\n y = Add(r, x)"))
    loop = (
        "n = Constant<value=int64{3}>()\n c = Constant<value=bool{1}>()\n"
        " y = Loop(n, c, x)<body = b (int64 i, bool ci, float[2,3,4,4] h) => "
        "(bool co, float[2,3,4,4] ho) {co = Identity(ci)\n ho = Neg(h)}>"
    )
    with pytest.raises(UnsupportedModel, match="control flow"):
        Viewer(onnx_model(loop))


def test_views_mark_what_python_computes(show: Callable[..., ViewsPage]) -> None:
    model = nn.Sequential(
        conv3x3(3, 4), nn.ReLU(), NumpyCumsum(4), nn.ReLU(), conv3x3(4, 4), SingularValues()
    )
    x = np.random.default_rng(5).standard_normal((2, 3, 12, 10)).astype(np.float32)
    network = Viewer(model.eval(), x).network
    shown = show(network.plan, *network.input_arrays, *network.python_values)
    page = shown.page
    line = page.locator(".nbg-status")
    expect(line).to_contain_text("2 layers computed in Python")
    for form in ("strip", "graph"):
        shown.set(tab="network", networkLayout=form)
        stage = ".nbg-stage" if form == "strip" else ".nbg-node"
        marks = page.locator(f"{stage} .nbg-python")
        expect(marks).to_have_count(2)
        expect(marks.first).to_have_attribute(
            "aria-label", "computed in Python: NumpyCumsum, for this input"
        )
        # Only these layers are marked: the next layer runs here, in a separate stage.
        expect(page.locator(f'{stage}[data-layer="3"] .nbg-python')).to_have_count(0)
    shown.open_layer("2")
    expect(page.locator(".nbg-python-note")).to_contain_text("it calls .numpy() on a tensor")
    shown.set(layerSection="explain")
    expect(page.locator(".nbg-unknown")).to_contain_text("2 is computed in Python")
    shown.open_layer("3")
    expect(page.locator(".nbg-question")).to_contain_text("3, channel")
    shown.set(tab="profile")
    row = page.locator('[data-row="2"]')
    expect(row.locator('[data-column="type"]')).to_have_text("NumpyCumsum (in Python)")
    expect(row.locator('[data-cost="ms"]')).to_have_attribute(
        "title", "computed in Python, not in the page"
    )

    # Values computed for another input than the page's are marked too, if the page changes the
    # input.
    shown.set(tab="network", networkLayout="graph")
    page.evaluate("() => { views.state.changedValues.value = new Set(['3']); }")
    marks = page.locator(".nbg-node .nbg-python")
    # The second mark is for a value after the change; the first value is before it.
    expect(marks).to_have_text(["Python", "last input from Python"])
    expect(page.locator(".nbg-status")).to_contain_text("1 of them for the last input from Python")


def test_a_notebooks_page_goes_on_with_what_python_sends(
    lab: LabServer, browser: Callable[[str], Browser]
) -> None:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(
            IMPORTS_CELL
            + "from python_fallback_models import make_network\nmodel, x, _ = make_network('LSTM')"
        )
        notebook.run("viewer = Viewer(model, x)\nviewer")
        line = notebook.page.locator(".nbg-status")
        expect(line).to_contain_text("3 layers computed in Python")
        expect(line).to_contain_text("8 of 8 layers match PyTorch")
        model, x, own = make_network("LSTM")
        for given, cell in ((x, "x"), (-x, "-x")):
            notebook.run(f"viewer.input = {cell}")
            values = notebook.read_array("viewer.activations.to_dict()")
            for key, true in record_calls(model, given).items():
                assert_equal(values[key], true, name=key)
        assert notebook.run("print(viewer.activations.source)").text.startswith("page (WebGL2")
        other, *_ = make_network("LSTM", seed=1)
        notebook.run("viewer.load_state_dict(make_network('LSTM', seed=1)[0].state_dict())")
        for key in (*own, "after", "output"):
            found = notebook.read_array(f"viewer.activations[{key!r}]")
            assert_equal(found, record_calls(other, -x)[key], name=key)
        assert notebook.run("print(viewer.verify().in_python)").text.strip() == repr(own)


def test_a_reader_of_a_damaged_plan_refuses_what_does_not_agree() -> None:
    import msgspec

    from nbglcnn.plan.schema import Plan

    model, x, _ = make_network("first")
    plan = Viewer(model, x).network.plan
    assert Plan.from_bytes(plan.to_bytes()).in_python == plan.in_python
    wrong: Any = [msgspec.structs.replace(one, layer=1) for one in plan.header.inputs]
    header = msgspec.structs.replace(plan.header, inputs=tuple(wrong))
    with pytest.raises(nbglcnn.ModelError, match="Python doesn't compute"):
        Plan.from_bytes(Plan(header, plan.uniforms, plan.blobs).to_bytes())
