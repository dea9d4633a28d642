"""The layer table's sources of numbers: followed to their source, they equal PyTorch's values."""

import itertools
from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from formulas import evaluate_formula
from nbglcnn.errors import ModelError
from nbglcnn.graph import Array
from nbglcnn.plan.schema import IndexMap, Layer, Operand, Plan
from onnx_models import model_of, node
from provenance_models import ClassTokenViT, GatedNet, MovingLayers, WindowAttention

POOL_FUNCTIONS = {"max pool": np.max, "mean pool": np.mean, "sum pool": np.sum}


def follow_moves(moves: tuple[IndexMap, ...], index: Array) -> Array:
    """The source elements to which all moves lead from these indices."""
    for move in moves:
        places = np.unravel_index(index, move.sizes)
        index = np.full_like(index, move.offset)
        for axis, at in enumerate(places):
            table = axis == move.axis
            index = index + (np.array(move.table)[at] if table else at * move.strides[axis])
    return index


def read_operand(operand: Operand, numbers: Mapping[str, Array]) -> Array:
    """A tensor in the form that an operator reads."""
    if operand.kind == "number":
        return np.array(operand.number)
    index = follow_moves(operand.index_maps, np.arange(np.prod(operand.shape, dtype=int)))
    return numbers[operand.key].reshape(-1)[index].reshape(operand.shape)


def compute_layer(layer: Layer, numbers: Mapping[str, Array]) -> Array:
    """Compute a layer's value from its entry in the table."""
    operands = [read_operand(one, numbers) for one in layer.operands if one.kind != "setting"]
    match layer.explanation:
        case "moved":
            found = operands[0]
        case "concatenation":
            found = np.concatenate(operands, axis=layer.attributes["axis"])
        case "sum":
            found = sum(operands[1:], start=operands[0])
        case "elementwise":
            x = np.zeros(layer.raw_shape or layer.output_shape)
            names = dict(zip("abcdef", operands, strict=False))
            found = evaluate_formula(layer.formula, x, **names)
        case "matrix":
            found = operands[0] @ operands[1]
        case "softmax":
            found = np.exp(operands[0])
            found = found / found.sum(layer.attributes["axis"], keepdims=True)
        case kind:
            found = POOL_FUNCTIONS[kind](operands[0].reshape(*operands[0].shape[:2], -1), 2)
    index = follow_moves(layer.index_maps, np.arange(np.prod(layer.output_shape, dtype=int)))
    return found.reshape(-1)[index].reshape(layer.output_shape)


def check_provenance(model: nn.Module, x: torch.Tensor, min_counts: Mapping[str, int]) -> Plan:
    """Compare each layer of these kinds, require a minimum number of each, and return the Plan."""
    torch.manual_seed(3)
    plan = nbglcnn.compile(model.eval(), x)
    with nbglcnn.Session(plan) as session:
        values = dict(session.run(x.numpy()))
    values[plan.header.inputs[0].key] = x.numpy()
    numbers = {**{k: v.detach().numpy() for k, v in model.state_dict().items()}, **values}
    seen: dict[str, int] = {}
    for layer in plan.layers:
        plain = layer.explanation in ("matrix", "softmax") and len(layer.operators) == 1
        bare = plain or (layer.explanation == "matrix" and "Add" in layer.operators)
        if layer.is_composite or layer.explanation not in [*min_counts, "moved"] or bare:
            continue
        np.testing.assert_allclose(
            compute_layer(layer, numbers),
            values[layer.name],
            rtol=1e-5,
            atol=1e-6,
            err_msg=layer.name,
        )
        seen[layer.explanation] = seen.get(layer.explanation, 0) + 1
    for kind, count in min_counts.items():
        assert seen.get(kind, 0) >= count, (kind, seen)
    return plan


def test_every_step_of_a_vit_with_a_class_token_is_told() -> None:
    least = {"moved": 14, "concatenation": 1, "sum": 5}
    plan = check_provenance(ClassTokenViT(), torch.rand(2, 3, 12, 12), least)
    token, patches = plan.layers["cat"].operands
    assert (token.key, token.shape) == ("token", (2, 1, 8))
    assert patches.key == "transpose"
    assert "token" in {one.key for one in plan.header.parameters}
    assert all(layer.explanation != "nothing" and not layer.is_composite for layer in plan.layers)


def test_every_step_of_shifted_windows_is_told_down_to_the_biases_of_pairs() -> None:
    least = {"moved": 15, "concatenation": 4, "sum": 1, "mean pool": 1}
    plan = check_provenance(WindowAttention(), torch.rand(2, 4, 4, 8), least)
    _, bias = plan.layers["add"].operands
    assert (bias.key, bias.shape) == ("table", (1, 2, 4, 4))
    assert all(layer.explanation != "nothing" and not layer.is_composite for layer in plan.layers)


