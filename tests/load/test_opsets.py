"""Every operator set from 7 to the newest: the same networks in each set's operators, run."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from assertions import assert_equal
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference
from nbglcnn.runtime.session import Session

OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)
# The newest set that ONNX Runtime supports; for newer ones, onnx's slow reference evaluator.
MAX_RUNTIME_OPSET = 24


class NodeWriter:
    """Writes nodes in the form of an operator set; each call returns its output's name."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.rng = np.random.default_rng(opset)

    def __call__(self, op: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        name = to or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, data: Any, dtype: Any = np.float32) -> str:
        """Add an initializer."""
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(data, dtype)
        return name

    def weight(self, *shape: int) -> str:
        """A weight in a Constant node, as Paddle's exporter writes it."""
        data = self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))
        tensor = numpy_helper.from_array(data.astype(np.float32))
        return self("Constant", to=f"weight{len(self.nodes)}", value=tensor)

    def attributes_or_inputs(
        self, op: str, since: int, value: str, to: str = "", /, **ints: Any
    ) -> str:
        """Write an operator whose attributes became inputs in set `since`."""
        if self.opset < since:
            return self(op, value, to=to, **ints)
        return self(op, value, *(self.constant(v, np.int64) for v in ints.values()), to=to)

    def cast(self, value: str, kind: int) -> str:
        name = f"cast{len(self.nodes)}"
        self.nodes.append(helper.make_node("Cast", [value], [name], to=kind))
        return name

    def clip(self, value: str, low: float, high: float) -> str:
        if self.opset < 11:
            return self("Clip", value, min=low, max=high)
        return self("Clip", value, self.constant(low), self.constant(high))

    def reduce(self, op: str, value: str, axes: list[int], keep: int, output_name: str = "") -> str:
        if self.opset < (13 if op == "ReduceSum" else 18):
            return self(op, value, to=output_name, axes=axes, keepdims=keep)
        return self(op, value, self.constant(axes, np.int64), to=output_name, keepdims=keep)

    def slice(self, value: str, axis: int, start: int, end: int, output_name: str = "") -> str:
        if self.opset < 10:
            return self("Slice", value, to=output_name, starts=[start], ends=[end], axes=[axis])
        limits = [self.constant([v], np.int64) for v in (start, end, axis)]
        return self("Slice", value, *limits, to=output_name)

    def split(self, value: str, axis: int, sizes: list[int]) -> list[str]:
        names = [f"part{len(self.nodes)}.{k}" for k in range(len(sizes))]
        inputs, attributes = [value], {"axis": axis}
        if self.opset < 13:
            attributes["split"] = sizes
        else:
            inputs.append(self.constant(sizes, np.int64))
        self.nodes.append(helper.make_node("Split", inputs, names, **attributes))
        return names

    def upsample(self, value: str, factor: float, mode: str) -> str:
        scales = [1.0, 1.0, factor, factor]
        if self.opset < 9:
            return self("Upsample", value, scales=scales, mode=mode)
        scale = self.constant(scales)
        if self.opset < 11:
            return self("Upsample" if self.opset < 10 else "Resize", value, scale, mode=mode)
        roi = "" if self.opset > 12 else self.constant([])
        return self("Resize", value, roi, scale, mode=mode)

    def pad(self, value: str, pads: list[int], mode: str, filling: float = 0.0) -> str:
        if self.opset < 11:
            return self("Pad", value, pads=pads, mode=mode, value=filling)
        return self("Pad", value, self.constant(pads, np.int64), self.constant(filling), mode=mode)

    def model(self, inputs: dict[str, tuple[Any, ...]], outputs: dict[str, int]) -> Any:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()],
            [numpy_helper.from_array(data, name) for name, data in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = min(model.ir_version, 10)
        return model


def classifier_model(opset: int) -> Any:
    """Paddle's style: weights in Constant nodes, decomposed hard-swish, computed shapes."""
    w = NodeWriter(opset)
    x = w("Conv", "x", w.weight(9, 3, 3, 3), w.weight(9), pads=[1] * 4, strides=[2, 2])
    statistics = [w.constant(w.rng.uniform(0.5, 1.5, 9)) for _ in range(4)]
    x = w("BatchNormalization", x, *statistics, epsilon=1e-3)
    gate = w.clip(w("Add", x, w.constant(3.0)), 0.0, 6.0)
    x = w("Div", w("Mul", x, gate), w.constant(6.0))
    x = w("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    pooled = w("GlobalAveragePool", x)
    squeezed = w("HardSigmoid", w("Conv", pooled, w.weight(9, 9, 1, 1)), alpha=0.2)
    x = w("PRelu", w("Mul", x, squeezed), w.constant(w.rng.uniform(0, 1, (9, 1, 1))))
    x = w("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1])
    batch = w.slice(w("Shape", x), 0, 0, 1)
    x = w("Reshape", x, w("Concat", batch, w.constant([-1], np.int64), axis=0))
    x = w("Gemm", x, w.weight(5, 36), w.weight(5), transB=1, alpha=0.5)
    w("Softmax", x, to="y", axis=1)
    return w.model({"x": ("batch", 3, "height", "width")}, {"y": TensorProto.FLOAT})


def decoder_model(opset: int) -> Any:
    """Two inputs, pictures and numbers; a kernel stored twice; three outputs, one of integers."""
    w = NodeWriter(opset)
    kernel = w.rng.standard_normal((6, 6, 3, 3)) / 8
    x = w("Conv", "x", w.constant(kernel), pads=[1] * 4)
    x = w("InstanceNormalization", x, w.constant(np.ones(6)), w.constant(np.zeros(6)))
    x = w("LeakyRelu", x, alpha=0.2)
    style = w.attributes_or_inputs("Unsqueeze", 13, w("Tanh", "z"), axes=[2, 3])
    x = w("Mul", x, style)
    x = w("Conv", w.pad(x, [0, 0, 1, 1, 0, 0, 1, 1], "reflect"), w.constant(kernel))
    x = w("Dropout", w.upsample(x, 2.0, "nearest"))
    a, b = w.split(x, 1, [2, 4])
    b = w("ConvTranspose", b, w.weight(4, 3, 2, 2), strides=[2, 2])
    a = w("Elu", w.upsample(a, 2.0, "nearest"))
    x = w("Concat", a, b, w.slice(b, 1, -1, 2**31 - 1), axis=1)
    x = w("DepthToSpace", w.pad(x, [0, 0, 0, 0, 0, 2, 0, 0], "constant", 0.25), blocksize=2)
    w("Sigmoid", x, to="picture")
    mean = w.reduce("ReduceMean", x, [2, 3], 0)
    most = w.reduce("ReduceMax", x, [2, 3], 0)
    w("Sum", mean, w("Sub", most, w.constant(0.5)), most, to="numbers")
    w("ArgMax", x, to="best", axis=3, keepdims=0)
    outputs = {"picture": TensorProto.FLOAT, "numbers": TensorProto.FLOAT}
    return w.model({"x": (2, 6, 5, 4), "z": (2, 6)}, outputs | {"best": TensorProto.INT64})


def shape_model(opset: int) -> Any:
    """Ranks 0 to 6, a tensor without elements, booleans, intermediate Inf and NaN.

    Relu and ReduceMin are left out: ONNX Runtime's drop a NaN; numpy's, PyTorch's and ours keep it.
    """
    w = NodeWriter(opset)
    wide = w.attributes_or_inputs("Unsqueeze", 13, "x", axes=[1, 4])
    turned = w("Transpose", wide, perm=[5, 1, 3, 0, 4, 2])
    wide = w("Mul", turned, w.constant(2.0), to="rank6")
    five = w.attributes_or_inputs("Squeeze", 13, wide, "rank5", axes=[1])
    four = w.attributes_or_inputs("Squeeze", 13, w("Neg", five), "rank4", axes=[3])
    three = w.reduce("ReduceMean", four, [1], 0, "rank3")
    two = w("Flatten", w("Abs", three), to="rank2", axis=2)
    one = w("Reshape", two, w.constant([-1], np.int64), to="rank1")
    nothing = w.slice(one, 0, 3, 3, "nothing")
    joined = w("Concat", one, nothing, axis=0)
    w.reduce("ReduceSum", joined, [0], 0, "rank0")
    low = w("Less", "x", w.constant(0.0))
    odd = w("Or", low, w("Not", w("Greater", "x", w.constant(1.0))), to="truth")
    w("Mul", w.cast(odd, TensorProto.FLOAT), "x", to="masked")
    names = [f"rank{k}" for k in range(7)]
    outputs = dict.fromkeys([*names, "nothing", "masked"], TensorProto.FLOAT)
    return w.model({"x": (2, 3, 4, 3)}, outputs | {"truth": TensorProto.BOOL})


def function_model(opset: int) -> Any:
    """Operators that ONNX defines as functions of others, as far as the set has them."""
    w = NodeWriter(opset)
    x = "x"
    scale, bias = (w.constant(w.rng.uniform(0.5, 1, 4)) for _ in range(2))
    if opset >= 9:
        x = w("MeanVarianceNormalization", x, axes=[2, 3])
    if opset >= 10:
        x = w("ThresholdedRelu", x, alpha=-0.5)
    if opset >= 12:
        x = w("Celu", x, alpha=0.7)
    if opset >= 14:
        x = w("HardSwish", x)
    if opset >= 17:
        x = w("LayerNormalization", x, w.constant(np.linspace(1, 2, 6)), axis=-1)
    if opset >= 18:
        x = w("Mish", x)
        each = (scale, bias) if opset >= 21 else [w.constant([0.5, 2]) for _ in range(2)]
        x = w("GroupNormalization", x, *each, num_groups=2)
    if opset >= 20:
        x = w("Gelu", x, approximate="tanh")
    if opset >= 23:
        x = w("RMSNormalization", x, w.constant(np.linspace(1, 2, 6)), axis=-1)
    if opset >= 24:
        x = w("Swish", x, alpha=1.5)
    x = w("Softplus", w("Softsign", w("Selu", x)))
    w("LogSoftmax", x, to="y", axis=3)
    return w.model({"x": (2, 4, 5, 6)}, {"y": TensorProto.FLOAT})


NETWORKS: dict[str, tuple[Callable[[int], Any], tuple[tuple[int, ...], ...]]] = {
    "classifier": (classifier_model, ((2, 3, 13, 14),)),
    "decoder": (decoder_model, ((2, 6, 5, 4), (2, 6))),
    "shapes": (shape_model, ((2, 3, 4, 3),)),
    "functions": (function_model, ((2, 4, 5, 6),)),
}


def reference_outputs(
    model: onnx.ModelProto, arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Compute the outputs with another engine from the unchanged file."""
    names = [output.name for output in model.graph.output]
    if model.opset_import[0].version > MAX_RUNTIME_OPSET:
        return dict(zip(names, ReferenceEvaluator(model).run(None, arrays), strict=True))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return dict(zip(names, session.run(None, arrays), strict=True))


def operator_definitions(model: onnx.ModelProto) -> list[tuple[str, int]]:
    """The model's operators, each with the opset that introduced the definition in use."""
    opset = model.opset_import[0].version
    schemas = [onnx.defs.get_schema(node.op_type, opset) for node in model.graph.node]
    return [(schema.name, schema.since_version) for schema in schemas]


def networks_by_opset() -> Iterator[Any]:
    """Each network and set; a set that changes no used definition is left to `make sweep`.

    The newest set is always included.
    """
    for name, (make, _) in NETWORKS.items():
        before = None
        for opset in OPSETS:
            found = operator_definitions(make(opset))
            same = found == before and opset != OPSETS[-1]
            yield pytest.param(
                name, opset, id=f"{name}-{opset}", marks=[pytest.mark.sweep] if same else []
            )
            before = found


@pytest.mark.parametrize(("name", "opset"), networks_by_opset())
def test_a_network_means_the_same_in_every_operator_set(name: str, opset: int) -> None:
    make, sizes = NETWORKS[name]
    model = make(opset)
    rng = np.random.default_rng(opset)
    inputs = [rng.standard_normal(size).astype(np.float32) for size in sizes]
    if name == "shapes":
        inputs[0][0, 0, 1:3] = [[np.inf, 0, -np.inf], [1, np.nan, -2]]
    graph, arrays = load(model, tuple(inputs))
    expected = reference_outputs(model, dict(zip(graph.inputs, arrays, strict=True)))
    every = compute_reference(model, graph, arrays)
    for observe in ("all", "outputs"):
        with Session(lower(graph, observe=observe)) as session:
            values = session.run(*arrays)
        assert set(expected) <= set(values)
        for key, value in values.items():
            assert_equal(value, expected.get(key, every[key]), name=f"{key}, observe={observe}")
