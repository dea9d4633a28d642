"""Results that Python and the page compute in separate code, on the same cases."""

import json
import math
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from torch import nn

import nbglcnn
from bundle import search_path_with_node
from nbglcnn.errors import InputError
from nbglcnn.features.edits.edit_stacks import build_edit_stacks
from nbglcnn.features.edits.records import Edit, validate_number
from nbglcnn.features.edits.skipped_passes import find_skipped_passes
from nbglcnn.features.edits.transforms import INJECT, TRANSFORM_KINDS
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.schema import Header
from nbglcnn.plan.sections import required_sections
from recurrent import cross_section_graph, leaky_integrator, with_delay_state

PAGE_SCRIPT = Path(__file__).parents[2] / "js" / "test" / "edit_parity.ts"
NUMBER_TEXTS = (
    *("-181", "-180", "-1", "-0.5", "0", "0.05", "0.1", "0.5", "1", "2.5", "8", "16", "16.01"),
    *("32", "33", "180", "16777215", "16777216", "nan", "Infinity", "-Infinity", "", "x"),
)
CASE_COUNT = 200


class SkipConnectionNet(nn.Module):
    """Two levels: the first level's output is added to the second's."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))

    def forward(self, x: Any) -> Any:
        first = self.first(x).relu()
        return self.last(self.second(first).relu().flatten(2).unflatten(2, (4, 4)) + first)


def plan_headers() -> list[Header]:
    x = np.zeros((2, 3, 4, 4), np.float32)
    networks = [
        nbglcnn.compile(SkipConnectionNet().eval(), x),
        nbglcnn.compile(SkipConnectionNet().eval(), x, observe=["second", "last"]),
        lower(leaky_integrator()),
        lower(with_delay_state(leaky_integrator())),
        lower(cross_section_graph()),
    ]
    return [one.header for one in networks]


def random_edits(header: Header, random: Random) -> list[Edit]:
    """Random edits, on or off, of some channels; an injected array makes passes skippable."""
    keys = [value.key for value in header.values if value.edit_pass != -2]
    found = []
    for number in range(random.randrange(1, 5)):
        array = random.choice(("", "", "0" * 32))
        one = Edit(
            layer=random.choice(keys),
            name=f"edit {number}",
            transform=INJECT if array else "invert",
            channels=random.choice((None, None, (0,), ())),
            mix=random.choice((1.0, 0.5, 0.0)),
            enabled=random.random() < 0.8,
            array_hash=array,
            skips_upstream=array != "" and random.random() < 0.7,
        )
        found.append(one)
    return found


@pytest.fixture(scope="module")
def random_cases() -> tuple[list[Header], list[tuple[int, list[Edit]]]]:
    random, found = Random(40), plan_headers()
    numbers = [random.randrange(len(found)) for _ in range(CASE_COUNT)]
    return found, [(number, random_edits(found[number], random)) for number in numbers]


@pytest.fixture(scope="module")
def page_results(random_cases: tuple[list[Header], list[tuple[int, list[Edit]]]]) -> dict[str, Any]:
    """The results of the TypeScript code for the random cases."""
    headers, schedules = random_cases
    given = {
        "plans": headers,
        "schedules": [{"plan": plan, "edits": edits} for plan, edits in schedules],
        "numbers": NUMBER_TEXTS,
    }
    node = shutil.which("node", path=search_path_with_node())
    assert node is not None
    done = subprocess.run(
        [node, str(PAGE_SCRIPT)], input=msgspec.json.encode(given), capture_output=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_edits_run_in_the_same_order_and_spare_the_same_passes(random_cases, page_results) -> None:
    headers, schedules = random_cases
    spared = 0
    for (plan, edits), found in zip(schedules, page_results["schedules"], strict=True):
        header = headers[plan]
        stacks = [
            [one.value_index, [edit.name for edit in one.edits]]
            for one in build_edit_stacks(header, edits)
        ]
        left_out = find_skipped_passes(header, edits)
        assert found["stacks"] == stacks, edits
        assert found["passes"] == sorted(left_out.pass_indices), edits
        assert found["values"] == sorted(left_out.value_indices), edits
        spared += bool(left_out.pass_indices)
    assert CASE_COUNT / 10 < spared < CASE_COUNT


def test_a_section_follows_from_the_same_others(random_cases, page_results) -> None:
    headers, _ = random_cases
    found = [[required_sections(one, k) for k in range(len(one.sections))] for one in headers]
    assert page_results["sections"] == found
    assert any(len(one) > 1 for each in found for one in each)


def test_a_parameter_takes_the_same_numbers(page_results) -> None:
    """The page parses typed text, with decimal comma and units; Python takes numbers."""

    def is_taken(text: str, parameter: Any) -> bool:
        try:
            return math.isfinite(validate_number("", text, parameter))
        except InputError:
            return False

    found = [
        [name, one.name, [is_taken(number, one) for number in NUMBER_TEXTS]]
        for name, kind in TRANSFORM_KINDS.items()
        for one in kind.parameters
    ]
    assert page_results["numbers"] == found
    assert all(any(taken) and not all(taken) for _, _, taken in found)
