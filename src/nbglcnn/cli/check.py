"""`nbglcnn check`: which layers can run, and why the others can't."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from nbglcnn.cli import arguments

HELP = "list which layers can run"
EXAMPLES = """examples:
  nbglcnn check model.onnx
  nbglcnn check model.onnx --shape 1x3x224x224 --json
  nbglcnn check net.py:make_model --input cat.jpg

The exit status is 1 if a layer cannot run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    arguments.add_model(parser)
    arguments.add_preprocess(parser)
    arguments.add_images(parser)
    arguments.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print a row for each layer."""
    from nbglcnn.api import check
    from nbglcnn.cli import console, inputs, models

    model = models.find_model(options.model, options.preprocess)
    x = inputs.load_example(model, options.images, options.shape, resize=options.resize)
    with console.show_progress("checking"):
        report = check(model.wrapped_model, inputs.select_batch_to_compile(model, x))
    if options.json:
        rows = [asdict(row) for row in report.rows]
        console.print_json({"ok": report.ok, "summary": report.summary, "layers": rows})
    else:
        print(report)
    return 0 if report.ok else 1
