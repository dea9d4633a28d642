"""The faults that `make mutants` inserts into the code, and its verdicts."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

import mutants
from mutant_checkout import Outcome, parse_test_durations, pytest_commands
from mutants import Fault, fault_problem, judge_faults, load_faults

FAULTS = load_faults()


@pytest.mark.parametrize("area", sorted({fault.area for fault in FAULTS}))
def test_each_fault_fits_todays_code_once_and_names_tests_that_exist(area: str) -> None:
    problems = {
        fault.description: found
        for fault in FAULTS
        if fault.area == area and (found := fault_problem(fault)) is not None
    }
    assert not problems, f"tests/mutants/{area}.toml: mend these entries, or drop what is gone"


def test_there_are_faults_enough_in_each_language_and_no_two_are_one() -> None:
    languages = Counter(fault.language for fault in FAULTS)
    assert len(FAULTS) >= 60, languages
    assert min(languages[name] for name in ("Python", "GLSL", "TypeScript")) >= 10, languages
    assert not [f for f, n in Counter((f.file, f.old, f.new) for f in FAULTS).items() if n > 1]


@pytest.fixture
def sample_checkout(tmp_path: Path) -> Path:
    """A checkout with two functions; a test detects a changed sign, none a changed bound."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "counted.py").write_text(
        "def signed(x):\n    return -x\n\n\ndef bounded(x):\n    return min(x, 9)\n"
    )
    (tmp_path / "test_counted.py").write_text(
        "from counted import bounded, signed\n\n\n"
        "def test_sign():\n    assert signed(3) == -3\n\n\n"
        "def test_bound():\n    assert bounded(3) == 3\n"
    )
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def make_fault(description: str, old: str, new: str, *tests: str) -> Fault:
    return Fault("area", description, "src/counted.py", old, new, tests)


INFINITE_LOOP = make_fault(
    "no end", "return min(x, 9)", "while True:\n        pass", "test_counted.py::test_bound"
)
WRONG_SIGN = make_fault("wrong sign", "return -x", "return +x", "test_counted.py::test_sign")
WRONG_BOUND = make_fault("no bound", "min(x, 9)", "max(x, 0)", "test_counted.py::test_bound")


def test_a_fault_is_killed_by_the_test_that_fails_and_survives_where_none_does(
    sample_checkout: Path,
) -> None:
    said: list[str] = []
    assert not judge_faults(sample_checkout, [WRONG_SIGN, WRONG_BOUND], 1, said.append)
    [killed] = [line for line in said if line.startswith("2/2 killed")]
    assert "wrong sign (test_counted.py::test_sign)" in killed
    assert said[-1].startswith("\n1 of 2 faults were noticed (2 Python)")
    survivors = [line for line in said if line.startswith("\nSURVIVED")]
    assert survivors == [
        "\nSURVIVED area: no bound\n  src/counted.py\n  - min(x, 9)\n"
        "  + max(x, 0)\n  test_counted.py::test_bound"
    ]
    assert "return -x" in (sample_checkout / "src" / "counted.py").read_text()


def test_a_fault_that_keeps_tests_from_ending_is_noticed_and_counted_apart(
    sample_checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "TIME_FACTOR", 0)
    monkeypatch.setattr(mutants, "MIN_SECONDS", 3)
    said: list[str] = []
    assert judge_faults(sample_checkout, [INFINITE_LOOP], 1, said.append)
    assert "\nlate area: no end\n  not ended within 3 s" in said
    titles, area, both = (line.split() for line in said[-2].split("\n")[1:])
    assert titles == ["area", "faults", "killed", "survived", "timeouts", "broken", "minutes"]
    assert area[:6] == ["area", "1", "0", "0", "1", "0"] and both[:6] == ["all", *area[1:6]]
    assert said[-1].startswith("\n1 of 1 faults were noticed")


def test_what_tests_need_is_read_from_their_durations() -> None:
    said = (
        "..\n===== slowest durations =====\n4.00s setup    t.py::a\n1.50s call     t.py::b[x y]\n"
        "0.50s call     t.py::a\n(3 durations < 0.005s hidden.)\n2 passed in 6.20s\n"
    )
    tests = ["t.py::a", "t.py::b", "t.py -k b"]
    found = parse_test_durations(tests, Outcome("passed", "", said, 8))
    # Plus two seconds for pytest's start, and four for the first test's fixtures.
    assert found == {"t.py::a": 6.5, "t.py::b": 7.5, "t.py -k b": 8}


def test_what_cannot_be_put_in_or_run_is_no_kill(sample_checkout: Path) -> None:
    said: list[str] = []
    broken = make_fault("no Python", "return -x", "return -", "test_counted.py::test_sign")
    missing = make_fault("not there", "return 1", "return 2", "test_counted.py::test_sign")
    assert not judge_faults(sample_checkout, [broken, missing], 1, said.append)
    assert "0 of 2 faults were noticed" in said[-2]
    assert said[-1] == "2 could not be put in or run: mend their entries"
    (sample_checkout / "test_counted.py").write_text("def test_sign():\n    assert 0\n")
    assert not judge_faults(sample_checkout, [WRONG_SIGN], 1, said.append)
    assert "fails without any fault: test_counted.py::test_sign" in said
    assert said[-1] == "1 could not be put in or run: mend their entries"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"file": "src/gone.py"}, "there is no src/gone.py"),
        ({"old": "x"}, "has its old text"),
        ({"new": "return -x"}, "it changes nothing"),
        ({"tests": ()}, "it names no tests"),
        ({"tests": ("test_gone.py::test_sign",)}, "there is no test_gone.py"),
        ({"tests": ("test_counted.py::test_gone",)}, "test_counted.py has no test_gone"),
    ],
)
def test_an_entry_that_no_longer_fits_is_found(
    sample_checkout: Path, change: dict[str, object], reason: str
) -> None:
    assert fault_problem(WRONG_SIGN, sample_checkout) is None
    fields = {name: getattr(WRONG_SIGN, name) for name in WRONG_SIGN.__slots__}
    assert reason in (fault_problem(Fault(**{**fields, **change}), sample_checkout) or "")


def test_tests_of_a_fault_are_run_in_their_order_by_the_fewest_commands() -> None:
    asked = ("a.py::one", "a.py::two[x y]", "js/test/b.test.ts", "c.py -k this or that")
    first, second, third = pytest_commands(asked)
    assert first[-2:] == ["a.py::one", "a.py::two[x y]"] and first[:2] == ["pytest", "-x"]
    assert second == ["node", "--test", "js/test/b.test.ts"]
    assert third[-3:] == ["c.py", "-k", "this or that"]
