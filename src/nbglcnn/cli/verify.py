"""`nbglcnn verify`: compare every layer with ONNX Runtime, or for a torch module with PyTorch."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from nbglcnn.cli import arguments

HELP = "compare every layer with ONNX Runtime, or with PyTorch"
EXAMPLES = """examples:
  nbglcnn verify model.onnx
  nbglcnn verify model.onnx cat.jpg --resize
  nbglcnn verify net.py:make_model --shape 1x3x224x224 --precision float16

The exit status is 1 if a layer differs by more than rounding."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    arguments.add_model(parser)
    arguments.add_preprocess(parser)
    arguments.add_images(parser, count="*")
    arguments.add_precision(parser)
    arguments.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print a row for each layer, and a verdict."""
    from tqdm import tqdm

    from nbglcnn.api import compile, verify
    from nbglcnn.cli import console, inputs, models
    from nbglcnn.reference import engine_name
    from nbglcnn.runtime.session import Session

    model = models.find_model(options.model, options.preprocess)
    x = inputs.load_example(model, options.images, options.shape, resize=options.resize)
    parts = inputs.split_batches(model, x)
    if not model.is_from_python and not engine_name(model.wrapped_model).startswith("ONNX Runtime"):
        console.print_note(
            "ONNX Runtime is not installed (pip install onnxruntime); "
            f"{engine_name(model.wrapped_model)} is used instead, which takes longer"
        )
    with console.show_progress("compiling"):
        plan = compile(model.wrapped_model, parts[0], precision=options.precision)
    with Session(plan) as session:
        bar = tqdm(parts, unit="batch", leave=False, delay=1, disable=None)
        reports = [verify(session, model.wrapped_model, part) for part in bar]
    ok = all(report.ok for report in reports)
    if options.json:
        found = [_report_dict(report) for report in reports]
        console.print_json({"ok": ok, "reports": found})
    else:
        for number, report in enumerate(reports, 1):
            if len(reports) > 1:
                print(f"batch {number} of {len(reports)}")
            print(report)
    return 0 if ok else 1


def _report_dict(report: Any) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "summary": report.summary,
        "first_diverging": report.first_diverging,
        "layers": [asdict(row) for row in report.rows],
    }
