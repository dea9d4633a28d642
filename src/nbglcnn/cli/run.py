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
        type=_parse_range,
        metavar="LOW,HIGH",
        help="values shown as black and white in pictures of that sheet: two numbers, or `own` "
        "for each picture's minimum and maximum. Default: the network's range, else 0,1",
    )
    arguments.add_precision(parser)
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Run the pictures; print each layer's statistics and write the output file."""
    from nbglcnn.api import compile
    from nbglcnn.cli import console, inputs, map_sheet, models
    from nbglcnn.runtime.session import Session
    from nbglcnn.tables import table

    model = models.find_model(given.model, given.preprocess)
    x = inputs.load_example(model, given.images, given.shape, resize=given.resize)
    with console.show_progress("compiling"):
        plan = compile(
            model.source,
            inputs.compile_batch(model, x),
            observe=list(dict.fromkeys(given.layer)) or "outputs",
            precision=given.precision,
        )
    with Session(plan) as session:
        found = session.run(x)
        renderer = session.renderer
    keys = dict.fromkeys(given.layer or plan.header.outputs)
    values = {key: found[key] for key in keys}
    if given.out is not None:
        png = given.out.suffix.lower() == ".png"
        with console.write_errors(given.out):
            sheet = map_sheet.draw_sheet(plan, values, given.range) if png else npz_bytes(values)
            given.out.write_bytes(sheet)
    rows = {key: statistics(array) for key, array in values.items()}
    if given.json:
        out = None if given.out is None else str(given.out)
        console.print_json({"renderer": renderer, "out": out, "layers": rows})
        return 0
    titles = ("layer", "shape", *STATISTICS, "not finite")
    print(table(titles, [_table_row(key, row) for key, row in rows.items()], numbers=range(2, 7)))
    if given.out is not None:
        layers = "1 layer" if len(values) == 1 else f"{len(values)} layers"
        print(f"{given.out}: {layers}, computed on {renderer}")
    return 0


def _parse_range(text: str) -> Any:
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


def statistics(array: Array) -> dict[str, Any]:
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


def _table_row(key: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    shape = "×".join(map(str, row["shape"])) or "scalar"
    numbers = ("" if row[name] is None else f"{row[name]:.4g}" for name in STATISTICS)
    wrong = [f"{row[name]:,} {name}" for name in ("nan", "inf") if row[name]]
    return key, shape, *numbers, ", ".join(wrong)


def _parse_output(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in (".png", ".npz"):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a file name that ends with .png or .npz"
        )
    return path
