"""The command line `nbglcnn`: one file per command. Heavy imports are lazy, in each command."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from nbglcnn import __version__
from nbglcnn.cli.console import CommandError, format_cli_error, print_note
from nbglcnn.errors import NbglcnnError

COMMANDS = ("check", "summary", "run", "verify", "compile", "html", "serve", "bench")
EXIT_INTERRUPTED = 130  # the convention of shells: 128 + the number of SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, or 1 for an error or a failed check."""
    for stream in (sys.stdout, sys.stderr):  # a terminal's encoding may lack × in shapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    given = build_parser().parse_args(arguments)
    try:
        status = int(given.command(given))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has exited, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print_note(str(error))  # str() includes the file name, args[0] doesn't
    except (NbglcnnError, KeyError, CommandError) as error:
        print_note(format_cli_error(error))
    return 1


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands with their options."""
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
            help=command.HELP,
            description=f"{command.HELP[0].upper()}{command.HELP[1:]}.",
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(own)
        own.set_defaults(command=command.run)
    return made
