"""`nbglcnn serve`: serve the exported page on a local address, until Ctrl-C."""

from __future__ import annotations

import argparse
import re

from nbglcnn.cli import arguments

HELP = "show the network in this machine's browser, until Ctrl-C"
EXAMPLES = """examples:
  nbglcnn serve model.onnx
  nbglcnn serve model.onnx --input cat.jpg --port 8123 --no-browser

The server listens on 127.0.0.1 only, at an unguessable address."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    arguments.add_model(parser)
    arguments.add_preprocess(parser)
    arguments.add_images(parser)
    parser.add_argument(
        "--port", type=_parse_port, default=0, metavar="N", help="default: a free port"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address without opening a browser"
    )
    parser.add_argument("--title", help="the page's title and heading; default: the model's name")
    arguments.add_precision(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from nbglcnn.cli import console, inputs, models
    from nbglcnn.cli.page_server import PageServer, open_browser
    from nbglcnn.features.export.export import build_page
    from nbglcnn.widget.network import Network

    model = models.find_model(options.model, options.preprocess)
    x = inputs.load_example(model, options.images, options.shape, resize=options.resize)
    with console.show_progress("writing the page"):
        network = Network(model.wrapped_model, x, observe="all", precision=options.precision)
        content = build_page(network, title=options.title)
    try:
        server = PageServer(content, options.port)
    except OSError as error:
        raise console.CommandError(
            f"port {options.port} is not available: {error.strerror or error}. Use another --port, "
            "or omit it"
        ) from None
    try:
        with server:
            print(f"{server.url}\nPress Ctrl-C to stop.", flush=True)
            if not options.no_browser:
                open_browser(server.url)
            server.serve_forever()
    except KeyboardInterrupt:
        print()
    return 0


def _parse_port(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a port from 0 to 65535")
    return int(text)
