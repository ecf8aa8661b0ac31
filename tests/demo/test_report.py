"""What the demo says to try next works as it is written."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from isochrony.demo.report import print_next


def test_where_isochrony_is_no_command_yet_the_first_line_makes_it_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "activate").touch()
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    print_next(Path("demo"))
    assert "\n  source .venv/bin/activate\n  isochrony info demo/water.iso\n" in capsys.readouterr().out
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    print_next(Path("demo"))
    assert "activate" not in capsys.readouterr().out
