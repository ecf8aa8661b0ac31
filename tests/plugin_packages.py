"""Packages as pip installs them, for tests of entry points: modules, and metadata in a `.dist-info` folder."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

__all__ = ["documented_package", "install"]


def install(
    folder: Path,
    name: str,
    modules: Mapping[str, str],
    entry_points: Mapping[str, Mapping[str, str]],
    version: str = "1.0",
) -> None:
    """Put a package into a folder of `sys.path`.

    Parameters:
        modules: source by module name.
        entry_points: by group, references by name.
    """
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (info / "RECORD").write_text("", encoding="utf-8")
    lines = [
        line
        for group, entries in entry_points.items()
        for line in (f"[{group}]", *(f"{one} = {reference}" for one, reference in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def documented_package(page: Path, folder: Path) -> None:
    """Install the package of a page: its first block of Python, as its block of TOML registers it."""
    text = page.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.S)
    project = re.search(r"```toml\n(.*?)```", text, re.S)
    assert code is not None and project is not None
    stated = tomllib.loads(project[1])["project"]
    module = re.search(r"`(acme_\w+)\.py`", text)
    assert module is not None
    install(folder, stated["name"], {module[1]: code[1]}, stated["entry-points"], stated["version"])
