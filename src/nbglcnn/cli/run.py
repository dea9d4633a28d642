"""`nbglcnn run`: the values of layers for pictures, as numbers, arrays or a sheet of maps."""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbglcnn.cli import arguments

if TYPE_CHECKING:
    from nbglcnn.graph import Array

HELP = "run pictures through the model, and print or save layers' values"
EXAMPLES = """examples:
  nbglcnn run model.onnx cat.jpg --resize
  nbglcnn run model.onnx cat.jpg dog.jpg --layer conv1 --layer layer2.0 --out values.npz
  nbglcnn run net.py:make_model cat.jpg --layer encoder.0 --out maps.png

Several pictures form a batch. `nbglcnn summary MODEL` lists the layers' names."""
STATISTICS = ("min", "max", "mean", "std")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    arguments.add_model(parser)
    arguments.add_preprocess(parser)
    arguments.add_images(parser, count="+")
    parser.add_argument(
        "--layer",
        action="append",
        default=[],
        metavar="NAME",
        help="a layer's name, as `summary` prints it; repeat it for several. Default: the outputs",
    )
    parser.add_argument(
        "--out",
        type=_parse_output,
        metavar="FILE",
        help=".npz: an array for each layer, by name; .png: a sheet of the layers' maps",
    )
    parser.add_argument(
        "--range",
        type=_parse_color_range,
        metavar="LOW,HIGH",
        help="values shown as black and white in pictures of that sheet: two numbers, or `own` "
        "for each picture's minimum and maximum. Default: the network's range, else 0,1",
    )
    arguments.add_precision(parser)
    arguments.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the pictures; print each layer's statistics and write the output file."""
    from nbglcnn.api import compile
    from nbglcnn.cli import console, inputs, map_sheet, models
    from nbglcnn.runtime.session import Session
    from nbglcnn.tables import table

    model = models.find_model(options.model, options.preprocess)
    x = inputs.load_example(model, options.images, options.shape, resize=options.resize)
    with console.show_progress("compiling"):
        plan = compile(
            model.wrapped_model,
            inputs.select_batch_to_compile(model, x),
            observe=list(dict.fromkeys(options.layer)) or "outputs",
            precision=options.precision,
        )
    with Session(plan) as session:
        found = session.run(x)
        renderer = session.renderer
    keys = dict.fromkeys(options.layer or plan.header.outputs)
    values = {key: found[key] for key in keys}
    if options.out is not None:
        png = options.out.suffix.lower() == ".png"
        with console.convert_write_errors(options.out):
            sheet = map_sheet.draw_sheet(plan, values, options.range) if png else npz_bytes(values)
            options.out.write_bytes(sheet)
    rows = {key: compute_statistics(array) for key, array in values.items()}
    if options.json:
        out = None if options.out is None else str(options.out)
        console.print_json({"renderer": renderer, "out": out, "layers": rows})
        return 0
    titles = ("layer", "shape", *STATISTICS, "not finite")
    print(
        table(
            titles, [_table_row(key, row) for key, row in rows.items()], number_columns=range(2, 7)
        )
    )
    if options.out is not None:
        layers = "1 layer" if len(values) == 1 else f"{len(values)} layers"
        print(f"{options.out}: {layers}, computed on {renderer}")
    return 0


def _parse_color_range(text: str) -> Any:
    """Parse `--range` into a `color_range`."""
    if text == "own":
        return "layer"
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = 0.0
    if not low < high:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a range: give the values of black and white, as --range=-1,1, or "
            "--range=own"
        )
    return low, high


def compute_statistics(array: Array) -> dict[str, Any]:
    """Return the shape, type and statistics of a value; statistics ignore NaN and infinities."""
    import numpy as np

    numbers = array.astype(np.float64).reshape(-1)
    finite = numbers[np.isfinite(numbers)]
    known = (finite.min(), finite.max(), finite.mean(), finite.std()) if finite.size else ()
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        **dict.fromkeys(STATISTICS),
        **{name: float(one) for name, one in zip(STATISTICS, known, strict=False)},
        "nan": int(np.isnan(numbers).sum()),
        "inf": int(np.isinf(numbers).sum()),
    }


def npz_bytes(values: Mapping[str, Array]) -> bytes:
    """Return arrays as an .npz file; numpy.savez itself rejects an array called "file"."""
    import numpy as np

    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for key, array in values.items():
            with made.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array))
    return data.getvalue()


def _table_row(key: str, value_statistics: Mapping[str, Any]) -> tuple[str, ...]:
    shape = "×".join(map(str, value_statistics["shape"])) or "scalar"
    numbers = (
        "" if value_statistics[name] is None else f"{value_statistics[name]:.4g}"
        for name in STATISTICS
    )
    wrong = [
        f"{value_statistics[name]:,} {name}" for name in ("nan", "inf") if value_statistics[name]
    ]
    return key, shape, *numbers, ", ".join(wrong)


def _parse_output(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in (".png", ".npz"):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a file name that ends with .png or .npz"
        )
    return path
