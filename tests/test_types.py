"""The TypeScript records are those of Python."""

from pathlib import Path

import pytest

import generate_types

SOURCES = Path(__file__).parents[1] / "js" / "src"


@pytest.mark.parametrize(
    "name, text", [("plan.ts", generate_types.types), ("messages.ts", generate_types.messages)]
)
def test_generated_types_are_up_to_date(name: str, text: object) -> None:
    assert callable(text)
    written = (SOURCES / name).read_text("utf-8")
    assert written == text(), f"{name} is out of date: run `python scripts/generate_types.py`"
