"""Receptive and projective fields, as the page computes them, against PyTorch's gradients."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from bundle import search_path_with_node
from nbglcnn.ops.receptive_field import MAX_TABLE_LENGTH, source_positions, table_window
from nbglcnn.plan.schema import AxisWindow
from receptive_field_models import (
    NamedFunction,
    NetworkGenerator,
    SqueezeExcitation,
    with_positive_weights,
)

FIELDS_SCRIPT_FILE = Path(__file__).parents[2] / "js" / "test" / "receptive_fields.ts"
# Interpolation weights that should be 0 have errors of this size.
MAX_ZERO_GRADIENT = 1e-11


def compute_fields_in_node(questions: list[dict[str, Any]]) -> list[list[dict[str, set[int]]]]:
    """Return, for each query of each Plan, the positions that the page computes, by key."""
    node = shutil.which("node", path=search_path_with_node())
    assert node is not None
    run = subprocess.run(
        [node, "--no-warnings", str(FIELDS_SCRIPT_FILE)], input=json.dumps(questions),
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    answers = json.loads(run.stdout)
    return [[{key: set(places) for key, places in one} for one in each] for each in answers]


class FieldCase:
    """A network, its Plan, and the Plan keys that PyTorch modules have."""

    def __init__(self, model: nn.Module, x: torch.Tensor, seed: int) -> None:
        self.model, self.seed = with_positive_weights(model, seed), seed
        self.plan = nbglcnn.compile(self.model, x).header
        self.model.double()
        self.example = x.double().requires_grad_()
        self.values: dict[str, torch.Tensor] = {"x": self.example}

        def keep(name: str, value: torch.Tensor) -> torch.Tensor:
            # A different tensor: readers after an Identity are not readers before it.
            self.values[name] = value.view_as(value)
            return self.values[name]

        hooks = [
            module.register_forward_hook(lambda _m, _inputs, value, name=name: keep(name, value))
            for name, module in self.model.named_modules()
            if name
        ]
        self.values["output"] = self.model(self.example)
        for hook in hooks:
            hook.remove()
        # The layer that computes a module's or the output's value.
        [given] = self.plan.inputs
        rows = [*self.plan.layers, given]
        self.layers = {
            value.key: (
                "x" if value.layer < 0 else rows[value.layer].name,
                rows[value.layer].position_axes,
            )
            for value in self.plan.values
        }
        self.values = {key: v for key, v in self.values.items() if key in self.layers}
        rng = np.random.default_rng(seed)
        keys = [key for key in self.values if key not in ("x", "output")]
        chosen = ["output", *rng.permutation(keys)[:2].tolist()]
        self.questions = [self.make_field_query(key, "receptive", rng) for key in chosen]
        # If a module's input and output are the same value, PyTorch has one tensor for both.
        alone = [key for key in chosen[1:] if self.layers[key][0] == key]
        self.questions += [self.make_field_query(key, "projective", rng) for key in ["x", *alone]]

    def make_field_query(
        self, key: str, direction: str, rng: np.random.Generator
    ) -> dict[str, Any]:
        name, places = self.layers[key]
        shape = list(self.values[key].shape)
        at = [int(rng.integers(n)) for n in shape]
        common = {"key": name, "shape": shape, "places": list(places), "at": at, "way": direction}
        return {**common, "module": key}

    def positions(self, key: str, values: torch.Tensor) -> set[int]:
        """The positions of a value with any nonzero channel."""
        axes = self.layers[key][1]
        others = tuple(k for k in range(values.ndim) if k not in axes)
        found = values.detach().abs().amax(others) if others else values.detach().abs()
        return set(np.flatnonzero((found > MAX_ZERO_GRADIENT * found.max()).numpy()).tolist())

    def element_index(self, question: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(
            at if axis in question["places"] else slice(None)
            for axis, at in enumerate(question["at"])
        )

    def torch_receptive_field(self, question: dict[str, Any]) -> dict[str, set[int]]:
        """The positions with nonzero gradients of a position's channels, in every earlier value."""
        value = self.values[question["module"]]
        weights = 0.5 + torch.rand(value[self.element_index(question)].shape, dtype=torch.float64)
        total = (value[self.element_index(question)] * weights).sum()
        kept = [key for key in self.values if self.values[key].requires_grad]
        values = [self.values[key] for key in kept]
        gradients = torch.autograd.grad(total, values, retain_graph=True, allow_unused=True)
        return {
            key: self.positions(key, gradient)
            for key, gradient in zip(kept, gradients, strict=True)
            if gradient is not None
        }

    def torch_projective_field(self, question: dict[str, Any]) -> set[int]:
        """The positions of the output that change with a position's channels."""
        place, key = self.element_index(question), question["module"]
        by = 0.05 + 0.1 * torch.rand(self.values[key][place].shape, dtype=torch.float64)

        def changed(_module: nn.Module, _inputs: Any, value: torch.Tensor) -> torch.Tensor:
            value = value.clone()
            value[place] += by
            return value

        x = self.example.detach().clone()
        with torch.no_grad():
            before = self.model(x)  # bit for bit: unread positions change nothing
            if key == "x":
                x[place] += by
                return self.positions("output", self.model(x) - before)
            hook = self.model.get_submodule(key).register_forward_hook(changed)
            output = self.model(x)
            hook.remove()
        return self.positions("output", output - before)

    def compare(self, answers: list[dict[str, set[int]]]) -> None:
        for question, found in zip(self.questions, answers, strict=True):
            said = f"seed {self.seed}, {question}\n{self.model}"
            if question["way"] == "projective":
                reached = found.get(self.layers["output"][0], set())
                assert reached == self.torch_projective_field(question), said
                continue
            truth = self.torch_receptive_field(question)
            for key, places in truth.items():
                assert found.get(self.layers[key][0], set()) == places, f"{key}: {said}"
            assert truth, said


