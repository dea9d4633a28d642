"""Attacks by names and numbers, A11 to A14 of SECURITY.md, on the whole compiler and in a page."""

import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.testing import assert_array_equal
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Plan, Session
from nbglcnn.errors import ModelError, UnsupportedOperator
from nbglcnn.load import load
from nbglcnn.reference import compute_reference
from onnx_models import model_of, node, randn
from views_page import ViewsPage

ATTACK_STRINGS = {
    "image": "<img src=x onerror='window.pwned=1'>",
    "script": "</script><script>window.pwned=1</script>",
    "svg": '"><svg onload="window.pwned=1">',
    "attribute": "' onmouseover='window.pwned=1' x='",
    "link": "javascript:window.pwned=1",
    "style": "</style><iframe srcdoc='<script>parent.pwned=1</script>'>",
    "comment": "--><!--<script>",
    "template": "${window.pwned=1} {{constructor.constructor('window.pwned=1')()}}",
    "entity": "&lt;b&gt;&#x3c;img&#x3e;",
    "prototype": "__proto__",
    "constructor": "constructor",
    "method": "hasOwnProperty",
    "backwards": "\u202eevil\u202d",
    "line": "new\nline */ } void main() { #define texture discard",
    "define": "\n#define main evil\n",
    "GLSL": "gl_Position",
    "WebGL": "webgl_x",
    "both": "_webgl_x",
    "two lines": "a__b",
    "emoji": "é☃😀",
    "null": "null\0byte",
    "separator": "a\u2028b\u2029c",
    "number": "10",
    "smaller": "2",
    "space": " ",
    "long": "n" * 10**6,
}
X = np.random.default_rng(0).standard_normal((1, 3, 6, 5)).astype(np.float32)


def named_model(*names: str, text: str = "") -> onnx.ModelProto:
    """A chain of convolutions and activations whose values have these names."""
    nodes, last = [], "in"
    for number, name in enumerate(names):
        if number % 2:
            nodes.append(node("LeakyRelu", [last], [name], name=name, alpha=0.1))
        else:
            nodes.append(node("Conv", [last, "w" + name], [name], name=name, pads=[1] * 4))
        last = name
    weights = {"w" + name: randn(3, 3, 3, 3) / 5 for name in names[::2]}
    model = model_of(nodes, {"in": X.shape}, [last], constants=weights)
    model.graph.name = model.graph.doc_string = model.doc_string = text
    model.producer_name = model.domain = text
    model.metadata_props.add(key=text, value=text)
    for one in model.graph.node:
        one.doc_string = text
    return model


PLAIN_NAMES = [f"plain{k}" for k in range(4)]


def program_sources(plan: Plan) -> list[str]:
    return [program.source for program in plan.header.programs]


@pytest.mark.parametrize("attack", ATTACK_STRINGS)
def test_no_name_of_a_model_enters_a_shader(attack: str) -> None:
    name = ATTACK_STRINGS[attack]
    model = named_model(name, f"b{name}", f"{name}c", "d", text=name)
    for observe in ("all", "outputs"):
        plan = nbglcnn.compile(model, X, observe=observe)
        plain = nbglcnn.compile(named_model(*PLAIN_NAMES), X, observe=observe)
        assert program_sources(plan) == program_sources(plain)
        assert [p.samplers for p in plan.header.programs] == [
            p.samplers for p in plain.header.programs
        ]
    assert plan.values[-1].key == "d"
    assert max(len(value.key) for value in plan.values) < 400
    assert Plan.from_bytes(plan.to_bytes()).values == plan.values


@pytest.mark.parametrize("attack", ATTACK_STRINGS)
def test_names_are_text_in_tables_and_messages(attack: str) -> None:
    name = ATTACK_STRINGS[attack]
    plan = nbglcnn.compile(named_model(name, "b", text=name), X)
    tables = [plan.layers._repr_html_(), nbglcnn.check(named_model(name, "b"), X)._repr_html_()]
    model = named_model(name, "b")
    model.graph.node.append(node("Magic", ["b"], [f"{name}2"], name=name))
    model.graph.output[0].name = f"{name}2"
    with pytest.raises(UnsupportedOperator) as error:
        nbglcnn.compile(model, X)
    assert len(str(error.value)) < 700
    for html in tables:
        for tag in ("<img", "<script", "<svg", "<iframe", "<style", "<!--"):
            assert tag not in html
        assert len(html) < 20_000


def test_odd_names_stay_different_names() -> None:
    names = list(ATTACK_STRINGS.values())
    graph, arrays = load(named_model(*names))
    keys = [key.name for key in graph.keys]
    assert len(keys) == len(set(keys)) == len(names) + 1
    assert keys[1:-1] == names[:-1]
    assert len(compute_reference(named_model(*names), graph, arrays)) == len(keys)


