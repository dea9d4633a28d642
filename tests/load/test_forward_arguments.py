"""Arguments of forward: nested dicts, tuples and lists, None, bools and numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, Plan, Preprocess, Session, UnsupportedModel, Viewer, compile
from nbglcnn.load import load, wrap_model
from nbglcnn.reference import compute_reference

X = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
EMBEDDING = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))


class DataclassPair(NamedTuple):
    first: Any
    second: Any


class ConditionedUNet(nn.Module):
    """Takes the arguments of a diffusion model's UNet."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.conv = nn.Conv2d(3, 3, 1)
        self.embed = nn.Linear(4, 3)

    def forward(
        self,
        sample: Any,
        timestep: Any,
        states: Any = None,
        labels: Any = None,
        active: bool = True,
        *,
        added_cond_kwargs: Any = None,
        sizes: Any = (1.0,),
    ) -> Any:
        y = self.conv(sample) * timestep
        if added_cond_kwargs is not None:
            y = y + self.embed(added_cond_kwargs["image_embeds"])[:, :, None, None]
            if "pair" in added_cond_kwargs:
                pair = added_cond_kwargs["pair"]
                y = y * (pair[0] if isinstance(pair, list) else pair.first)
        if states is not None:
            y = y + states.mean()
        if active:
            y = y.relu()
        for size in sizes:
            y = y + size
        return y, {"twice": y * 2}


LIST_ARGUMENT = [X * 2, None]
IMAGE_EMBEDS_NAME = "added_cond_kwargs['image_embeds']"
CALL_ARGUMENTS: dict[str, tuple[Any, list[str]]] = {
    "a number": ((X, 2.0), ["sample"]),
    "a tensor of one number": ((X, torch.tensor(2.0)), ["sample", "timestep"]),
    "None and a bool": ((X, 2.0, None, None, False), ["sample"]),
    "a dict in a dict": (
        {"sample": X, "timestep": 3, "added_cond_kwargs": {"image_embeds": EMBEDDING}},
        ["sample", IMAGE_EMBEDS_NAME],
    ),
    "tuples with numbers in them": (
        {"sample": X, "timestep": torch.tensor(0.5), "sizes": (1, torch.tensor(3.0), X)},
        ["sample", "timestep", "sizes[1]", "sizes[2]"],
    ),
    "a named tuple": (
        {
            "sample": X,
            "timestep": 1,
            "added_cond_kwargs": {"image_embeds": EMBEDDING, "pair": DataclassPair(X * 2, None)},
        },
        ["sample", IMAGE_EMBEDS_NAME, "added_cond_kwargs['pair'][0]"],
    ),
    "a list of tensors": (
        {"sample": X, "timestep": 2, "sizes": [X, EMBEDDING.mean(), X * 2]},
        ["sample", "sizes[0]", "sizes[1]", "sizes[2]"],
    ),
    "a list of numbers and an empty one": (
        (X, 2, None, [], [0]),
        ["sample"],
    ),
    "a list in a dict": (
        {
            "sample": X,
            "timestep": 1,
            "added_cond_kwargs": {"image_embeds": EMBEDDING, "pair": LIST_ARGUMENT},
        },
        ["sample", IMAGE_EMBEDS_NAME, "added_cond_kwargs['pair'][0]"],
    ),
    "names with others left out between them": (
        {"sample": X, "timestep": torch.tensor(2.0), "states": EMBEDDING, "active": False},
        ["sample", "timestep", "states"],
    ),
}


def torch_output(call_arguments: Any) -> np.ndarray:
    model = ConditionedUNet().eval()
    with torch.no_grad():
        found = (
            model(**call_arguments) if isinstance(call_arguments, dict) else model(*call_arguments)
        )
    return found[0].numpy()


@pytest.mark.parametrize("kind", CALL_ARGUMENTS)
def test_arguments_of_every_form_are_accepted(kind: str) -> None:
    given, names = CALL_ARGUMENTS[kind]
    model = ConditionedUNet().eval()
    graph, arrays = load(model, given)
    assert [key.name for key in graph.keys if key.kind == "input"] == names
    assert_equal(compute_reference(model, graph, arrays)["output[0]"], torch_output(given))
    with Session(compile(model, given)) as session:
        assert_equal(session.run(*arrays)["output[0]"], torch_output(given))
    assert nbglcnn.check(model, given).ok


@pytest.mark.parametrize("kind", CALL_ARGUMENTS)
def test_a_session_takes_the_arguments_that_were_compiled(kind: str) -> None:
    given, _ = CALL_ARGUMENTS[kind]
    plan = Plan.from_bytes(compile(ConditionedUNet().eval(), given).to_bytes())
    with Session(plan) as session:
        assert_equal(session.run(given)["output[0]"], torch_output(given))
        if isinstance(given, dict):
            assert_equal(session.run(**given)["output[0]"], torch_output(given))
            assert_equal(session.run({**given, "labels": None})["output[0]"], torch_output(given))
        else:
            assert_equal(session.run(*given)["output[0]"], torch_output(given))
            other = (X * 2, *given[1:])
            assert_equal(session.run(other)["output[0]"], torch_output(other))


