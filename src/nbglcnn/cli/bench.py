"""`nbglcnn bench`: milliseconds per run, compared with ONNX Runtime or PyTorch on the CPU."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nbglcnn.cli import arguments

if TYPE_CHECKING:
    from nbglcnn.cli.models import ModelArgument
    from nbglcnn.graph import Array
    from nbglcnn.runtime.session import Session

HELP = "measure the milliseconds of a run on this machine's OpenGL"
EXAMPLES = """examples:
  nbglcnn bench model.onnx
  nbglcnn bench net.py:make_model --shape 1x3x224x224 --runs 50 --json

A run uploads the inputs, computes, and reads the outputs. "fused" keeps only the outputs,
"kept" every layer's values, as the Viewer does. ONNX Runtime (for a torch module: PyTorch)
runs on the CPU with all threads."""
WARM_UP_RUNS = 3
TIME_LIMIT_S = 30.0  # after this time no further round starts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    arguments.add_model(parser)
    arguments.add_preprocess(parser)
    arguments.add_images(parser)
    parser.add_argument(
        "--runs", type=arguments.parse_count, default=20, metavar="N", help="of each; default: 20"
    )
    arguments.add_precision(parser)
    arguments.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the median times."""
    from nbglcnn.cli import console, inputs, models
    from nbglcnn.load import PreprocessedModel, load, strip_preprocess
    from nbglcnn.lowering.lower import lower
    from nbglcnn.runtime.session import Session
    from nbglcnn.tables import table

    model = models.find_model(options.model, options.preprocess)
    x = inputs.load_example(model, options.images, options.shape, resize=options.resize)
    x = inputs.split_batches(model, x)[0]
    with console.show_progress("compiling"):
        graph, arrays = load(model.wrapped_model, x)
        fused, kept = (
            lower(graph, observe=observe, precision=options.precision)
            for observe in ("outputs", "all")
        )
    # The other engine runs the model alone, on the preprocessed input.
    own = strip_preprocess(graph)
    prepared = model.wrapped_model if isinstance(model.wrapped_model, PreprocessedModel) else None
    taken = arrays if prepared is None else prepared.raw_inputs(x).preprocessed
    count = len(own.inputs) - len(graph.noise_defaults)  # the framework draws the noise itself
    other, engine, missing = _make_reference_run(model, own.inputs[:count], taken[:count])
    if missing:
        console.print_note(missing)
    with Session(fused) as fused_session, Session(kept) as kept_session:
        works: dict[str, Callable[[], object]] = {
            "fused": lambda: _run_session(fused_session, arrays),
            "kept": lambda: _run_session(kept_session, arrays),
        }
        if other is not None:
            works["other"] = other
        ms = measure_medians(works, options.runs)
        renderer = fused_session.renderer
    if options.json:
        console.print_json(
            {
                "renderer": renderer,
                "precision": fused.precision,
                "fused_ms": ms["fused"],
                "kept_ms": ms["kept"],
                "engine": engine or None,
                "engine_ms": ms.get("other"),
                "runs": options.runs,
            }
        )
        return 0
    names = {
        "fused": f"fused, on {renderer}",
        "kept": f"kept, on {renderer}",
        "other": f"{engine}, on the CPU",
    }
    rows = [(names[name], f"{value:.2f}") for name, value in ms.items()]
    print(table(("what", "median ms"), rows, number_columns=(1,)))
    return 0


def measure_medians(
    functions: Mapping[str, Callable[[], object]], run_count: int
) -> dict[str, float]:
    """Return the median milliseconds of each, interleaved so that other load affects all alike."""
    from tqdm import tqdm

    calls: dict[str, list[float]] = {name: [] for name in functions}
    begun = time.perf_counter()
    for turn in tqdm(
        range(WARM_UP_RUNS + run_count), unit="run", leave=False, delay=1, disable=None
    ):
        for name, work in functions.items():
            start = time.perf_counter()
            work()
            calls[name].append((time.perf_counter() - start) * 1000)
        if turn >= WARM_UP_RUNS and time.perf_counter() - begun > TIME_LIMIT_S:
            break
    return {name: statistics.median(ms[WARM_UP_RUNS:]) for name, ms in calls.items()}


def _run_session(session: Session, inputs: tuple[Array, ...]) -> None:
    for record, array in zip(session.plan.inputs, inputs, strict=True):
        session.write(record.key, array)
    session.run(read=session.plan.header.outputs)


def _make_reference_run(
    model: ModelArgument, input_names: tuple[str, ...], arrays: tuple[Array, ...]
) -> tuple[Callable[[], object] | None, str, str]:
    """Return a run by the model's own framework, its name, and a note if it is unavailable.

    `input_names` are the Graph's inputs.
    """
    from nbglcnn.reference import engine_name

    if model.is_from_python:
        return _make_torch_run(model.user_model, arrays), engine_name(model.user_model), ""
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        return None, "", "ONNX Runtime is not installed (pip install onnxruntime): not measured"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.user_model, options, providers=["CPUExecutionProvider"]
        )
        given = dict(zip(input_names, arrays, strict=True))
        session.run(None, given)
    except Exception as error:  # such as an operator set newer than the runtime's, or a type
        words = str(error).strip().splitlines()[0]
        return None, "", f"ONNX Runtime cannot run this model, so it is not measured: {words}"
    return lambda: session.run(None, given), engine_name(model.user_model), ""


def _make_torch_run(module: Any, arrays: tuple[Array, ...]) -> Callable[[], object]:
    import torch

    tensors = [torch.from_numpy(array.copy()) for array in arrays]

    def run() -> object:
        with torch.inference_mode():
            return module(*tensors)

    return run
