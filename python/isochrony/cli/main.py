"""Parses the command line, runs a command, and turns errors into one line and a status."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

from .. import __version__
from ..errors import EmptyResultWarning, IsochronyError, MissingExtraError, UsageError
from ..errors.native import PlanError
from ..options.keywords import did_you_mean
from .exits import EPILOG, Exit
from .formatter import Formatter
from .message_options import as_options
from .output import printable, standard_streams

__all__ = ["COMMANDS", "Parser", "build_parser", "main"]

# In the order of a first session: see it work, bring data in, look, check, take out.
COMMANDS = (
    "demo",
    "import",
    "record",
    "info",
    "gaps",
    "verify",
    "backup",
    "push",
    "pull",
    "scan",
    "run",
    "top",
    "map",
    "cache",
    "operators",
    "plot",
    "export",
    "send",
    "seal",
    "pipe",
    "calibrate",
    "completion",
)


def _module(command: str) -> ModuleType:
    # `import` is a keyword; its module is named import_.
    name = f"{command}_" if command == "import" else command
    return importlib.import_module(f".{name}", __package__)


class Parser(argparse.ArgumentParser):
    """Reports a mistake as a `UsageError` of one line that says how to mend it, instead of its usage."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found, with where to read on."""
        raise UsageError(f"{message.removeprefix('argument ')}; see {self.prog} --help")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does, but a misspelt option comes before what it leaves missing."""
        words = sys.argv[1:] if args is None else list(args)
        for word in words:
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                break
            option = word.partition("=")[0]
            if option.startswith("--") and option not in self._option_string_actions:
                self.error(f"there is no option {option}{did_you_mean(option, self._option_string_actions)}")
        return super().parse_known_args(words, namespace)

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """As argparse does, but what is left over is refused with what the command takes."""
        arguments, left = self.parse_known_args(args, namespace)
        if left:
            command = self
            if self._subparsers is not None:
                (commands,) = self._subparsers._group_actions
                command = (commands.choices or {})[arguments.command]  # type: ignore[index]
            command.error(command._left_over(left, getattr(arguments, "target", None)))
        return arguments

    def _left_over(self, left: list[str], target: str | None) -> str:
        """What is wrong with words that argparse could not place."""
        option = next((word for word in left if word.startswith("-") and word != "-"), None)
        if option is not None:
            return f"there is no option {option}"
        name = self.prog.rpartition(" ")[2]
        taken = [str(action.metavar or action.dest) for action in self._get_positional_actions()]
        if not taken:
            return f"{name} takes no arguments but options, got {left[0]!r}"
        one = "one " if len(taken) == 1 else ""
        joined = f"; write {target}/{left[0]}" if len(taken) == 1 and target and "/SIGNAL" in taken[0] else ""
        return f"{name} takes {one}{' and '.join(taken)}, got also {left[0]!r}{joined}"

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # argparse would take the value `--` away, and give an empty list to who expects a text.
        if action.option_strings and arg_strings == ["--"] and action.nargs is None:
            raise argparse.ArgumentError(action, "'--' is not a value; write ./-- for a file of that name")
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            what = f"{value!r} is not one of {', '.join(choices)}{did_you_mean(str(value), choices)}"
            raise argparse.ArgumentError(action, what)


def build_parser(names: Iterable[str] = COMMANDS) -> Parser:
    """The command line as an argparse parser: the whole of it, or some of its commands."""
    parser = Parser(
        prog="isochrony",
        usage="isochrony COMMAND [options]",
        description="Stores, scans and filters high-rate sensor signals with exact times and gaps; stores are Zarr v3.",
        epilog=EPILOG,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"isochrony {__version__}")
    commands = parser.add_subparsers(
        title="commands (for details: isochrony COMMAND --help)",
        dest="command",
        metavar="COMMAND",
        required=True,
        prog="isochrony",
    )
    for name in names:
        module = _module(name)
        one = commands.add_parser(
            name,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            epilog=module.EXAMPLES,
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        module.add_arguments(one)
        one.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's) and return its exit code."""
    with standard_streams():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    try:
        return _run(argv)
    except _InterruptedError as interrupted:
        _say("; ".join(filter(None, ("interrupted", str(interrupted)))))
        return Exit.INTERRUPTED
    except KeyboardInterrupt:
        _say("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): that is no error.
        return Exit.OK
    except (IsochronyError, OSError) as error:
        if os.environ.get("ISOCHRONY_DEBUG") == "1":
            raise
        _say(_one_line(error))
        return _status(error)
    except UnicodeEncodeError as error:
        if os.environ.get("ISOCHRONY_DEBUG") == "1":
            raise
        _say(f"{error.object!a} is not UTF-8; give names in UTF-8")
        return Exit.USAGE
    except MemoryError:
        _say("not enough memory; close other programs, or choose a shorter range with --from and --to")
        return Exit.STORE
    except Exception as error:
        if os.environ.get("ISOCHRONY_DEBUG") == "1":
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())
        _say(f"{said}; this is a bug in isochrony: please report it with the traceback that ISOCHRONY_DEBUG=1 shows")
        return Exit.INTERNAL


