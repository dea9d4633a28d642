"""What forward is given: nested dicts and tuples, None, bools and numbers, lists with tensors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import nbglcnn
from equal import assert_equal
from nbglcnn import InputError, Preprocess, Session, UnsupportedModel, Viewer, compile
from nbglcnn.load import load, prepared
from nbglcnn.reference import reference

X = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
E = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))


class Pair(NamedTuple):
    first: Any
    second: Any


class Conditioned(nn.Module):
    """Takes what a diffusion model's UNet takes."""

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
                y = y * added_cond_kwargs["pair"].first
        if states is not None:
            y = y + states.mean()
        if active:
            y = y.relu()
        for size in sizes:
            y = y + size
        return y, {"twice": y * 2}


IMAGE = "added_cond_kwargs['image_embeds']"
CALLS: dict[str, tuple[Any, list[str]]] = {
    "a number": ((X, 2.0), ["sample"]),
    "a tensor of one number": ((X, torch.tensor(2.0)), ["sample", "timestep"]),
    "None and a bool": ((X, 2.0, None, None, False), ["sample"]),
    "a dict in a dict": (
        {"sample": X, "timestep": 3, "added_cond_kwargs": {"image_embeds": E}},
        ["sample", IMAGE],
    ),
    "tuples with numbers in them": (
        {"sample": X, "timestep": torch.tensor(0.5), "sizes": (1, torch.tensor(3.0), X)},
        ["sample", "timestep", "sizes[1]", "sizes[2]"],
    ),
    "a named tuple": (
        {
            "sample": X,
            "timestep": 1,
            "added_cond_kwargs": {"image_embeds": E, "pair": Pair(X * 2, None)},
        },
        ["sample", IMAGE, "added_cond_kwargs['pair'][0]"],
    ),
    "names with others left out between them": (
        {"sample": X, "timestep": torch.tensor(2.0), "states": E, "active": False},
        ["sample", "timestep", "states"],
    ),
}


def right(given: Any) -> np.ndarray:
    model = Conditioned().eval()
    with torch.no_grad():
        found = model(**given) if isinstance(given, dict) else model(*given)
    return found[0].numpy()


@pytest.mark.parametrize("kind", CALLS)
def test_arguments_of_every_form_are_accepted(kind: str) -> None:
    given, names = CALLS[kind]
    model = Conditioned().eval()
    graph, arrays = load(model, given)
    assert [key.name for key in graph.keys if key.kind == "input"] == names
    assert_equal(reference(model, graph, arrays)["output[0]"], right(given))
    with Session(compile(model, given)) as session:
        assert_equal(session.run(*arrays)["output[0]"], right(given))
    assert nbglcnn.check(model, given).ok


def test_a_viewer_takes_nested_arguments_again_and_by_the_inputs_names(tmp_path: Path) -> None:
    given = {"sample": X, "timestep": 2, "added_cond_kwargs": {"image_embeds": E}}
    viewer = Viewer(Conditioned().eval(), given)
    try:
        assert viewer.verify().ok
        other = {"sample": X * 2, "timestep": 2, "added_cond_kwargs": {"image_embeds": E + 1}}
        viewer.input = other
        assert_equal(viewer.activations["output[0]"], right(other))
        viewer.input = {IMAGE: E, "sample": X}
        assert_equal(viewer.activations["output[0]"], right(given))
        assert viewer.verify(other).ok
        assert_equal(viewer.activations["output[0]"], right(given))
        with pytest.raises(InputError, match="constants stay as they are"):
            viewer.input = {**given, "timestep": 3}
        path = viewer.to_onnx(tmp_path / "net.onnx")
        session = onnxruntime.InferenceSession(path)
        own = dict(zip([one.name for one in session.get_inputs()], (X, E), strict=True))
        found = session.run(None, {name: one.numpy() for name, one in own.items()})
        assert_equal(found[0], right(given))
    finally:
        viewer.close()


def test_a_source_of_one_example_keeps_the_other_arguments() -> None:
    given = {"sample": X, "timestep": 2, "added_cond_kwargs": {"image_embeds": E}}
    viewer = Viewer(Conditioned().eval(), given)
    try:
        viewer.input = nbglcnn.Noise(input="sample", seed=3)
        sample = torch.from_numpy(viewer.activations["sample"])
        alone = {
            "sample": sample, "timestep": 2, "added_cond_kwargs": {"image_embeds": E[:1]}
        }  # fmt: skip
        assert_equal(viewer.activations["output[0]"], right(alone))
    finally:
        viewer.close()


def test_a_picture_with_preprocess_has_nested_arguments_behind_it() -> None:
    picture = torch.rand(2, 3, 4, 4)
    given = {"sample": picture, "timestep": 2, "added_cond_kwargs": {"image_embeds": E}}
    model = prepared(Conditioned().eval(), Preprocess(mean=(0.5,) * 3, std=(0.25,) * 3))
    graph, arrays = load(model, given)
    inputs = [key.name for key in graph.keys if key.kind == "input"]
    assert inputs[-1] == IMAGE
    wanted = right({**given, "sample": (picture - 0.5) / 0.25})
    assert_equal(reference(model, graph, arrays)["output[0]"], wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sample": X, "timestep": 2, "activ": True}, "no input 'activ' .near: active"),
        ((1, None), "holds no array, .*give at least one input as an array"),
        ({"sample": X, "active": True}, "missing 1 required positional argument: 'timestep'"),
    ],
)
def test_wrong_arguments_are_named(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(Conditioned().eval(), given)


class Made(nn.Module):
    def __init__(self, make: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.make = make
        self.register_buffer("two", torch.tensor(2.0))
        self.one = nn.Parameter(torch.tensor([3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.make(self, x).float().sum()


LISTS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
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


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_that_holds_tensors_becomes_a_tensor(kind: str) -> None:
    model = Made(LISTS[kind]).eval()
    graph, arrays = load(model, X)
    with Session(compile(model, X)) as session:
        found = session.run(*arrays)["output"]
    with torch.no_grad():
        assert_equal(found, model(X).numpy())
    assert not graph.settings


def test_a_number_read_by_another_constructor_is_refused_with_what_to_write() -> None:
    model = Made(lambda m, x: torch.FloatTensor([x.mean()])).eval()
    with pytest.raises(UnsupportedModel, match=r"test_arguments.py: .*write torch.stack"):
        load(model, X)
