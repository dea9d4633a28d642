"""`nbglcnn compile`: write a Plan file, which any page can run."""

from __future__ import annotations

import argparse
from pathlib import Path

from nbglcnn.cli import arguments

HELP = "compile the model to a .plan file for the browser runtime"
EXAMPLES = """examples:
  nbglcnn compile model.onnx
  nbglcnn compile model.onnx -o small.plan --precision float16
  nbglcnn compile net.py:make_model --shape 1x3x224x224 --observe encoder.0,encoder.2"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    arguments.add_model(parser)
    arguments.add_preprocess(parser)
    arguments.add_images(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="default: the model's name with .plan"
    )
    parser.add_argument(
        "--observe",
        default="outputs",
        metavar="all",
        help="values that can be read: outputs (default, fastest), all, or layer names separated "
        "by commas",
    )
    arguments.add_precision(parser)


def run(options: argparse.Namespace) -> int:
    """Write the Plan and print a summary of it."""
    from nbglcnn.api import compile
    from nbglcnn.cli import console, inputs, models

    model = models.find_model(options.model, options.preprocess)
    x = inputs.load_example(model, options.images, options.shape, resize=options.resize)
    observe = (
        options.observe if options.observe in ("all", "outputs") else options.observe.split(",")
    )
    with console.show_progress("compiling"):
        plan = compile(
            model.wrapped_model,
            inputs.select_batch_to_compile(model, x),
            observe=observe,
            precision=options.precision,
        )
    output = options.output or model.output_path(".plan")
    with console.convert_write_errors(output):
        plan.save(output)
    print(f"{output}: {plan!r}, {Path(output).stat().st_size:,} bytes")
    return 0
