"""ONNX models with a part that cannot run: the skipped part, and the node named in the message."""

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import nbglcnn
from nbglcnn import Session, UnsupportedModel, UnsupportedOperator, backend
from onnx_models import model_of, node

SAMPLE_RATE_MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,3] x, int64 sr) => (y) {
  rate = Constant<value=int64{16000}>()
  r = Relu(x)
  is = Equal(sr, rate)
  t = If(is)<
    then_branch = a () => (ta) {two = Constant<value=float{2.0}>()
      ta = Mul(r, two)},
    else_branch = b () => (tb) {tb = Neg(r)}>
  y = Add(t, x)
}"""
X = np.float32([[1, -2, 3]])


def check_rows_by_layer(model: onnx.ModelProto) -> dict[str, tuple[str, bool, str]]:
    return {r.layer: (r.operator, r.ok, r.reason) for r in nbglcnn.check(model).rows}


def test_a_node_that_nobody_reads_refuses_nothing() -> None:
    nodes = [
        node("Unique", ["x"], ["q"]),
        node("QLinearAdd", ["q", "q"], ["z"], domain="com.microsoft"),
        node("Relu", ["x"], ["y"]),
    ]
    with Session(nbglcnn.compile(model_of(nodes, {"x": (1, 3)}, ["y"]))) as session:
        assert list(session.run(X)) == ["x", "y"]


def test_class_names_that_nobody_reads_refuse_nothing() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": (1, 3)}, ["y"])
    names = onnx.helper.make_tensor("names", onnx.TensorProto.STRING, [2], [b"cat", b"dog"])
    model.graph.initializer.append(names)
    with Session(nbglcnn.compile(model)) as session:
        assert list(session.run(X)) == ["x", "y"]
    model.graph.node[0].input[0] = "names"
    with pytest.raises(UnsupportedModel, match="tensor 'names': type STRING"):
        nbglcnn.compile(model)


def test_an_if_is_named_with_the_input_that_it_looks_at_and_runs_as_it_advises() -> None:
    model = parser.parse_model(SAMPLE_RATE_MODEL)
    with pytest.raises(UnsupportedOperator) as caught:
        nbglcnn.compile(model)
    words = str(caught.value)
    assert words.startswith("If (node 't'): control flow whose condition 'is' depends on")
    assert "values of the input 'sr' is not" in words
    advice = words[words.index("model.graph") :]
    for rate, expected in ((16000, [[3, -2, 9]]), (8000, [[0, -2, 0]])):
        model = parser.parse_model(SAMPLE_RATE_MODEL)
        array = np.array(rate)
        eval(advice, {"model": model, "onnx": onnx, "array": array})
        with Session(nbglcnn.compile(model)) as session:
            np.testing.assert_array_equal(session.run(X)["y"], expected)


def test_check_has_a_row_for_each_layer_around_an_if() -> None:
    found = check_rows_by_layer(parser.parse_model(SAMPLE_RATE_MODEL))
    assert list(found) == ["r", "is", "t", "y", "ta", "tb"]
    assert found["r"] == ("ReLU", True, "")
    assert found["t"][0] == "If" and "the input 'sr'" in found["t"][2]
    assert found["y"][2] == "unknown: its input 't' comes from a node that cannot run"
    assert found["tb"][2] == "unknown: inside an If branch that cannot run"


LOOP_NODES = """times = Constant<value=int64{3}>()
  c = Constant<value=bool{1}>()
  odd = Loop(times, c, r)<body = b (int64 i, bool ci, float[1,3] h) => (bool co, float[1,3] ho)
    {co = Identity(ci)
     ho = Sigmoid(h)}>"""
REFUSED_NODES = {
    "QLinearAdd": ("odd = com.microsoft.QLinearAdd(r, r, r)", "'com.microsoft'; ONNX's own are"),
    "DynamicQuantizeLSTM": ("odd = com.microsoft.DynamicQuantizeLSTM(r, r)", "QuickGelu"),
    "Loop": (LOOP_NODES, "control flow"),
    "Unique": ("odd = Unique(r)", "is unknown before the network runs"),
    "ConcatFromSequence": (
        "s = SplitToSequence<axis=1>(r)\n  odd = ConcatFromSequence<axis=1>(s)",
        "takes a sequence",
    ),
}


PYTHON_OPERATORS = ("Unique", "ConcatFromSequence")  # run by ONNX Runtime; the rest runs here
OK_ROW = (True, "")
UNKNOWN_ROW = (False, "unknown: its input 'odd' comes from a node that cannot run")


@pytest.mark.parametrize("op", REFUSED_NODES)
def test_check_has_a_row_for_each_layer_around_what_cannot_be_read(op: str) -> None:
    text, reason = REFUSED_NODES[op]
    imports = '"" : 17, "com.microsoft" : 1'
    model = parser.parse_model(
        f"<ir_version: 8, opset_import: [{imports}]>\n"
        f"g (float[1,3] x) => (y) {{\n  r = Relu(x)\n  {text}\n  n = Neg(r)\n  y = Add(odd, n)\n}}"
    )
    found = check_rows_by_layer(model)
    assert found["r"][:2] == ("ReLU", True)
    assert found["n"][:2] == ("Neg", True)
    assert found["odd"][:2] == (op, False)
    assert reason in found["odd"][2]
    assert found["y"] == ("Add", *(OK_ROW if op in PYTHON_OPERATORS else UNKNOWN_ROW))
    assert list(found) == ["r", "odd", "n", "y"]


def test_a_near_operator_of_the_vendors_is_named() -> None:
    nodes = [node("FastGelu", ["x"], ["y"], domain="com.microsoft")]
    model = model_of(nodes, {"x": (1, 3)}, ["y"])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(UnsupportedOperator, match=r"BiasGelu, FusedConv, .*near: .*Gelu"):
        nbglcnn.compile(model)


def test_the_backend_says_beforehand_that_recurrent_layers_cannot_run() -> None:
    lstm = node("LSTM", ["x", "w", "r"], ["", "", "y"], hidden_size=2)
    for length in (4, "n"):
        model = model_of(
            [lstm],
            {"x": (length, 1, 3)},
            ["y"],
            constants={"w": np.zeros((1, 8, 3), "f4"), "r": np.zeros((1, 8, 2), "f4")},
        )
        assert not backend.is_compatible(model)
    x, w, r = np.zeros((4, 1, 3), "f4"), np.zeros((1, 8, 3), "f4"), np.zeros((1, 8, 2), "f4")
    for given in (lstm, node("LSTM", ["x", "w", "r"], ["", "", "y"])):
        types = [(np.dtype("f4"), (1, 1, 2))]
        for info in (None, types):
            with pytest.raises(UnsupportedOperator) as caught:
                backend.run_node(given, [x, w, r], outputs_info=info)
            assert "depends on the input's values" not in str(caught.value)
    # Operators that read only shapes are no obstacle.
    shape = [node("Shape", ["x"], ["s"]), node("Expand", ["one", "s"], ["y"])]
    constant = model_of(shape, {"x": ("n", 3)}, ["y"], constants={"one": np.ones(1, "f4")})
    assert backend.is_compatible(constant)
