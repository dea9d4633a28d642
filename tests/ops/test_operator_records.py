"""Operators' records: complete, with the kernels' formulas, and no other list in the page."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from formulas import evaluate_formula
from nbglcnn.graph import Array
from nbglcnn.lowering.layer_descriptions import MODULE_EQUIVALENTS, CompositeModule
from nbglcnn.ops import OPERATORS
from nbglcnn.ops.operator import Operator
from onnx_models import model_of, node

ROOT = Path(__file__).parents[2]
PAGE_FIELDS = (
    "role",
    "receptive_field",
    "explanation",
    "formula",
    "bounds",
    "caption",
    "shape_inputs",
)


@pytest.mark.parametrize("field", PAGE_FIELDS)
def test_a_record_that_leaves_something_out_is_an_error(field: str) -> None:
    record = OPERATORS["Relu"]
    said = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    Operator(**said)
    del said[field]
    with pytest.raises(TypeError, match=field):
        Operator(**said)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_record_agrees_with_itself(name: str) -> None:
    record = OPERATORS[name]
    if not callable(record.explanation):
        formulas = ("pointwise", "slope", "elementwise")
        assert (record.formula is not None) == (record.explanation in formulas)
        assert (record.index_map is not None) == (record.explanation == "moved")
    assert record.caption != name, "None already says so"
    assert list(record.shape_inputs) == sorted(set(record.shape_inputs))
    assert 0 not in record.shape_inputs, "what an operator computes with is no setting"
    if record.role in ("leads", "alias"):
        assert record.explanation == "same", "what computes nothing passes its numbers on"


REQUIRED_ATTRIBUTES: Mapping[str, list[dict[str, Any]]] = {
    "LeakyRelu": [{"alpha": 0.3}], "Elu": [{"alpha": 0.7}], "Celu": [{"alpha": 0.7}],
    "Selu": [{"alpha": 1.5, "gamma": 1.2}], "HardSigmoid": [{"alpha": 0.3, "beta": 0.4}],
    "ThresholdedRelu": [{"alpha": 0.6}], "Shrink": [{"lambd": 0.8, "bias": -0.3}],
    "Gelu": [{"approximate": "tanh"}], "Trilu": [{"upper": 0}],
}  # fmt: skip
SAMPLE_VALUES = np.linspace(-4, 4, 64, dtype=np.float32).reshape(1, 1, 8, 8)
UNIT_DOMAIN = {"Asin", "Acos", "Atanh"}
ABOVE_ONE_DOMAIN = {"Acosh"}
POINTWISE_CASES = [
    (name, attributes)
    for name, record in OPERATORS.items()
    if record.explanation == "pointwise"
    for attributes in [{}, *REQUIRED_ATTRIBUTES.get(name, [])]
]


def compile_layer(name: str, x: Array, constants: Mapping[str, Array], **attributes: Any) -> Any:
    made = node(name, ["x", *constants], ["y"], **attributes)
    model = model_of([made], {"x": x.shape}, ["y"], constants=dict(constants))
    plan = nbglcnn.compile(model, x)
    with nbglcnn.Session(plan) as session:
        return plan.layers["y"], session.run(x)["y"]


@pytest.mark.parametrize(("name", "attributes"), POINTWISE_CASES, ids=str)
def test_a_formula_is_what_the_kernel_computes(name: str, attributes: dict[str, Any]) -> None:
    x = (
        SAMPLE_VALUES / 4.1
        if name in UNIT_DOMAIN
        else SAMPLE_VALUES + 5.1
        if name in ABOVE_ONE_DOMAIN
        else SAMPLE_VALUES
    )
    layer, actual = compile_layer(name, x, {}, **attributes)
    assert layer.explanation == "pointwise" and not layer.is_composite
    where = np.indices(x.shape)
    expected = evaluate_formula(layer.formula, x, row=where[-2], column=where[-1])
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)
    low, high = layer.bounds
    assert np.nanmin(actual) >= (-np.inf if low is None else low)
    assert np.nanmax(actual) <= (np.inf if high is None else high)


@pytest.mark.parametrize(
    ("low", "high", "formula", "bounds"),
    [
        (-0.5, 2.0, "clip(x, -0.5, 2.0)", (-0.5, 2.0)),
        (None, 2.0, "min(2.0, x)", (None, 2.0)),
        (-0.5, None, "max(-0.5, x)", (-0.5, None)),
    ],
)
def test_a_clip_says_where_it_ends(
    low: float | None, high: float | None, formula: str, bounds: tuple[float | None, float | None]
) -> None:
    ends = {"low": low, "high": high}
    constants = {key: np.float32(end) for key, end in ends.items() if end is not None}
    made = node("Clip", ["x", *[key if key in constants else "" for key in ends]], ["y"])
    model = model_of([made], {"x": SAMPLE_VALUES.shape}, ["y"], constants=constants)
    layer = nbglcnn.compile(model, SAMPLE_VALUES).layers["y"]
    assert (layer.formula, layer.bounds) == (formula, bounds)


@pytest.mark.parametrize("name", ["Mul", "Sub", "Div"])
@pytest.mark.parametrize("first", [False, True])
def test_one_number_beside_a_tensor_makes_a_function(name: str, first: bool) -> None:
    inputs = ["k", "x"] if first else ["x", "k"]
    model = model_of(
        [node(name, inputs, ["y"])],
        {"x": SAMPLE_VALUES.shape},
        ["y"],
        constants={"k": np.float32(0.25)},
    )
    plan = nbglcnn.compile(model, SAMPLE_VALUES)
    with nbglcnn.Session(plan) as session:
        actual = session.run(SAMPLE_VALUES)["y"]
    layer = plan.layers["y"]
    assert layer.explanation == "pointwise"
    expected = evaluate_formula(layer.formula, SAMPLE_VALUES)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    # A constant with several numbers becomes one of two operands.
    constants = {"k": np.ones(8, np.float32)}
    model = model_of(
        [node(name, inputs, ["y"])], {"x": SAMPLE_VALUES.shape}, ["y"], constants=constants
    )
    layer = nbglcnn.compile(model, SAMPLE_VALUES).layers["y"]
    sign = {"Mul": "*", "Sub": "-", "Div": "/"}[name]
    assert (layer.explanation, layer.formula) == ("elementwise", f"a {sign} b")


def test_a_margin_of_a_map_says_where_it_begins() -> None:
    pads = np.array([0, 0, 1, 2, 0, 0, 3, 0], np.int64)
    layer, _ = compile_layer("Pad", SAMPLE_VALUES, {"pads": pads}, mode="reflect")
    assert layer.explanation == "padding"
    assert (layer.window.pads_begin, layer.window.pads_end) == ((1, 2), (3, 0))
    # Padded channels and cropped axes get no explanation.
    for position, more in ((1, 1), (2, -1)):
        changed = pads.copy()
        changed[position] = more
        layer, _ = compile_layer("Pad", SAMPLE_VALUES, {"pads": changed})
        assert (layer.explanation, layer.window.pads_begin) == ("nothing", ())


COMPOSITE_MODULES = [
    nn.SiLU(), nn.GELU(), nn.GELU("tanh"), nn.Mish(), nn.Hardswish(), nn.ELU(0.5), nn.Softsign(),
    nn.Hardsigmoid(), nn.ReLU6(), nn.Softplus(), nn.Softplus(1.5, 4), nn.LogSigmoid(),
    nn.Tanhshrink(),
]  # fmt: skip


def test_every_composite_of_one_number_is_tested() -> None:
    pointwise = {
        k for k, m in MODULE_EQUIVALENTS.items() if not isinstance(m, CompositeModule) or m.formula
    }
    assert pointwise == {type(module).__name__ for module in COMPOSITE_MODULES}


def test_a_module_of_several_operators_has_the_formula_that_pytorch_computes() -> None:
    # All modules together, on the same numbers.
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(COMPOSITE_MODULES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([part(x) for part in self.parts])

    plan = nbglcnn.compile(Network().eval(), SAMPLE_VALUES)
    x = torch.from_numpy(SAMPLE_VALUES).double()
    for number, module in enumerate(COMPOSITE_MODULES):
        layer = plan.layers[f"parts.{number}"]
        assert (layer.role, layer.explanation, layer.is_composite) == (
            "follows",
            "pointwise",
            False,
        )
        found = evaluate_formula(layer.formula, SAMPLE_VALUES)
        np.testing.assert_allclose(
            found, module(x).numpy(), rtol=1e-6, atol=1e-7, err_msg=str(module)
        )


def test_captions_use_the_fields_short_names() -> None:
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.GroupNorm(2, 4),
        nn.InstanceNorm2d(4, affine=True), nn.ConvTranspose2d(4, 2, 2, 2), nn.AvgPool2d(2),
        nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3), nn.LayerNorm(3),
        nn.SiLU(), nn.Softmax(1),
    )  # fmt: skip
    layers = nbglcnn.compile(network.eval(), SAMPLE_VALUES).layers
    shorts = "Conv BN ReLU GN IN ConvT AvgPool MaxPool AvgPool Flatten Linear LN SiLU Softmax"
    assert " ".join(layer.short_name for layer in layers) == shorts
    roles = ["head", *["follows"] * 4, *["resamples"] * 3, "head", "leads", "head"]
    assert [layer.role for layer in layers] == [*roles, *["follows"] * 3]


def test_shapes_and_axes_are_settings_among_operands() -> None:
    resize = nn.Upsample(scale_factor=2)
    layers = nbglcnn.compile(nn.Sequential(resize, nn.AdaptiveAvgPool2d(1)), SAMPLE_VALUES).layers
    assert [[one.kind for one in layer.operands] for layer in layers] == [
        ["value", "omitted", "omitted", "setting"],
        ["value", "setting"],
    ]
    assert [layer.explanation for layer in layers] == ["resampling", "mean pool"]


# Labels of cards and buttons that are operator names, too.
LABELS_EQUAL_TO_OPERATORS = {"Mean", "Sum", "Threshold"}
STRING_LITERAL_PATTERN = re.compile(r'"([^"\n]*)"|\'([^\'\n]*)\'|`([^`\n]*)`')
TABLE_KEY_PATTERN = re.compile(r"^\s*([A-Z]\w*):\s*[\[({\"'`]")
OPERATOR_COMPARISON_PATTERN = re.compile(
    r"\.operator\s*(?:[!=]==|\.\w+\()|\.(?:has|get|includes)\([^)]*\.(?:operator|module)\b"
    r"|\.module\s*(?:[!=]==\s*\"\w|\.\w+\()"
)


def operator_names() -> set[str]:
    modules = {
        name
        for name, item in vars(nn).items()
        if isinstance(item, type) and issubclass(item, nn.Module)
    }
    return {
        *OPERATORS,
        *modules,
        *(re.sub("[123]d$", "", name) for name in modules),
    } - LABELS_EQUAL_TO_OPERATORS


def operator_mentions(text: str, names: set[str]) -> list[str]:
    """Lines of TypeScript that name operators or modules, or compare layers by name."""
    found = []
    for line in text.splitlines():
        code = re.sub(r"(^|\s)//.*|^\s*\*.*|/\*.*?\*/", "", line)
        words = [re.split(r"\W+", "".join(each)) for each in STRING_LITERAL_PATTERN.findall(code)]
        key = TABLE_KEY_PATTERN.match(code)
        if (
            any(all(word in names for word in each) for each in words)
            or (key and key[1] in names)
            or OPERATOR_COMPARISON_PATTERN.search(code)
        ):
            found.append(line.strip())
    return found


@pytest.mark.parametrize(
    "text",
    [
        'const SAME = new Set("Identity Dropout Flatten".split(" "));',
        "  Relu: () => ({ of: (x) => x }),",
        'if (layer.operator.endsWith("Normalization")) return;',
        'case "LayerNorm":',
        "return KINDS.get(layer.operator);",
    ],
)
def test_lists_of_operators_are_found(text: str) -> None:
    assert operator_mentions(text, operator_names()) == [text.strip()]


def test_the_page_has_no_list_of_operators() -> None:
    names = operator_names()
    found = {
        str(file.relative_to(ROOT)): lines
        for file in (ROOT / "js" / "src").rglob("*.ts*")
        if (lines := operator_mentions(file.read_text("utf-8"), names))
    }
    assert not found, "what the page knows of operators comes with the layer table"
