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


def run(options: argparse.Namespace) -> int:
    """Print the layers and the totals."""
    from nbglcnn.cli import console, inputs, models
    from nbglcnn.lowering.lower import lower
    from nbglcnn.python_fallback import load_with_fallback

    model = models.find_model(options.model, options.preprocess)
    x = inputs.load_example(model, options.images, options.shape, resize=options.resize)
    with console.show_progress("reading the model"):
        graph, _ = load_with_fallback(model.wrapped_model, inputs.select_batch_to_compile(model, x))
        plan = lower(graph, observe="outputs")
    layers = plan.layers
    parameters = sum(layer.parameters - layer.shared for layer in layers)
    macs = sum(layer.macs for layer in layers)
    if options.json:
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
