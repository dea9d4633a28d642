"""`nbglcnn summary`: the table of layers."""

from __future__ import annotations

import argparse

from nbglcnn.cli import arguments

HELP = "print the table of layers: names, types, output shapes, parameters, MACs"
EXAMPLES = """examples:
  nbglcnn summary model.onnx
  nbglcnn summary net.py:make_model --shape 1x3x224x224

MACs are multiply–accumulate operations, for the whole batch."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    arguments.add_model(parser)
    arguments.add_preprocess(parser)
    arguments.add_images(parser)
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Print the layers and the totals."""
    from nbglcnn.cli import console, inputs, models
    from nbglcnn.lowering.lower import lower
    from nbglcnn.python_fallback import load_with_fallback

    model = models.find_model(given.model, given.preprocess)
    x = inputs.load_example(model, given.images, given.shape, resize=given.resize)
    with console.show_progress("reading the model"):
        graph, _ = load_with_fallback(model.source, inputs.compile_batch(model, x))
        plan = lower(graph, observe="outputs")
    layers = plan.layers
    parameters = sum(layer.parameters - layer.shared for layer in layers)
    macs = sum(layer.macs for layer in layers)
    if given.json:
        rows = [
            {
                "name": layer.name,
                "type": layer.type,
                "output_shape": layer.output_shape,
                "parameters": layer.parameters,
                "shared": layer.shared,
                "macs": layer.macs,
                "in_python": bool(layer.python),
            }
            for layer in layers
        ]
        sums = {"parameters": parameters, "macs": macs}
        console.print_json({"name": plan.header.name, **sums, "layers": rows})
    else:
        print(layers)
        print(f"{len(layers):,} layers, {parameters:,} parameters, {macs:,} MACs")
    return 0