def test_a_session_runs_many_examples_with_the_constants_that_were_compiled() -> None:
    given = {"sample": X, "timestep": 3, "added_cond_kwargs": {"image_embeds": EMBEDDING}}
    many = {
        **given,
        "sample": torch.cat([X, X * 2, X[:1]]),
        "added_cond_kwargs": {"image_embeds": torch.cat([EMBEDDING, EMBEDDING + 1, EMBEDDING[:1]])},
    }
    with Session(compile(ConditionedUNet().eval(), given)) as session:
        assert_equal(session.run(many)["output[0]"], torch_output(many))


LIST_ARGUMENTS = {"sample": X, "timestep": 2, "sizes": [1.0, X]}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"timestep": 3}, "^timestep: 3 was given; the network was compiled with 2, .*Give 2, or"),
        ({"timestep": EMBEDDING}, "^timestep: an array was given; the network was compiled with 2"),
        ({"active": False}, "^active: False was given; the network was compiled with True"),
        ({"other": None}, "^other: None was given; the network was compiled without other"),
        ({"sizes": [1.0]}, r"^sizes\[1\]: nothing was given; .* compiled with an array"),
        ({"sizes": [X]}, r"^sizes\[0\]: an array was given; .* compiled with 1\.0"),
        ({"sizes": []}, r"^sizes: \[\] was given; .* compiled with sizes\[0\], sizes\[1\]"),
        ({"sizes": [1.0, X, X]}, r"no input 'sizes\[2\]'"),
    ],
)
def test_another_constant_or_length_than_was_compiled_is_named(
    other: dict[str, Any], words: str
) -> None:
    model = ConditionedUNet().eval()
    with Session(compile(model, LIST_ARGUMENTS)) as session:
        session.run(LIST_ARGUMENTS)
        with pytest.raises(InputError, match=words):
            session.run({**LIST_ARGUMENTS, **other})
    viewer = Viewer(model, LIST_ARGUMENTS)
    try:
        with pytest.raises(InputError, match=words):
            viewer.input = {**LIST_ARGUMENTS, **other}
    finally:
        viewer.close()


class AddsNoise(nn.Module):
    def forward(self, x: torch.Tensor, scale: float, items: Any) -> torch.Tensor:
        return x * scale + items[0] + torch.randn_like(x)


def test_a_session_takes_random_numbers_behind_the_arguments() -> None:
    noise, given = torch.ones(2, 3, 4, 4), (X, 2.0, [EMBEDDING[0, 0]])
    with Session(compile(AddsNoise().eval(), given)) as session:
        found = session.run((*given, noise))["output"]
        assert_equal(found, (X * 2.0 + EMBEDDING[0, 0] + noise).numpy())
        assert_equal(session.run(given)["output"], found)
        with pytest.raises(InputError, match="5 arguments were given; forward takes 3"):
            session.run(*given, noise, noise)


class ScalesInput(nn.Module):
    def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale


def test_pictures_in_a_list_stay_a_batch() -> None:
    colours = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    given = ([Image.fromarray(one) for one in colours], 2.0)
    graph, (batch,) = load(ScalesInput().eval(), given)
    assert [key.name for key in graph.keys if key.kind == "input"] == ["x"]
    assert_equal(batch, colours.transpose(0, 3, 1, 2) / np.float32(255))
    with Session(compile(ScalesInput().eval(), given)) as session:
        assert_equal(session.run(given)["output"], batch * 2)


def test_a_comparison_takes_nested_arguments_again() -> None:
    given = {"sample": X, "timestep": 2, "added_cond_kwargs": {"image_embeds": EMBEDDING}}
    other = {**given, "sample": X * 3, "added_cond_kwargs": {"image_embeds": EMBEDDING - 1}}
    model = ConditionedUNet().eval()
    comparison = nbglcnn.compare(model, model.state_dict(), given)
    try:
        comparison.input = other
        assert_equal(comparison.activations["A.output[0]"], torch_output(other))
        with pytest.raises(InputError, match=r"timestep: 3 was given; .* compiled with 2"):
            comparison.input = {**given, "timestep": 3}
        assert comparison.verify(given).ok
    finally:
        comparison.close()
    plain = nbglcnn.compare(nn.ReLU(), nn.Tanh(), {"input": X})
    try:
        plain.input = {"input": X * 2}
        assert_equal(plain.activations["A.output"], (X * 2).relu().numpy())
    finally:
        plain.close()


