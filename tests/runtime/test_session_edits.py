"""Edits in a Session: live bends, order, undo, injected arrays, and their point of application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from nbglcnn import Session, transforms
from nbglcnn.errors import InputError
from nbglcnn.features.edits import reference
from nbglcnn.features.edits.records import Edit

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


class SharedConvOutput(nn.Module):
    """Returns its convolution's value, which it also reads itself."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(5, 5, 3, padding=1)
        self.head = nn.Conv2d(5, 2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.conv(x)
        return y, self.head(y)


class Net(nn.Module):
    """A module and its last layer, a view next to a skip, a reader inside a module."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU())
        self.inner = SharedConvOutput()
        self.relu = nn.ReLU()
        self.flat = nn.Flatten()
        self.fc = nn.Linear(5 * 7 * 9, 4)
        self.up = nn.ConvTranspose2d(5, 3, 4, 2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, a = self.inner(self.first(x))
        r = self.relu(y)
        return self.fc(self.flat(r)), self.up(r), a


@pytest.fixture(scope="module")
def model() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(2, 3, 7, 9, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def shared_session(model: Net, x: torch.Tensor) -> Iterator[Session]:
    with Session(nbglcnn.compile(model, x)) as session:
        yield session


@pytest.fixture
def session(shared_session: Session, x: torch.Tensor) -> Session:
    shared_session.bends.clear()
    for layer in ("first", "relu", "x"):
        shared_session.release(layer)
    shared_session.run(x)
    return shared_session


def value_nchw(session: Session, layer: str) -> tuple[int, int, int, int]:
    return next(value.nchw for value in session.plan.values if value.key == layer)


def edit_with_hook(
    model: Net, x: torch.Tensor, path: str, edits: list[Edit], display_shape: tuple[int, ...]
) -> dict:
    """PyTorch's values, by key, when a forward hook edits one module's output."""
    seen: dict[str, np.ndarray] = {}

    def edit(_: nn.Module, __: object, out: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(reference.apply_edits(out.numpy(), display_shape, edits, {}))

    handles = [model.get_submodule(path).register_forward_hook(edit)]
    for name, module in model.named_modules():
        if name not in ("", "inner"):
            handles.append(
                module.register_forward_hook(
                    lambda _, __, out, name=name: seen.__setitem__(name, out.numpy().copy())
                )
            )
    with torch.no_grad():
        outputs = model(x)
    for handle in handles:
        handle.remove()
    return seen | {f"output[{k}]": out.numpy() for k, out in enumerate(outputs)}


@pytest.mark.parametrize(
    "path", ["first", "first.1", "first.0", "inner.conv", "relu", "flat", "fc"]
)
def test_a_stack_acts_where_a_forward_hook_would(
    session: Session, model: Net, x: torch.Tensor, path: str
) -> None:
    session.bend(path, transforms.rotate(30), mix=0.75)
    session.bend(path, transforms.multiply(2), channels=[0, 2])
    session.bend(path, transforms.add(0.5), channels=slice(1, None))
    found = session.run(x)
    expected = edit_with_hook(model, x, path, [*session.edits], value_nchw(session, path))
    for key, value in expected.items():
        # A hook on a module runs after those of its inner layers.
        np.testing.assert_allclose(found[key], value, **TOLERANCE, err_msg=key)


def test_what_a_module_reads_of_its_own_value_comes_before_its_hook(
    session: Session, x: torch.Tensor
) -> None:
    before = session.run(x)
    session.bend("inner[0]", transforms.ablate())
    after = session.run(x)
    np.testing.assert_array_equal(after["inner[1]"], before["inner[1]"])  # the inner head
    np.testing.assert_array_equal(after["inner.conv"], before["inner.conv"])
    assert not after["inner[0]"].any() and not after["relu"].any()


def test_unbent_is_the_value_before_the_bends_of_that_very_layer(
    session: Session, x: torch.Tensor
) -> None:
    before = session.run(x)
    session.bend("first", transforms.multiply(3))
    session.bend("relu", transforms.add(1))
    after = session.run(x)
    np.testing.assert_array_equal(session.read("first", unbent=True), before["first"])
    np.testing.assert_allclose(session.read("relu", unbent=True), after["relu"] - 1, atol=1e-5)
    assert np.abs(session.read("relu", unbent=True) - before["relu"]).max() > 0.1


def test_bends_are_live_and_end(session: Session, x: torch.Tensor) -> None:
    before = session.run(x)
    bend = session.bend("relu", transforms.multiply(2), channels=[1], name="double")
    assert session.bends["double"] is bend is session.bends[0]
    bend.factor = 4
    np.testing.assert_allclose(session.run(x)["relu"][:, 1], 4 * before["relu"][:, 1], rtol=1e-6)
    bend.channels = [0, 3]
    found = session.run(x)["relu"]
    np.testing.assert_array_equal(found[:, 1], before["relu"][:, 1])
    np.testing.assert_allclose(found[:, [0, 3]], 4 * before["relu"][:, [0, 3]], rtol=1e-6)
    bend.enabled = False
    np.testing.assert_array_equal(session.run(x)["relu"], before["relu"])
    bend.enabled, bend.mix = True, 0.5
    np.testing.assert_allclose(session.run(x)["relu"][:, 0], 2.5 * before["relu"][:, 0], rtol=1e-5)
    bend.remove()
    bend.remove()
    assert not session.bends and "(removed)" in repr(bend)
    with pytest.raises(InputError, match="'double' was removed"):
        bend.factor = 1
    for key, value in session.run(x).items():
        np.testing.assert_array_equal(value, before[key])


def test_the_input_can_be_bent_and_runs_again_alike(session: Session, x: torch.Tensor) -> None:
    session.bend("x", transforms.flip_h())
    flipped = x.flip(-1)
    first = session.run(x)
    again = session.run()
    session.bends.clear()
    expected = session.run(flipped)
    for key in first:
        np.testing.assert_array_equal(first[key], again[key])
        np.testing.assert_array_equal(first[key], expected[key])


def test_undo_and_redo_go_step_by_step(session: Session) -> None:
    bend = session.bend("relu", transforms.rotate(10))
    for degrees in (20, 30, 40):
        bend.degrees = degrees  # one drag, one step
    session.bend("relu", transforms.invert())
    assert session.undo() and [one.transform.name for one in session.bends] == ["rotate"]
    assert session.bends[0].degrees == 40
    assert session.undo() and session.bends[0].degrees == 10
    assert session.redo() and session.bends[0].degrees == 40
    session.bend("relu", transforms.ablate())
    assert not session.redo()  # an edit after undo clears redo


def test_they_are_data(session: Session, x: torch.Tensor) -> None:
    import json

    session.bend("relu", transforms.scale(1.5), channels=[2], mix=0.3, name="large")
    session.bend("first", transforms.noise(0.2, seed=7), enabled=False)
    found = session.run(x)
    text = json.dumps(session.bends.to_dict())
    session.bends.clear()
    session.bends.from_dict(json.loads(text))
    assert repr(session.bends).count("bend(") == 2 and session.bends["large"].mix == 0.3
    for key, value in session.run(x).items():
        np.testing.assert_array_equal(value, found[key])
    with pytest.raises(InputError, match="to_dict"):
        session.bends.from_dict({"x": 1})
    foreign = {"bends": [{"layer": "relu", "name": "a", "transform": "glsl", "source": "y = 9.0"}]}
    with pytest.raises(InputError, match="needs your approval"):
        session.bends.from_dict(foreign)
    assert len(session.bends) == 2


def test_numbers_of_numpy_are_plain_ones(session: Session) -> None:
    bend = session.bend("relu", transforms.rotate(0))
    bend.degrees, bend.mix = np.sin(np.float64(1)), np.float64(0.5)
    [edit] = session.edits
    assert edit.parameters == (float(np.sin(1.0)),)
    assert [type(one) for one in (*edit.parameters, edit.mix)] == [float, float]


def test_arrays_take_the_place_of_values(session: Session, x: torch.Tensor) -> None:
    before = session.run(x)
    own = np.random.default_rng(0).normal(size=before["relu"].shape).astype("float32")
    session.inject("relu", own)
    session.bend("relu", transforms.multiply(2))
    found = session.run(x)
    np.testing.assert_allclose(found["relu"], 2 * own, rtol=1e-6)
    np.testing.assert_array_equal(session.read("relu", unbent=True), before["relu"])
    session.inject("relu", own[:1, [3]], channels=[3])  # one example, broadcast to all
    found = session.run(x)["relu"]
    np.testing.assert_allclose(found[1, 3], 2 * own[0, 3], rtol=1e-6)
    session.release("relu")
    np.testing.assert_allclose(session.run(x)["relu"], 2 * before["relu"], rtol=1e-6)
    session.bends.clear()
    session.freeze("first")
    other = session.run(-x)
    np.testing.assert_array_equal(other["first"], before["first"])
    np.testing.assert_array_equal(other["output[1]"], before["output[1]"])
    assert np.abs(other["first.0"] - before["first.0"]).max() > 0.1


def test_a_changed_parameter_makes_no_texture_buffer_or_program(
    session: Session, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = session.run(x)["relu"]
    session.inject("relu", own := 3 + np.abs(before[:, [1, 4]]), channels=[1, 4])
    bend = session.bend("relu", transforms.multiply(2), channels=[0, 1])
    session.bend("first", transforms.glsl("y = a * x;", a=1.0))
    session.run(x)
    context = session._device.context
    made: list[str] = []

    class Counting:
        """A proxy of the device's context that records created objects."""

        def __getattr__(self, name: str) -> Any:
            if name in ("texture_array", "buffer", "program", "vertex_array"):
                made.append(name)
            return getattr(context, name)

    monkeypatch.setattr(session._device, "context", Counting())
    for factor in (3, 4):
        bend.factor = factor
        found = session.run(x)["relu"]
        np.testing.assert_allclose(found[:, 0], factor * before[:, 0], rtol=1e-6)
        np.testing.assert_allclose(found[:, 1], factor * own[:, 0], rtol=1e-6)
        np.testing.assert_array_equal(found[:, 4], own[:, 1])
    assert made == []
    bend.channels = [4]  # a table gets new contents, and the old one is freed
    found = session.run(x)["relu"]
    np.testing.assert_allclose(found[:, 4], 4 * own[:, 1], rtol=1e-6)
    np.testing.assert_array_equal(found[:, :2], [[before[k, 0], own[k, 0]] for k in (0, 1)])
    assert made == ["texture_array"]


def test_bends_of_all_channels_reach_the_last_of_each_layer(
    session: Session, model: Net, x: torch.Tensor
) -> None:
    session.bend("x", transforms.multiply(2))  # 3 channels
    session.bend("relu", transforms.multiply(3))  # 5 channels
    found = session.run(x)
    with torch.no_grad():
        relu = 3 * torch.relu(model.inner.conv(model.first(2 * x)))
    np.testing.assert_allclose(found["x"], 2 * x, **TOLERANCE)
    np.testing.assert_allclose(found["relu"], relu, **TOLERANCE)


def test_tables_and_arrays_of_earlier_edits_are_freed(session: Session, x: torch.Tensor) -> None:
    relu = session.run(x)["relu"]
    bend = session.bend("relu", transforms.multiply(2))
    counts = []
    for channel in range(4):
        bend.channels = [channel]
        session.inject("relu", relu + channel)
        session.run(x)
        counts.append(len(session._session_edits._tables))
    assert counts == counts[:1] * 4


def test_ones_own_formula_and_what_does_not_compile(session: Session, x: torch.Tensor) -> None:
    before = session.run(x)
    bend = session.bend(
        "relu", transforms.glsl("y = a * x;\nif (row > column) y -= float(channel);", a=3.0)
    )
    row, column = np.mgrid[:7, :9]
    expected = 3 * before["relu"] - (row > column) * np.arange(5).reshape(1, 5, 1, 1)
    np.testing.assert_allclose(session.run(x)["relu"], expected, **TOLERANCE)
    bend.a = -1
    assert np.abs(session.run(x)["relu"] + before["relu"]).max() <= 4.001
    with pytest.raises(InputError, match=r"does not compile.*\n*(.|\n)*0:2\(") as error:
        session.bend("relu", transforms.glsl("y = x;\ny = foo(x)"))
    assert "the edits are unchanged" in str(error.value) and len(session.bends) == 1
    for wrong in ("", "y = x }", "#define x", "y = “x”", "sin(x)"):
        with pytest.raises(InputError, match="glsl"):
            transforms.glsl(wrong)
    with pytest.raises(InputError, match="p0 is inf"):
        transforms.glsl("y = p0", p0=float("inf"))


def test_what_cannot_be_is_refused_by_name(session: Session) -> None:
    for match, layer, options in (
        ("near", "relux", {}),
        ("channels 0 to 4, not 5", "relu", {"channels": [5]}),
        ("not a channel index", "relu", {"channels": [1.5]}),
        ("mix is 2", "relu", {"mix": 2}),
    ):
        with pytest.raises((KeyError, InputError), match=match):
            session.bend(layer, transforms.ablate(), **options)
    with pytest.raises(InputError, match="degrees is nan; expected a finite number"):
        transforms.rotate(float("nan"))
    with pytest.raises(InputError, match="expected a number > 0"):
        transforms.scale(0)
    with pytest.raises(InputError, match="an integer"):
        transforms.erode(1.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is not a transform"):
        session.bend("relu", "rotate")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"expected an array of shape \(2, 5, 7, 9\)"):
        session.inject("relu", np.zeros((3, 3)))
    bend = session.bend("relu", transforms.rotate(1))
    with pytest.raises(InputError, match="inf"):
        bend.degrees = float("inf")
    assert bend.degrees == 1


def test_a_fused_layer_and_integers_are_refused(model: Net, x: torch.Tensor) -> None:
    with Session(nbglcnn.compile(model, x, observe="outputs")) as session:
        with pytest.raises(KeyError, match="observe"):
            session.bend("first.0", transforms.ablate())
        session.bend("output[1]", transforms.ablate())
        assert not session.run(x)["output[1]"].any()

    class Largest(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.argmax(1)

    with (
        Session(nbglcnn.compile(Largest(), x)) as session,
        pytest.raises(InputError, match="int64 values; only float32"),
    ):
        session.bend("output", transforms.ablate())


def test_half_precision(model: Net, x: torch.Tensor) -> None:
    with Session(nbglcnn.compile(model, x, precision="float16")) as session:
        before = session.run(x)["relu"]
        for transform in (
            transforms.rotate(25), transforms.edges(), transforms.contrast(1.5),
            transforms.pixelate(3), transforms.salt_and_pepper(0.3, 2),
            transforms.occlude(0.4, 0.6, 3, 0.25),
        ):  # fmt: skip
            session.bends.clear()
            session.bend("relu", transform, channels=[1, 4])
            [edit] = session.edits
            expected = reference.apply_edits(before, value_nchw(session, "relu"), [edit], {})
            np.testing.assert_allclose(
                session.run(x)["relu"], expected, atol=2e-3, err_msg=transform.name
            )


def test_an_array_in_one_channel_leaves_those_in_others(session: Session, x: torch.Tensor) -> None:
    before = session.run(x)["relu"].copy()
    right = before.copy()
    for channels, factor in (([1, 3], 5), ([1], 2), ([0, 2], 3), ([2], 7)):
        array = before[:, channels] * factor + 1
        session.inject("relu", array, channels=channels)
        right[:, channels] = array
        np.testing.assert_array_equal(session.run(x)["relu"], right)


@pytest.mark.parametrize("transform", [transforms.noise(0.2), transforms.salt_and_pepper(0.5)])
def test_a_random_bend_of_a_batch_in_pieces_is_refused(transform: Any) -> None:
    x = torch.randn(4, 3, 6, 6)
    model = nn.Sequential(nn.Conv2d(3, 2, 3)).eval()
    with Session(nbglcnn.compile(model, x[:2])) as session:
        bend = session.bend("0", transform)
        with pytest.raises(InputError, match=r"0 is bent by .* batches of 2.* batch of 4"):
            session.run(x)
        assert session.run(x[:1])["0"].shape == (1, 2, 4, 4)
        bend.enabled = False
        assert np.allclose(session.run(x)["0"], model(x).detach().numpy(), **TOLERANCE)