def compare_cases(cases: list[FieldCase]) -> None:
    questions = [{"plan": msgspec.to_builtins(one.plan), "asked": one.questions} for one in cases]
    for case, answers in zip(cases, compute_fields_in_node(questions), strict=True):
        case.compare(answers)


def random_case(seed: int) -> FieldCase:
    maker = NetworkGenerator(seed, axes=1 if seed % 4 == 3 else 2)
    return FieldCase(maker.network(), maker.x, seed)


def test_fields_are_where_gradients_are_not_zero_in_random_networks(
    pytestconfig: pytest.Config,
) -> None:
    seeds = range(400 if pytestconfig.getoption("--sweep") else 12)
    for start in range(0, len(seeds), 20):
        compare_cases([random_case(seed) for seed in seeds[start : start + 20]])


class StepBetweenConvs(nn.Module):
    """A step between convolutions, summed without a module."""

    def __init__(self, step: nn.Module) -> None:
        super().__init__()
        self.before, self.step = nn.Conv2d(2, 4, (1, 3), padding=(0, 1)), step
        self.block = nn.Sequential(nn.LazyConv2d(3, (3, 1)), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.step(self.before(x))
        return self.block(y + y.flip(3))


STEPS_BETWEEN_CONVS = {
    "nearest upsampling": nn.Upsample(scale_factor=(2, 3), mode="nearest"),
    "cubic resize": nn.Upsample(size=(13, 9), mode="bicubic"),
    "PixelShuffle": nn.Sequential(nn.Conv2d(4, 8, 1), nn.PixelShuffle(2)),
    "Pad": nn.ReflectionPad2d((3, 0, 1, 2)),
    "negative Pad": nn.ConstantPad2d((-1, 2, 0, -2), 1.0),
    "uneven pool": nn.AdaptiveAvgPool2d((5, 3)),
    "channels last": NamedFunction(
        "last", lambda x: x.permute(0, 2, 3, 1).exp().permute(0, 3, 1, 2)
    ),
    "a mean without its axis": NamedFunction("rows", lambda x: x.mean(1).roll(1, 1)[:, None] + x),
    "a row for all": NamedFunction("row", lambda x: x * x.mean(2, keepdim=True)),
    "a gate": SqueezeExcitation(4),
}


@pytest.mark.parametrize("name", STEPS_BETWEEN_CONVS)
def test_fields_go_through(name: str) -> None:
    torch.manual_seed(3)
    model, x = StepBetweenConvs(STEPS_BETWEEN_CONVS[name]), torch.rand(1, 2, 8, 7)
    model(x)
    compare_cases([FieldCase(model, x, seed) for seed in (1,)])


class ReflectGridNet(nn.Module):
    """Reflected padding, gridding by dilation, and a row next to a column."""

    def __init__(self) -> None:
        super().__init__()
        self.reflect = nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")
        self.row = nn.Conv2d(1, 1, (1, 3), padding=(0, 1))
        self.column = nn.Conv2d(1, 1, (3, 1), padding=(1, 0))
        self.grid = nn.Conv2d(1, 1, 3, dilation=3, padding=3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.reflect(x)
        return self.grid(self.row(x) + self.column(x))


def test_unions_and_gaps_are_no_boxes_and_reflected_padding_reads_no_more_than_it_reflects() -> (
    None
):
    plan = nbglcnn.compile(ReflectGridNet(), torch.rand(1, 1, 12, 12)).header
    keys = {"reflect": (0, 5), "add": (6, 6), "grid": (3, 3)}
    layers = {layer.name: layer for layer in plan.layers}
    questions = [
        {
            "key": key, "shape": layers[key].output_shape, "places": layers[key].position_axes,
            "at": [0, 0, *at], "way": "receptive",
        }
        for key, at in keys.items()
    ]  # fmt: skip
    [answers] = compute_fields_in_node([{"plan": msgspec.to_builtins(plan), "asked": questions}])
    found = dict(zip(keys, answers, strict=True))
    box = {y * 12 + x for y in (0, 1) for x in (4, 5, 6)}
    assert found["reflect"]["x"] == box
    plus = {78, 77, 79, 66, 90}
    assert found["add"]["reflect"] == plus
    assert len(found["grid"]["row"] | found["grid"]["column"]) == 9
    assert len(found["grid"]["reflect"]) == 45


def test_a_value_has_the_row_of_the_layer_that_gives_it() -> None:
    model = nn.Sequential(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()), nn.Dropout())
    plan = nbglcnn.compile(model.eval(), torch.rand(1, 1, 5, 5)).header
    rows = {value.key: value.layer for value in plan.values}
    assert [rows[key] for key in ("0.0", "0.1", "0", "1", "output")] == [0, 1, 1, 1, 1]


def damaged_plan(change: Any) -> bytes:
    plan = nbglcnn.compile(nn.Conv2d(1, 1, 3), torch.rand(1, 1, 5, 5))
    record = msgspec.to_builtins(plan.header)
    change(record)
    return nbglcnn.Plan(
        msgspec.convert(record, type(plan.header)), plan.uniforms, plan.blobs
    ).to_bytes()


@pytest.mark.parametrize(
    ("problem", "change"),
    [
        (
            "field map 0 reads along axis 2 of 0 to 1",
            lambda h: h["field_maps"][0]["windows"][1].update(axis=2),
        ),
        (
            "field map 0 has a window of 3×0",
            lambda h: h["field_maps"][0]["windows"][1].update(kernel=0),
        ),
        (
            "field map 0 reads outside",
            lambda h: h["field_maps"][0]["windows"][0].update(table=[[5]] * 3),
        ),
        (
            "field map 0 has 1 axes",
            lambda h: h["field_maps"][0].update(windows=h["field_maps"][0]["windows"][:1]),
        ),
        ("positions along axes", lambda h: h["layers"][0].update(position_axes=[4])),
        (
            "reads by field map 9 of 0 to 0",
            lambda h: h["layers"][0].update(dependencies=[[0, 1, 9]]),
        ),
    ],
)
def test_a_plan_whose_reaches_point_nowhere_is_damaged(problem: str, change: Any) -> None:
    with pytest.raises(nbglcnn.ModelError, match=problem):
        nbglcnn.Plan.from_bytes(damaged_plan(change))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_repeats_the_places_that_numpy_repeats(mode: str) -> None:
    for size, before, behind in ((5, 3, 4), (4, 0, 3), (6, 5, 0), (2, 1, 1)):
        along = AxisWindow(0, pad_begin=before, padding=mode)
        found = [place for (place,) in source_positions(size, along, before + size + behind)]
        assert found == np.pad(np.arange(size), (before, behind), mode).tolist()


def test_more_places_than_can_be_listed_count_as_every_place() -> None:
    def never() -> list[list[int]]:
        raise AssertionError("was listed")

    assert table_window(0, MAX_TABLE_LENGTH + 1, 5, never) is None
    assert table_window(0, 3, 5, lambda: [[0], [2], [4]]) == AxisWindow(0, stride=2)
