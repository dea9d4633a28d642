"""`nbglcnn html`: write the network in its Viewer as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from nbglcnn.cli import arguments

HELP = "write an HTML page that runs the network without Python or a server"
EXAMPLES = """examples:
  nbglcnn html model.onnx
  nbglcnn html model.onnx -o lesson.html --input cat.jpg dog.jpg --title "What a CNN sees"
  nbglcnn html net.py:make_model --shape 1x3x224x224 --text lesson.md --precision float16"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    arguments.add_model(parser)
    arguments.add_preprocess(parser)
    arguments.add_images(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="default: the model's name with .html"
    )
    parser.add_argument("--title", help="the page's title and heading; default: the model's name")
    parser.add_argument(
        "--text", metavar="FILE.md", help="Markdown file (UTF-8) to show above the network"
    )
    arguments.add_precision(parser)


def run(options: argparse.Namespace) -> int:
    """Write the page and print its size."""
    from nbglcnn.cli import console, inputs, models
    from nbglcnn.features.export.export import export_html

    text = _read_text(options.text) if options.text else ""
    model = models.find_model(options.model, options.preprocess)
    x = inputs.load_example(model, options.images, options.shape, resize=options.resize)
    output = options.output or model.output_path(".html")
    with console.show_progress("writing the page"), console.convert_write_errors(output):
        export_html(
            model.wrapped_model,
            x,
            output,
            title=options.title,
            text=text,
            precision=options.precision,
        )
    print(f"{output}: {Path(output).stat().st_size:,} bytes")
    return 0


def _read_text(file: str) -> str:
    from nbglcnn.cli.console import CommandError

    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8 text") from None