def test_a_viewer_takes_nested_arguments_again_and_by_the_inputs_names(tmp_path: Path) -> None:
    given = {"sample": X, "timestep": 2, "added_cond_kwargs": {"image_embeds": EMBEDDING}}
    viewer = Viewer(ConditionedUNet().eval(), given)
    try:
        assert viewer.verify().ok
        other = {
            "sample": X * 2,
            "timestep": 2,
            "added_cond_kwargs": {"image_embeds": EMBEDDING + 1},
        }
        viewer.input = other
        assert_equal(viewer.activations["output[0]"], torch_output(other))
        viewer.input = {IMAGE_EMBEDS_NAME: EMBEDDING, "sample": X}
        assert_equal(viewer.activations["output[0]"], torch_output(given))
        assert viewer.verify(other).ok
        assert_equal(viewer.activations["output[0]"], torch_output(given))
        with pytest.raises(InputError, match=r"timestep: 3 was given; .* compiled with 2"):
            viewer.input = {**given, "timestep": 3}
        path = viewer.to_onnx(tmp_path / "net.onnx")
        session = onnxruntime.InferenceSession(path)
        own = dict(zip([one.name for one in session.get_inputs()], (X, EMBEDDING), strict=True))
        found = session.run(None, {name: one.numpy() for name, one in own.items()})
        assert_equal(found[0], torch_output(given))
    finally:
        viewer.close()


def test_a_source_of_one_example_keeps_the_other_arguments() -> None:
    given = {"sample": X, "timestep": 2, "added_cond_kwargs": {"image_embeds": EMBEDDING}}
    viewer = Viewer(ConditionedUNet().eval(), given)
    try:
        viewer.input = nbglcnn.Noise(input="sample", seed=3)
        sample = torch.from_numpy(viewer.activations["sample"])
        alone = {
            "sample": sample, "timestep": 2, "added_cond_kwargs": {"image_embeds": EMBEDDING[:1]}
        }  # fmt: skip
        assert_equal(viewer.activations["output[0]"], torch_output(alone))
    finally:
        viewer.close()


def test_a_picture_with_preprocess_has_nested_arguments_behind_it() -> None:
    picture = torch.rand(2, 3, 4, 4)
    given = {"sample": picture, "timestep": 2, "added_cond_kwargs": {"image_embeds": EMBEDDING}}
    model = wrap_model(ConditionedUNet().eval(), Preprocess(mean=(0.5,) * 3, std=(0.25,) * 3))
    graph, arrays = load(model, given)
    inputs = [key.name for key in graph.keys if key.kind == "input"]
    assert inputs[-1] == IMAGE_EMBEDS_NAME
    wanted = torch_output({**given, "sample": (picture - 0.5) / 0.25})
    assert_equal(compute_reference(model, graph, arrays)["output[0]"], wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sample": X, "timestep": 2, "activ": True}, "no input 'activ' .near: active"),
        ((1, None), "contains neither an array .*give at least one input as an array"),
        ((X, [X, X]), r"TypeError: .* stays a list; for a batch use torch.stack\(items\)"),
        ({"sample": X, "active": True}, "missing 1 required positional argument: 'timestep'"),
    ],
)
def test_wrong_arguments_are_named(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(ConditionedUNet().eval(), given)


class UsesMadeTensor(nn.Module):
    def __init__(self, make: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.make = make
        self.register_buffer("two", torch.tensor(2.0))
        self.one = nn.Parameter(torch.tensor([3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.make(self, x).float().sum()


TENSOR_FROM_LIST: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "of one": lambda m, x: torch.tensor([x.mean()]),
    "of lists with numbers": lambda m, x: torch.tensor([[x.mean(), 1], [2, m.two]]),
    "of a buffer and a parameter": lambda m, x: torch.tensor([m.two, m.one]),
    "as_tensor": lambda m, x: torch.as_tensor([x.max(), 2.0]),
    "asarray": lambda m, x: torch.asarray((x.mean(),)),
    "new_tensor": lambda m, x: x.new_tensor([x.mean(), m.one]),
    "integers": lambda m, x: torch.tensor([x.argmax(), 3]),
    "with a dtype": lambda m, x: torch.tensor([x.argmax(), 3], dtype=torch.float32),
    "bools": lambda m, x: torch.tensor([x.mean() > 0, True]),
    "two types": lambda m, x: torch.tensor([x.argmax(), 1.5]),
}


@pytest.mark.parametrize("kind", TENSOR_FROM_LIST)
def test_a_list_that_holds_tensors_becomes_a_tensor(kind: str) -> None:
    model = UsesMadeTensor(TENSOR_FROM_LIST[kind]).eval()
    graph, arrays = load(model, X)
    with Session(compile(model, X)) as session:
        found = session.run(*arrays)["output"]
    with torch.no_grad():
        assert_equal(found, model(X).numpy())
    assert not graph.constant_reads


def test_a_number_read_by_another_constructor_is_refused_with_what_to_write() -> None:
    model = UsesMadeTensor(lambda m, x: torch.FloatTensor([x.mean()])).eval()
    with pytest.raises(UnsupportedModel, match=r"test_forward_arguments.py: .*write torch.stack"):
        load(model, X)
