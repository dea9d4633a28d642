"""Operators that belong to no module are named by the model's source code."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.nn import functional as F

from nbglcnn import Plan, Session, Viewer, check, compile, gradient, transforms
from nbglcnn.load import load


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) / 2).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()
        self.relu = nn.ReLU()  # named like a function that is also called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.relu(x) + self.attn(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = self.blocks(x).chunk(2, -1)
        for _ in range(2):
            low = torch.matmul(low, low.transpose(1, 2)) @ high
        return F.relu(low)


X = np.random.default_rng(1).standard_normal((1, 5, 8), np.float32)


def test_keys_say_the_module_and_what_its_code_says() -> None:
    torch.manual_seed(1)
    model = Net().eval()
    names = [key.name for key in load(model, X)[0].keys]
    of_a_block = [name for name in names if name.startswith("blocks.1") and ":" in name]
    assert of_a_block == [
        "blocks.1.attn: reshape", "blocks.1.attn: permute",
        *(f"blocks.1.attn: {part}" for k in (0, 1, 2)
          for part in ("unbind.slice" + (f":{k}" if k else ""), f"unbind[{k}]")),
        "blocks.1.attn: transpose", "blocks.1.attn: q @ k.T", "blocks.1.attn: div",
        "blocks.1.attn: softmax", "blocks.1.attn: weights @ v", "blocks.1.attn: transpose:1",
        "blocks.1.attn: flatten", "blocks.1: add", "blocks.1: relu",
    ]  # fmt: skip
    behind = names[names.index("blocks.1: relu") + 1 :]
    assert behind == [
        "chunk[0]", "chunk[1]", "transpose", "low @ low.T", "matmul",
        "transpose:1", "low @ low.T:1", "matmul:1", "relu", "output",
    ]  # fmt: skip
    assert len(set(names)) == len(names)
    assert names == [key.name for key in load(model, X)[0].keys]


def test_a_key_has_the_value_that_its_words_name() -> None:
    torch.manual_seed(1)
    block = Block().eval()
    x = torch.from_numpy(X)
    q, k, _ = block.attn.qkv(x).reshape(1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    plan = compile(block, X)
    row = plan.layers["attn: q @ k.T"]
    assert row.output_shape == tuple((q @ k.transpose(-2, -1)).shape)
    assert row.inputs == ("attn: unbind[0]", "attn: transpose")
    assert plan.layers["relu"].module == "ReLU"
    assert plan.layers["relu:1"].module == ""  # the function, called in the model


def test_layers_and_check_spell_an_operator_as_its_module() -> None:
    model = Net().eval()
    types = {row.name: row.type for row in compile(model, X).layers}
    assert types["blocks.0.relu"] == types["blocks.0: relu"] == types["relu"] == "ReLU"
    rows = {row.layer: row.operator for row in check(model, X).rows}
    assert rows["blocks.0.relu"] == rows["blocks.0: relu"] == "ReLU"
    assert set(rows) == set(types)


def test_without_the_code_an_operator_keeps_its_own_word() -> None:
    names: dict[str, object] = {"nn": nn, "torch": torch}
    source = "class Made(nn.Module):\n    def forward(self, x):\n        return x @ x.mT"
    exec(source, names)
    made = names["Made"]
    assert isinstance(made, type)
    found = [key.name for key in load(made().eval(), X)[0].keys]
    assert found == ["x", "transpose", "matmul", "output"]


def test_a_file_s_names_stay_and_its_numbers_are_said_in_words() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["45"]),
        helper.make_node("Neg", ["45"], ["val_19"]),
        helper.make_node("Abs", ["val_19"], ["Abs 7"]),
        helper.make_node("Abs", ["Abs 7"], ["onnx::Abs_7"]),
        helper.make_node("Neg", ["onnx::Abs_7"], ["y1"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 3)) for n in ("x", "y1"))
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 20)]
    )
    layers = compile(model).layers
    assert [layer.name for layer in layers] == ["45", "val_19", "Abs 7", "onnx::Abs_7", "y1"]
    # Two equal labels would be one node of the graph.
    assert [layer.label for layer in layers] == ["ReLU 45", "Neg 19", "", "", ""]


def test_errors_name_an_operator_by_its_words() -> None:
    graph, _ = load(Net().eval(), X)
    assert "softmax in blocks.0.attn" in [node.name for node in graph.nodes]
    assert "relu" in [node.name for node in graph.nodes]


def shared_modules() -> nn.Sequential:
    relu, block = nn.ReLU(), nn.Sequential(nn.Conv2d(4, 4, 1), nn.Tanh())
    return nn.Sequential(nn.Conv2d(3, 4, 3), relu, block, relu, block, relu).eval()


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("3", "'1', '1:1', '1:2'"),
        ("5", "'1', '1:1', '1:2'"),
        ("4", "'2', '2:1'"),
        ("4.1", "'2.1', '2.1:1'"),
    ],
)
def test_another_name_of_a_shared_module_names_the_keys_of_its_calls(
    name: str, keys: str, tmp_path: Path
) -> None:
    model, x = shared_modules(), torch.rand(1, 3, 6, 6)
    words = rf"'{name}' is a shared module; its values are named {keys}$"
    plan = compile(model, x)
    plan.save(tmp_path / "a.plan")
    for one in (plan, Plan.load(tmp_path / "a.plan")):
        with Session(one) as session:
            session.run(x.numpy())
            for door in (
                session.read,
                one.layers.__getitem__,
                lambda key, session=session: session.bend(key, transforms.invert()),
            ):
                with pytest.raises(KeyError) as error:
                    door(name)
                assert re.search(words, error.value.args[0])
    viewer = Viewer(model, x)
    for door in (
        lambda: viewer.activations[name],
        lambda: gradient(model, x, of=name),
        lambda: compile(model, x, observe=[name]),
    ):
        with pytest.raises(KeyError) as error:
            door()
        assert re.search(words, error.value.args[0])
    viewer.close()


def test_an_unknown_name_in_observe_lists_the_near_ones_or_what_there_is() -> None:
    model, x = shared_modules(), torch.rand(1, 3, 6, 6)
    with pytest.raises(KeyError, match=r"'2.11' is not a layer of this network; near: .*'2.1'"):
        compile(model, x, observe=["2.11"])
    with pytest.raises(KeyError, match=r"'relu' is not a layer of this network; there are"):
        compile(model, x, observe=["relu"])
