"""The fuzzer: a short run (`make fuzz` is the long one), and a check that it detects faults."""

from pathlib import Path

import pytest

import fuzz
from fuzz_models import seed_models


def test_no_damaged_model_crashes_hangs_or_raises_what_is_not_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--bytes", "800", "--structure", "800", "--seed", "1", "--processes", "1"]
    code = fuzz.main([*arguments, "--folder", str(tmp_path)])
    said = capsys.readouterr().out
    assert code == 0, said
    assert not list(tmp_path.iterdir())
    whole = next(line for line in said.splitlines() if line.startswith("all")).split()
    cases, accepted, refused, findings = (int(n.replace(",", "")) for n in whole[1:])
    assert (cases, findings) == (1600, 0)
    # The compiler both accepts and refuses.
    assert accepted > 100 and refused > 100


@pytest.mark.parametrize(
    ("fault", "words", "again"),
    [
        ("raise_foreign_error", "KeyError: 'not ours'", True),
        ("crash_process", "the process ended with -11", False),
        ("hang", "no answer in 2 s", False),
        ("exceed_cpu_time", "took ", True),
        ("exceed_memory", "MemoryError", False),
    ],
)
def test_a_fault_is_found_saved_and_can_be_replayed(
    fault: str, words: str, again: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = [
        "--target",
        f"fuzz_targets:{fault}",
        *(["--seconds", "0.1"] if fault == "exceed_cpu_time" else []),
    ]
    arguments = ["--bytes", "0", "--structure", "2", "--seed", "5", "--folder", str(tmp_path)]
    silence = ["--silence", "2" if fault == "hang" else "60"]
    assert fuzz.main([*arguments, *target, *silence]) == 1
    said = capsys.readouterr().out
    assert words in said
    for number in (0, 1):
        saved = tmp_path / f"structure-5-{number}.onnx"
        assert saved.read_bytes() == fuzz.make_case("structure", 5, number)[1]
        assert f"--replay {saved}" in said
        assert words in saved.with_suffix(".txt").read_text()
    if again:
        assert fuzz.main(["--replay", str(saved), *target]) == 1


def test_cases_are_made_from_seed_and_number_alone() -> None:
    for kind in fuzz.MUTATORS:
        first, second = ([fuzz.make_case(kind, seed, n) for n in range(50)] for seed in (1, 2))
        assert first == [fuzz.make_case(kind, 1, n) for n in range(50)]
        assert sum(a != b for a, b in zip(first, second, strict=True)) > 40
        whole = dict(seed_models())
        assert sum(data != whole[name] for name, data in first) > 40


def test_the_models_that_are_damaged_compile_as_they_are() -> None:
    for _, data in seed_models():
        assert fuzz.compile_and_check(data) == "accepted"
