"""The constraints of a Plan, checked by Python and by the page."""

import copy
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from bundle import search_path_with_node
from damaged_plans import DAMAGES, damaged_plan
from display_kind_models import ViT
from header_mutations import header_paths, mutate_header
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.constraints import CONSTRAINTS, index_header
from nbglcnn.plan.file_checks import first_problem
from nbglcnn.plan.schema import Header
from python_to_typescript import TypeScriptTranslator
from recurrent import leaky_integrator, with_delay_state

JS_FOLDER = Path(__file__).parents[2] / "js"
CASE_COUNT = 600


def plan_header(model: nn.Module, *shape: int, **options: Any) -> Any:
    plan = nbglcnn.compile(model.eval(), np.zeros(shape, np.float32), **options)
    return json.loads(msgspec.json.encode(plan.header))


@pytest.fixture(scope="module")
def full_headers() -> list[Any]:
    """Headers that use all that a header can hold."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    plain = plan_header(nn.Sequential(*layers, nn.Linear(4, 5)), 1, 3, 4, 4)
    shuffled = plan_header(nn.Sequential(nn.PixelShuffle(2), nn.Conv2d(1, 2, 3)), 2, 4, 3, 3)
    states = json.loads(msgspec.json.encode(lower(with_delay_state(leaky_integrator())).header))
    tokens = plan_header(ViT(), 1, 3, 16, 16, observe="outputs")
    outside = json.loads(json.dumps(plain))
    outside["layers"][0]["python"] = "no operator of that name"
    outside["inputs"].append({**outside["inputs"][0], "key": "p", "layer": 0, "fit": ""})
    compared = json.loads(json.dumps(plain))
    key = next(one["key"] for one in compared["values"] if len(one["shape"]) == 2)
    pair = {"name": "0", "a": "0", "b": "0", "difference": "0", "row": 0}
    compared["comparison"] |= {"pairs": [pair], "table": key}
    found = [plain, shuffled, states, tokens, outside, compared]
    for one in found:
        one["programs"] = [{**program, "source": ""} for program in one["programs"]]
        assert first_problem(msgspec.convert(one, Header)) is None
    return found


def mutated_headers(originals: Sequence[Any]) -> list[bytes]:
    """Randomly mutated headers that still decode as headers."""
    random = Random(40)
    known = [(one, header_paths(one)) for one in originals]
    found = []
    while len(found) < CASE_COUNT:
        data = json.dumps(mutate_header(*random.choice(known), random), ensure_ascii=False).encode()
        try:
            msgspec.json.decode(data, type=Header)
        except msgspec.ValidationError:
            continue
        found.append(data)
    return found


# Changes to a layer's reads and moves, for a pixel shuffle.
DEPENDENT_FIELD_CHANGES: dict[str, Callable[[Any], Any]] = {
    ", by field map": lambda layer: layer.update(dependencies=[[7, 1, 0]]),
    "several sizes": lambda layer: layer.update(dependencies=[[0, 1, 0], [0, 1, 1]]),
    "that are not there": lambda layer: layer["operands"][0]["index_maps"][0].update(offset=-1),
    "from outside of a value": lambda layer: layer["operands"][0]["index_maps"][0].update(
        offset=99
    ),
}


def dependent_headers(whole: Sequence[Any]) -> Iterator[bytes]:
    for change in DEPENDENT_FIELD_CHANGES.values():
        header = copy.deepcopy(whole[1])
        change(header["layers"][0])
        first = header["field_maps"][0]
        larger = [2 * size for size in first["input_sizes"]]
        header["field_maps"].insert(1, {**first, "input_sizes": larger})
        yield json.dumps(header).encode()


def first_broken_row(header: Header) -> int | None:
    """The number of the first row that does not hold."""
    facts = index_header(header)
    for number, row in enumerate(CONSTRAINTS):
        for records in row.records:
            every = enumerate(records.select(header))
            if not all(row.holds(facts, k, one) for k, one in every):  # type: ignore[arg-type]
                return number
    return None


def test_the_page_says_of_each_damaged_header_what_python_says(full_headers: list[Any]) -> None:
    node = shutil.which("node", path=search_path_with_node())
    assert node is not None
    cases = [
        *mutated_headers(full_headers),
        *dependent_headers(full_headers),
        *(msgspec.json.encode(damaged_plan(one).header) for one in DAMAGES),
    ]
    done = subprocess.run(
        [node, str(JS_FOLDER / "test" / "plan_problems.ts")],
        input=b"\n".join(cases),
        capture_output=True,
        check=True,
    )
    in_page = [json.loads(line) for line in done.stdout.splitlines()]
    headers = [msgspec.json.decode(one, type=Header) for one in cases]
    in_python = [first_problem(one) for one in headers]
    assert in_page == in_python
    assert 0.2 < sum(one is None for one in in_python) / CASE_COUNT < 0.8
    # Most constraint rows, and each check of dependencies, have rejected a header.
    rows = {first_broken_row(one) for one in headers}
    assert len(rows) > 0.7 * len(CONSTRAINTS), set(range(len(CONSTRAINTS))) - rows
    said = " ".join(filter(None, in_python))
    for words in (
        *DEPENDENT_FIELD_CHANGES,
        "before it is written",
        "is a view of value",
        "of another texture",
    ):
        assert words in said, words


@pytest.mark.parametrize(
    "source",
    [
        "f = lambda h: h[1:2]",
        "f = lambda h: open(h)",
        "def f(h: int) -> int:\n    h += 1\n    return h",
    ],
)
def test_python_that_has_no_translation_is_refused(source: str) -> None:
    with pytest.raises(NotImplementedError):
        TypeScriptTranslator(source, {}, excluded=[], exported=[]).translate_module()