class _InterruptedError(Exception):
    """Ctrl-C during a command; the message says what is left of its work."""


def _run(argv: Sequence[str] | None) -> int:
    """Runs a command; what it printed is written when this returns."""
    words = sys.argv[1:] if argv is None else list(argv)
    # To import all commands takes longer than most of them run.
    names = words[:1] if words and words[0] in COMMANDS else COMMANDS
    try:
        arguments = build_parser(names).parse_args(words)
        try:
            with _notes_on_results():
                status = int(arguments.run(arguments))
        except KeyboardInterrupt as error:
            raise _InterruptedError(getattr(_module(arguments.command), "INTERRUPTED", "")) from error
    except SystemExit:
        # --help and --version.
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


@contextlib.contextmanager
def _notes_on_results() -> Iterator[None]:
    """Says why results are empty in one line each, as errors are said."""
    show = warnings.showwarning

    def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, EmptyResultWarning):
            _say(str(message))
        else:
            show(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", EmptyResultWarning)
        warnings.showwarning = say
        yield


def _status(error: Exception) -> Exit:
    if isinstance(error, MissingExtraError):
        return Exit.MISSING
    # A saved plan whose store or signal is there and cannot be read. One that is not there was named wrongly.
    if isinstance(error, PlanError) and error.code == "damaged_recording":
        return Exit.STORE
    # What a user can give wrongly (a name, a time, an option) is one of these built-ins too.
    if isinstance(error, ValueError | LookupError | TypeError) and not isinstance(error, OSError):
        return Exit.USAGE
    return Exit.STORE


_HINTS = {
    errno.ENOSPC: "free some space and try again",
    errno.EDQUOT: "free some space or raise the quota, and try again",
    errno.ENOENT: "check the path",
    errno.EFBIG: "the file would exceed the size limit: raise it (ulimit -f), or write less",
    errno.EROFS: "choose a folder on a disk that is not mounted read-only",
    errno.EISDIR: "this is a folder: give the path of a file",
    errno.ENOTDIR: "a part of the path is a file, not a folder: check the path",
    errno.EIO: "the disk is failing: copy what can still be read",
    errno.EBADF: "the stream is closed: redirect it to a file or a pipe",
}


def _one_line(error: Exception) -> str:
    text = str(error)
    if isinstance(error, KeyError) and error.args:
        # str() of a KeyError quotes its argument.
        text = str(error.args[0])
    elif not isinstance(error, IsochronyError) and isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror}; {_HINTS.get(error.errno or 0, 'check the path and its permissions')}"
    elif isinstance(error, OSError) and error.errno in _HINTS and ";" not in text:
        text = f"{text}; {_HINTS[error.errno]}"
    return as_options(" ".join(text.split())) or type(error).__name__


def _say(message: str) -> None:
    # Where that cannot be written, nobody could be told so.
    with contextlib.suppress(OSError):
        print(f"isochrony: {printable(message)}", file=sys.stderr)
