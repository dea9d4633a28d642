"""The command line, as a user types it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from command_line import run_command
from nbglcnn import Plan, Session
from nbglcnn.cli import COMMANDS
from nbglcnn.cli.arguments import PRECISIONS
from nbglcnn.plan.schema import Precision


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file with the model 2 · relu(x), of any batch size and height."""
    image = ["n", 2, "h", 3]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Mul", ["a", "two"], ["y"])],
        "double",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, image)],
        [onnx.numpy_helper.from_array(np.array(2, np.float32), "two")],
    )
    file = tmp_path / "double.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), file)
    return file


def test_compile_writes_a_plan_of_the_outputs(model: Path) -> None:
    run = run_command("compile", model, "--shape", "1x2x5x3")
    assert run.returncode == 0, run.stderr
    plan = Plan.load(model.with_suffix(".plan"))
    assert [value.key for value in plan.values] == ["y"]
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 3)).astype(np.float32)
    with Session(plan) as session:
        np.testing.assert_allclose(session.run(x)["y"], np.maximum(x, 0) * 2)


def test_compile_keeps_what_is_asked_for(model: Path, tmp_path: Path) -> None:
    for observe, keys in (("all", ["x", "a", "y"]), ("a", ["a", "y"])):
        file = tmp_path / "kept.plan"
        run = run_command("compile", model, "-o", file, "--observe", observe, "--shape", "1x2x5x3")
        assert run.returncode == 0, run.stderr
        assert [value.key for value in Plan.load(file).values] == keys


def test_compile_stores_in_half_where_that_is_asked_for(model: Path) -> None:
    run = run_command("compile", model, "--shape", "1x2x5x3", "--precision", "float16")
    assert run.returncode == 0, run.stderr
    assert "MB on the GPU, float16" in run.stdout
    assert Plan.load(model.with_suffix(".plan")).precision == "float16"
    assert "float16" in run_command("compile", model, "--precision", "half").stderr


def test_what_cannot_be_is_one_line_and_a_status(model: Path, tmp_path: Path) -> None:
    for arguments, words in (
        (("compile", tmp_path / "none.onnx"), "none.onnx"),
        (("compile", model), "x"),
        (("compile", model, "--shape", "1x2x5x3", "--observe", "b"), "is not a layer"),
    ):
        run = run_command(*arguments)
        assert run.returncode == 1
        assert run.stderr.startswith("nbglcnn: ")
        assert words in run.stderr
        assert "Traceback" not in run.stderr
    assert run_command("compile", model, "--shape", "1x-2").returncode == 2


def test_what_cannot_be_written_is_said_with_the_reason(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "x.plan"
    run = run_command("compile", model, "--shape", "1x2x5x3", "-o", file)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"nbglcnn: cannot write {file}: No such file or directory\n"


def test_check_prints_a_table(model: Path) -> None:
    run = run_command("check", model, "--shape", "1x2x5x3")
    assert run.returncode == 0
    assert "2 of 2 layers can run" in run.stdout


def test_shapes_are_of_inputs_of_any_type_and_of_single_numbers(tmp_path: Path) -> None:
    """Token numbers that index a table, and a rate that is a scalar."""
    kinds = {"tokens": (TensorProto.INT64, ["n"]), "rate": (TensorProto.FLOAT, [])}
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "tokens"], ["rows"]),
            helper.make_node("Mul", ["rows", "rate"], ["y"]),
        ],
        "tokens",
        [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("table", TensorProto.FLOAT, (3, 2), range(6))],
    )
    file = tmp_path / "tokens.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), file)
    run = run_command("compile", file, "--shape", "4", "--shape", "scalar")
    assert run.returncode == 0, run.stderr
    with Session(Plan.load(file.with_suffix(".plan"))) as session:
        tokens = np.array([2, 0, 1, 2])
        found = session.run({"tokens": tokens, "rate": np.float32(3)})["y"]
    np.testing.assert_allclose(found, np.arange(6).reshape(3, 2)[tokens] * 3)
    run = run_command("check", file, "--shape", "4")
    assert run.stderr == (
        "nbglcnn: the model has 2 inputs ('tokens', 'rate'): give a shape for each; 1 were given\n"
    )


def test_a_shape_of_any_size_is_answered_in_a_line(model: Path) -> None:
    run = run_command("check", model, "--shape", "99999x2x640x640")
    assert run.returncode == 1
    assert "needs 327,676,723,200 bytes" in run.stderr
    assert "Traceback" not in run.stderr
    for wrong in ("", "1x-2", "0x3", "axb"):
        run = run_command("check", model, "--shape", wrong)
        assert run.returncode == 2
        assert 'is not a shape: write sizes like 1x3x224x224, or "scalar"' in run.stderr


def test_what_lacks_a_shape_is_told_in_the_command_lines_words(model: Path) -> None:
    run = run_command("check", model)
    assert run.stderr == (
        "nbglcnn: the input 'x' has no fixed shape: (n, 2, h, 3). "
        "Give it with --shape, as in --shape 1x3x224x224\n"
    )
    run = run_command("check", model, "--shape", "4", "--shape", "4")
    assert run.stderr.startswith("nbglcnn: the model has 1 input ('x'): ")


def test_a_terminal_without_the_letters_gets_others(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["größe×"]),
        helper.make_node("Neg", ["größe×"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    file = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), file)
    run = run_command("check", file, LC_ALL="POSIX", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert run.returncode == 0, run.stderr
    assert "gr??e?  ReLU" in run.stdout


def test_each_command_has_help_with_examples() -> None:
    whole = run_command("--help").stdout
    for name in COMMANDS:
        run = run_command(name, "--help")
        assert (run.returncode, run.stderr) == (0, "")
        assert name in whole
        assert run.stdout.count(f"nbglcnn {name} ") >= 3  # the usage, and two examples
    assert run_command().returncode == run_command("train", "model.onnx").returncode == 2


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from nbglcnn.cli import build_parser; build_parser(); print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = set(run.stdout.split())
    assert "nbglcnn.cli.serve" in loaded
    assert not loaded & {"torch", "onnx", "numpy", "msgspec", "moderngl", "anywidget", "tqdm"}


def test_the_command_is_installed_under_its_name() -> None:
    command = Path(sys.executable).with_name("nbglcnn")
    run = subprocess.run([command, "--version"], capture_output=True, text=True)
    assert run.stdout == run_command("--version").stdout != ""


def test_the_precisions_are_the_plans() -> None:
    assert get_args(Precision) == PRECISIONS


def test_check_and_summary_give_json(model: Path) -> None:
    shape = ("--shape", "1x2x5x3", "--json")
    checked = json.loads(run_command("check", model, *shape).stdout)
    assert checked["ok"] is True
    assert [(row["layer"], row["operator"]) for row in checked["layers"]] == [
        ("a", "ReLU"),
        ("y", "Mul"),
    ]
    summary = json.loads(run_command("summary", model, *shape).stdout)
    assert [row["output_shape"] for row in summary["layers"]] == [[1, 2, 5, 3]] * 2
    assert (summary["name"], summary["parameters"]) == ("double", 1)


def test_what_reads_the_output_may_end_before_it(model: Path) -> None:
    command = f"{sys.executable} -m nbglcnn summary {model} --shape 1x2x5x3 | true"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in run.stderr and "Exception" not in run.stderr