FOREIGN_ELEMENTS_SCRIPT = """() => {
  const tags = ['IMG', 'IFRAME', 'OBJECT', 'EMBED', 'FRAME', 'A', 'SCRIPT'];
  const links = ['href', 'src', 'action', 'formaction', 'xlink:href', 'data', 'srcdoc'];
  return [...document.querySelectorAll('.nbglcnn *')].filter((one) =>
    tags.includes(one.tagName.toUpperCase())
    || [...one.attributes].some((a) => a.name.startsWith('on') || links.includes(a.name))
  ).map((one) => one.outerHTML.slice(0, 200));
}"""


def assert_unharmed(page: Page) -> None:
    assert page.evaluate("() => window.pwned") is None
    assert page.evaluate(FOREIGN_ELEMENTS_SCRIPT) == []
    assert page.evaluate("() => [Object.keys({}), {}.layer, {}.name, {}.key]") == [[], *[None] * 3]


def test_names_are_text_in_the_page(show: Callable[..., ViewsPage]) -> None:
    names = [*ATTACK_STRINGS.values(), "end"]
    plan = nbglcnn.compile(named_model(*names, text=ATTACK_STRINGS["image"]), X)
    views = show(plan, X)
    page = views.page
    expected = [layer.name for layer in plan.layers]
    assert [name[:300] for name in expected] == [name[:300] for name in names]
    assert max(map(len, expected)) < 310  # a name of a million letters is truncated
    assert page.evaluate("views.state.plan.value.layers.map((l) => l.name)") == expected
    assert_unharmed(page)
    kinds = "() => [...new Set([...document.querySelectorAll('.nbglcnn *')].map(e => e.tagName))]"
    views.wait_idle()  # both contain all delayed elements
    with_names = set(page.evaluate(kinds))
    for name in expected:
        views.open_layer(name, 1)
        shown = page.locator(".nbg-layer").inner_text()
        word = name.strip()[:8].split("\n")[0].replace("\0", "�")
        assert word in shown or word.replace("�", "\0") in shown
        views.hover(page.locator(".nbg-layer canvas").first, 0.5, 0.5)
        assert_unharmed(page)
    for width in (420, 900):
        page.set_viewport_size({"width": width, "height": 900})
        views.set(tab="network")
        views.wait_idle()
        assert_unharmed(page)
    plain = show(nbglcnn.compile(named_model(*[f"p{k}" for k in range(len(names))]), X), X)
    plain.wait_idle()
    assert set(plain.page.evaluate(kinds)) | {"WBR"} == with_names | {"WBR"}


def test_the_order_of_layers_is_pythons_whatever_they_are_called(
    show: Callable[..., ViewsPage],
) -> None:
    names = ["10", "2", "b", "__proto__", "constructor", "01", "toString", "a"]
    torch.manual_seed(0)
    layers = OrderedDict((name, nn.Conv2d(3, 3, 3, padding=1)) for name in names)
    model = nn.Sequential(layers).eval()
    plan = nbglcnn.compile(model, X)
    assert [layer.name for layer in plan.layers] == names
    with Session(plan) as session:
        values = session.run(X)
    assert [key for key in values if key in names] == names
    views = show(plan, X)
    page = views.page
    assert page.evaluate("views.state.plan.value.layers.map((l) => l.name)") == names
    with torch.inference_mode():
        for number, name in enumerate(names):
            expected = model[: number + 1](torch.from_numpy(X)).numpy()
            assert_equal(values[name], expected, name=name)
            read = page.evaluate(
                "async (key) => [...await views.state.session.value.read(key)]", name
            )
            assert_equal(np.float32(read).reshape(expected.shape), expected, name=name)
    shown = page.locator(".nbglcnn").inner_text()
    places = [shown.find(f"\n{name}") for name in ("10", "2", "b", "__proto__", "constructor")]
    assert all(place >= 0 for place in places) and places == sorted(places)
    assert_unharmed(page)


# A14: numbers

SPECIAL_FLOAT_BITS = np.uint32(
    [0x7FC00000, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x807FFFFF, 0x7F7FFFFF]
)
SPECIAL_NUMBERS = {
    "NaN": np.nan, "infinity": np.inf, "minus infinity": -np.inf, "minus zero": -0.0,
    "subnormal": 1e-45, "too large": 1e39, "large": 1e30, "tiny": 1e-38,
}  # fmt: skip
FINITE_NUMBER_NAMES = {"minus zero", "subnormal", "large", "tiny"}  # finite in float32


