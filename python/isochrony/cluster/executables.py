"""Programs as functions of files: unmodified executables, each run in a scratch folder of its own."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors.native import OptionError, RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: `{}`, `{0}`, `{out}`, `{out0}` and `{item}`; other braces are the program's own.
_FIELD = re.compile(r"\{(\d*|out\d*|item)\}")
#: Lines and characters of a program's errors that an exception has.
_ERROR_LINES, _ERROR_CHARACTERS = 3, 500


class Executable:
    """A program as the `function` of `map`; its result is the text that it prints.

    The program runs without a shell, in an empty folder, which is removed afterwards with all files in it.

    Parameters:
        argv: program and arguments. In them ``{}`` stands for the local paths of all inputs, ``{0}`` for the first one,
            ``{out}`` for the paths of all outputs, ``{out0}`` for the first one, ``{item}`` for the item. Other braces
            are passed on as they are.
        timeout: seconds after which the program is killed; None: never.

    Raises:
        OptionError: `argv` is not a list of texts, or is empty.

    >>> import isochrony as iso
    >>> iso.cluster.Executable(["wc", "-c", "{}"])
    Executable(['wc', '-c', '{}'])
    """

    def __init__(self, argv: Sequence[str], *, timeout: float | None = None) -> None:
        if isinstance(argv, str) or not argv or not all(isinstance(one, str) for one in argv):
            raise OptionError(
                f'argv={argv!r} is refused; give a program and its arguments, such as ["wc", "-c", "{{}}"]'
            )
        self._argv = list(argv)
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"Executable({self._argv!r})"

    def __call__(self, item: Any, *paths: Path) -> str:
        """Run the program in this process's host, with local paths of its inputs; see `run`."""
        return self.run(item, list(paths), [])

    def run(self, item: Any, inputs: Sequence[Path], outputs: Sequence[Path], scratch: Path | None = None) -> str:
        r"""Run the program once.

        Parameters:
            item: the item, for ``{item}``.
            inputs: local paths of the inputs.
            outputs: local paths that the program is to write.
            scratch: folder in which its working folder is created; None: the system's folder for temporary files.

        Returns:
            What it printed to standard output, as text. Bytes that are not UTF-8 become U+FFFD.

        Raises:
            RunError: the program is not installed, cannot be run, ends with another status than 0, or takes longer than
                `timeout`; or a field of `argv` names a file that the item does not have.

        >>> import isochrony as iso
        >>> iso.cluster.Executable(["echo", "{item}"]).run("stn_10", [], [])
        'stn_10\n'
        """
        argv = self.arguments(item, inputs, outputs)
        with tempfile.TemporaryDirectory(dir=scratch, prefix="work-") as folder:
            try:
                done = subprocess.run(
                    argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=self._timeout, check=False
                )
            except FileNotFoundError as error:
                raise RunError(f"{argv[0]!r} is not installed on this host; install it on all hosts") from error
            except subprocess.TimeoutExpired as error:
                raise RunError(
                    f"{argv[0]!r} took longer than {self._timeout:g} s and was killed; raise timeout"
                ) from error
            except OSError as error:
                raise RunError(f"{argv[0]!r} cannot be run ({error}); see its permissions on all hosts") from error
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").strip().splitlines()[-_ERROR_LINES:])
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
            raise RunError(
                f"{argv[0]!r} ended with {how} for {item!r}: {said[-_ERROR_CHARACTERS:] or 'it said nothing'}"
            )
        return done.stdout.decode(errors="replace")

    def arguments(self, item: Any, inputs: Sequence[Path], outputs: Sequence[Path]) -> list[str]:
        """Fill in the command line.

        Parameters:
            item: the item, for ``{item}``.
            inputs: local paths of the inputs.
            outputs: local paths of the outputs.

        Returns:
            Program and arguments, with paths in place of the fields.

        Raises:
            RunError: a field names an input or output that the item does not have, or one field within a longer
                argument stands for several paths.

        >>> import isochrony as iso
        >>> count = iso.cluster.Executable(["wc", "-c", "{}"])
        >>> count.arguments("a", ["/data/a.wav", "/data/b.wav"], [])
        ['wc', '-c', '/data/a.wav', '/data/b.wav']
        """
        return [argument for word in self._argv for argument in self._filled(word, item, inputs, outputs)]

    def _filled(self, word: str, item: Any, inputs: Sequence[Path], outputs: Sequence[Path]) -> list[str]:
        # A word of its own becomes as many words as there are paths.
        if word in ("{}", "{out}"):
            return [str(path) for path in (inputs if word == "{}" else outputs)]

        def value(field: re.Match[str]) -> str:
            name = field[1]
            if name == "item":
                return str(item)
            paths = outputs if name.startswith("out") else inputs
            number = name.removeprefix("out")
            if number and int(number) < len(paths):
                return str(paths[int(number)])
            if not number and len(paths) == 1:
                return str(paths[0])
            raise RunError(
                f"{word!r} has {field[0]}, but {item!r} has {len(inputs)} inputs and {len(outputs)} outputs; count "
                "from {0} and {out0}"
            )

        return [_FIELD.sub(value, word)]


def unpack(source: Path, target: Path) -> None:
    """Decompress a file of gzip, bzip2 or xz, recognised by its first bytes: a `cache_form` of `map`.

    Parameters:
        source: path of the compressed file.
        target: path to write to; an existing file is replaced.

    Raises:
        RunError: the file is not compressed by any of these.
        OSError: a file cannot be read or written, or the compressed data is damaged; also EOFError where it ends too
            early, and zlib.error or lzma.LZMAError.

    >>> import gzip, isochrony as iso, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.gz").write_bytes(gzip.compress(b"samples"))
    >>> iso.cluster.unpack(folder / "a.gz", folder / "a")
    >>> (folder / "a").read_bytes()
    b'samples'
    """
    import bz2
    import gzip
    import lzma
    import shutil

    magics: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
    with source.open("rb") as file:
        first = file.read(6)
    opened = next((one for magic, one in magics.items() if first.startswith(magic)), None)
    if opened is None:
        raise RunError(f"{source.name} is not compressed by gzip, bzip2 or xz; leave unpacking out")
    with opened(source, "rb") as packed, target.open("wb") as plain:
        shutil.copyfileobj(packed, plain, 1 << 20)
