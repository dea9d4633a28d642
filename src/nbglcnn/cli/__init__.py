"""The command line `nbglcnn`: a file a command. Nothing heavy is imported before one runs."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from nbglcnn import __version__
from nbglcnn.cli.words import Refused, note, refusal
from nbglcnn.errors import NbglcnnError

COMMANDS = ("check", "summary", "run", "verify", "compile", "html", "serve", "bench")
INTERRUPTED = 130  # as a shell has it: 128 and the number of SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit status: 0, 1 where that cannot be or isn't so."""
    for stream in (sys.stdout, sys.stderr):  # a terminal may lack the × of shapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    given = parser().parse_args(arguments)
    try:
        status = int(given.command(given))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # what reads our output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        note(str(error))  # with what it is about, which args[0] lacks
    except (NbglcnnError, KeyError, Refused) as error:
        note(refusal(error))
    return 1


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    made = argparse.ArgumentParser(
        prog="nbglcnn",
        description="Every layer of a convolutional network, on the GPU.",
        epilog="`nbglcnn COMMAND --help` has a command's options, and examples.",
    )
    made.add_argument("--version", action="version", version=f"nbglcnn {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = import_module(f"nbglcnn.cli.{name}")
        own = commands.add_parser(
            name,
            help=command.DOES,
            description=f"{command.DOES[0].upper()}{command.DOES[1:]}.",
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add(own)
        own.set_defaults(command=command.run)
    return made
