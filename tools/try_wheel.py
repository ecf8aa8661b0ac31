"""Try a wheel as a user gets it: in an empty environment of each Python at hand, run the example of README.md.

    .venv/bin/python tools/try_wheel.py dist/*.whl [dist/*.tar.gz] [--python PYTHON ...]

Checks first that the wheel's tag is true: that the extension needs no newer glibc, and no other Python, than the tag
says. A source distribution is unpacked, and Cargo resolves it from its own lock file.
Without --python every python3.11 to python3.14 on PATH or of pyenv is taken, and those that are missing are named.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINORS = range(11, 15)
#: What an installation consists of.
REQUIRED = {"isochrony", "numpy", "cloudpickle"}


def pythons() -> Iterator[tuple[str, str | None]]:
    """Names of the Pythons that the package supports, and where they are, if they are here."""
    for minor in MINORS:
        name = f"python3.{minor}"
        ours = sys.executable if sys.version_info[:2] == (3, minor) else None
        versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        installed = sorted(versions.glob(f"3.{minor}.*/bin/{name}"))
        found = ours or next(iter(map(str, installed)), None) or shutil.which(name)
        yield name, found


def check_tag(wheel: Path) -> str:
    """Check what a wheel's name promises against the extension in it; returns what it needs, in words.

    Raises:
        SystemExit: the name promises too much.
    """
    tag = re.search(r"-cp311-abi3-manylinux_2_(\d+)_\w+\.", wheel.name) or re.search(
        r"-cp311-abi3-manylinux(2014)_\w+\.", wheel.name
    )
    if tag is None:
        raise SystemExit(f"{wheel.name} is no abi3 wheel for manylinux: a name with cp311-abi3-manylinux_2_N is wanted")
    promised = 17 if tag[1] == "2014" else int(tag[1])
    with zipfile.ZipFile(wheel) as archive:
        (extension,) = (name for name in archive.namelist() if name.endswith(".so"))
        symbols = archive.read(extension)
    needed = max(int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", symbols))
    if needed > promised:
        raise SystemExit(f"{wheel.name} promises glibc 2.{promised}, but {extension} needs 2.{needed}")
    if not extension.endswith(".abi3.so"):
        raise SystemExit(f"{wheel.name} holds {extension}, which one version of Python alone can load")
    return f"glibc 2.{needed} or later"


def check_sdist(sdist: Path) -> None:
    """Check that a source distribution has all crates that the package is built of, and a lock file that fits them."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        for name in ("LICENSE", "README.md", "Cargo.lock", "pyproject.toml", "python/isochrony/py.typed"):
            if not (source / name).is_file():
                raise SystemExit(f"{sdist.name} lacks {name}")
        manifest = source / "crates/native/Cargo.toml"
        command = ["cargo", "metadata", "--locked", "--format-version=1", f"--manifest-path={manifest}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def example() -> str:
    """The example of README.md."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    return str(code)


def try_in(wheel: Path, python: str | None) -> str:
    """Install a wheel with what it requires, and run the example; returns the versions, in words."""
    if python is None:
        return "is not here"
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        subprocess.run([python, "-m", "venv", where / "venv"], check=True)
        own = where / "venv/bin/python"
        pip = [own, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "--no-compile", "--only-binary=:all:", wheel], check=True)
        # Isolated, in an empty folder: nothing of this repository is on the path.
        (where / "work").mkdir()
        (where / "work/example.py").write_text(example(), encoding="utf-8")
        subprocess.run([own, "-I", "example.py"], check=True, cwd=where / "work", stdout=subprocess.DEVNULL)
        subprocess.run(
            [where / "venv/bin/isochrony", "info", "water.iso"],
            check=True,
            cwd=where / "work",
            stdout=subprocess.DEVNULL,
        )
        listed = "import importlib.metadata as m; print(*(f'{d.name}={d.version}' for d in m.distributions()))"
        output = subprocess.run([own, "-I", "-c", listed], check=True, capture_output=True, text=True).stdout
        versions = dict(one.split("=") for one in output.split())
        unexpected = versions.keys() - REQUIRED - {"pip", "setuptools", "wheel"}
        if unexpected:
            raise SystemExit(f"{wheel.name} required {', '.join(sorted(unexpected))}, too")
        return ", ".join(f"{name} {versions[name]}" for name in sorted(REQUIRED - {"isochrony"}))


def main() -> None:
    """Try what is given on the command line."""
    parser = argparse.ArgumentParser(description="Try a wheel in empty environments.")
    parser.add_argument("files", nargs="+", type=Path, help="a wheel, and perhaps a source distribution")
    parser.add_argument("--python", action="append", help="interpreters to try it in; default: all at hand")
    given = parser.parse_args()
    found: dict[str, str | None] = {name: name for name in given.python} if given.python else dict(pythons())
    for file in given.files:
        if file.suffix != ".whl":
            check_sdist(file)
            print(f"{file.name}: complete")
            continue
        print(f"{file.name}: needs {check_tag(file)}")
        # At once: most of the time goes by while packages come from the index.
        with ThreadPoolExecutor() as pool:
            tried = pool.map(partial(try_in, file), found.values())
            for name, what in zip(found, tried, strict=True):
                print(f"  {name}: {what}", flush=True)


if __name__ == "__main__":
    main()