def strict_header(plan: Plan) -> dict[str, Any]:
    """The file's JSON, parsed as strictly as in browsers."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in JSON")

    data = plan.to_bytes()
    size = int.from_bytes(data[8:12], "little")
    return dict(json.loads(data[16 : 16 + size], parse_constant=refuse))


@pytest.mark.parametrize("op", ["Add", "Mul", "Conv", "MatMul"])
def test_special_weights_are_in_the_plan_bit_for_bit(op: str, tmp_path: Path) -> None:
    weights = SPECIAL_FLOAT_BITS.view(np.float32)
    shape = {"Conv": (2, 4, 1, 1), "MatMul": (4, 2)}.get(op, (8,))
    x = {"Conv": (1, 4, 3, 3), "MatMul": (1, 4)}.get(op, (1, 8))
    model = model_of(
        [node(op, ["x", "w"], ["y"])], {"x": x}, ["y"], constants={"w": weights.reshape(shape)}
    )
    onnx.save(model, tmp_path / "m.onnx")
    plan = Plan.from_bytes(nbglcnn.compile(tmp_path / "m.onnx").to_bytes())
    packed = np.concatenate([blob.view(np.uint32).ravel() for blob in plan.blobs.values()])
    assert set(SPECIAL_FLOAT_BITS.tolist()) <= set(packed.tolist())
    strict_header(plan)


ATTRIBUTE_CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "LeakyRelu": ("alpha", {}, {}),
    "Elu": ("alpha", {}, {}),
    "ThresholdedRelu": ("alpha", {}, {}),
    "HardSigmoid": ("beta", {}, {}),
    "Selu": ("gamma", {}, {}),
    "Gemm": ("alpha", {}, {"w": randn(4, 3)}),
    "BatchNormalization": ("epsilon", {}, dict.fromkeys("sbmv", np.ones(4, np.float32))),
    "LRN": ("alpha", {"size": 3}, {}),
}
CONSTANT_CASES: dict[str, list[str]] = {
    **{op: ["n"] for op in ("Add", "Mul", "Max", "Min", "PRelu", "Greater")},
    **{"Clip": ["n", "high"], "Pad": ["pads", "n"]},
}


def assert_equals_runtime(model: onnx.ModelProto, x: np.ndarray) -> None:
    """Check a model's numbers on local OpenGL against ONNX Runtime."""
    plan = nbglcnn.compile(model, x)
    strict_header(plan)
    graph, arrays = load(model, x)
    truth = compute_reference(model, graph, arrays)
    with Session(Plan.from_bytes(plan.to_bytes())) as session:
        values = session.run(x)
    for key, expected in truth.items():
        assert_equal(values[key], expected, name=key)


SAMPLE_MAP = np.float32([[-2, -0.5, 0, 3], [1, -7, 0.25, -0.0]])


@pytest.mark.parametrize("number", SPECIAL_NUMBERS)
@pytest.mark.parametrize("op", ATTRIBUTE_CASES)
def test_finite_attributes_give_what_onnx_runtime_gives_and_others_are_refused(
    op: str, number: str
) -> None:
    name, attributes, more = ATTRIBUTE_CASES[op]
    one = node(op, ["x", *more], ["y"], **attributes)
    one.attribute.add(name=name, type=onnx.AttributeProto.FLOAT, f=SPECIAL_NUMBERS[number])
    x = SAMPLE_MAP if op == "Gemm" else SAMPLE_MAP[:, :, None, None]
    model = model_of([one], {"x": x.shape}, ["y"], constants=more)
    if number in FINITE_NUMBER_NAMES:
        assert_equals_runtime(model, x)
        return
    with pytest.raises(ModelError, match=f"{op}'s attribute {name}=.* is not a finite number"):
        nbglcnn.compile(model, x)
    assert not nbglcnn.check(model, x).ok


@pytest.mark.parametrize("number", SPECIAL_NUMBERS)
@pytest.mark.parametrize("op", CONSTANT_CASES)
def test_special_constants_give_what_onnx_runtime_gives(op: str, number: str) -> None:
    with np.errstate(all="ignore"):
        numbers = {"n": np.float32(SPECIAL_NUMBERS[number]), "pads": np.int64([0, 1, 1, 0])}
    numbers["high"] = np.float32(1e6)
    constants = {name: numbers[name] for name in CONSTANT_CASES[op]}
    one = node(op, ["x", *constants], ["y"])
    assert_equals_runtime(
        model_of([one], {"x": SAMPLE_MAP.shape}, ["y"], constants=constants), SAMPLE_MAP
    )


def test_special_numbers_come_through_the_page(show: Callable[..., ViewsPage]) -> None:
    weights = SPECIAL_FLOAT_BITS.view(np.float32).reshape(1, 2, 2, 2)
    model = model_of(
        [node("Add", ["x", "w"], ["y"]), node("Neg", ["y"], ["end"])],
        {"x": weights.shape},
        ["end"],
        constants={"w": weights},
    )
    x = np.zeros_like(weights)
    views = show(nbglcnn.compile(model), x)
    read = views.page.evaluate(
        "async () => [...await views.state.session.value.read('y')].map(String)"
    )
    found = np.float32([float(n.replace("Infinity", "inf")) for n in read])
    # A graphics card may flush a subnormal number to 0.
    whole = np.where(np.abs(weights) < 1e-37, 0, weights).ravel()
    assert_array_equal(np.where(np.abs(found) < 1e-37, 0, found), whole)
    views.open_layer("y", 0)
    expect(views.page.locator(".nbg-table")).to_contain_text("NaN, Inf")