def test_numbers_that_are_moved_and_joined_in_any_way_are_told() -> None:
    least = {"moved": 15, "concatenation": 3, "sum": 1, "elementwise": 7,
             "mean pool": 3, "max pool": 1, "sum pool": 1}  # fmt: skip
    plan = check_provenance(GatedNet(), torch.rand(2, 3, 6, 8), least)
    assert all(layer.explanation != "nothing" and not layer.is_composite for layer in plan.layers)


def test_a_module_of_several_operators_is_told_where_one_of_them_computes() -> None:
    least = {"moved": 8, "concatenation": 2, "elementwise": 1, "mean pool": 1, "matrix": 1,
             "softmax": 1}  # fmt: skip
    plan = check_provenance(MovingLayers(), torch.rand(2, 8, 6, 8), least)
    assert plan.layers["parts.rolled"].explanation == "moved"
    several = plan.layers["parts.scaled"]  # a mean and a product
    assert (several.explanation, several.is_composite, several.formula) == ("elementwise", True, "")


X = np.random.default_rng(1).standard_normal((2, 6, 4, 4)).astype(np.float32)
GATHER_INDICES = np.array([[3, 0], [-1, 2]])
ONNX_NODES = {
    "Gather": [node("Gather", ["x", "i"], ["y"], axis=2)],
    "GatherND": [node("GatherND", ["x", "rows"], ["y"])],
    "GatherND in batches": [node("GatherND", ["x", "pairs"], ["y"], batch_dims=1)],
    "CenterCropPad": [node("CenterCropPad", ["x", "small"], ["y"], axes=[2, 3])],
    "DepthToSpace": [node("SpaceToDepth", ["x"], ["z"], blocksize=2),
                     node("DepthToSpace", ["z"], ["y"], blocksize=2, mode="CRD")],
    "DCR": [node("SpaceToDepth", ["x"], ["z"], blocksize=2),
            node("DepthToSpace", ["z"], ["y"], blocksize=2, mode="DCR")],
    "Tile": [node("Tile", ["x", "twice"], ["y"])],
    "Split": [node("Split", ["x", "sizes"], ["z", "y"], axis=1)],
}  # fmt: skip
ONNX_CONSTANTS = {
    "i": GATHER_INDICES, "rows": np.array([[1, -2], [0, 3], [1, 0]]),
    "pairs": GATHER_INDICES[..., None],
    "small": np.array([3, 2]), "twice": np.array([1, 2, 1, 3]), "sizes": np.array([2, 4]),
}  # fmt: skip


@pytest.mark.parametrize("name", ONNX_NODES)
def test_onnx_operators_that_move_elements_are_told(name: str) -> None:
    nodes = ONNX_NODES[name]
    read_ = set(itertools.chain(*(one.input for one in nodes)))
    constants = {k: v.astype(np.int64) for k, v in ONNX_CONSTANTS.items() if k in read_}
    plan = nbglcnn.compile(model_of(nodes, {"x": X.shape}, ["y"], constants=constants), X)
    with nbglcnn.Session(plan) as session:
        values = {"x": X, **session.run(X)}
    told = [layer for layer in plan.layers if layer.explanation == "moved"]
    assert [layer.name for layer in told] == [layer.name for layer in plan.layers]
    for layer in told:
        np.testing.assert_array_equal(
            compute_layer(layer, values), values[layer.name], err_msg=layer.name
        )


def test_what_is_chosen_by_numbers_that_are_computed_has_no_place_of_its_own() -> None:
    model = model_of(
        [node("ArgMax", ["x"], ["i"], axis=0, keepdims=0), node("Gather", ["x", "i"], ["y"])],
        {"x": X.shape}, ["y"],
    )  # fmt: skip
    layer = nbglcnn.compile(model, X).layers["y"]
    assert (layer.explanation, layer.operands[0].index_maps) == ("chosen", ())


@pytest.mark.parametrize(
    "move",
    [
        IndexMap((2,), (1, 1)),
        IndexMap((0, 4), (1, 1)),
        IndexMap((4,), (2**40,), -1),
        IndexMap((4,), (0,), axis=0, table=(1, 2)),
        IndexMap((4,), (0,), axis=1, table=(1,) * 4),
        IndexMap((3,), (1,)),
        IndexMap((4,), (2,)),
    ],
    ids=str,
)
def test_a_file_whose_moves_lead_outside_is_refused(move: IndexMap) -> None:
    plan = nbglcnn.compile(nn.Sequential(nn.ChannelShuffle(2)), torch.rand(1, 4, 1, 1))
    [layer] = plan.header.layers
    operand = msgspec.structs.replace(layer.operands[0], index_maps=(move,))
    for wrong in (
        msgspec.structs.replace(layer, operands=(operand,)),
        msgspec.structs.replace(layer, index_maps=(move,)),
    ):
        header = msgspec.structs.replace(plan.header, layers=(wrong,))
        with pytest.raises(ModelError, match="moves"):
            Plan.from_bytes(Plan(header, plan.uniforms, plan.blobs).to_bytes())
