"""Folders of tasks: empty for each, and made once for many."""

from __future__ import annotations

import contextlib
from pathlib import Path

from isochrony.cluster.scratch import Scratch


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_is_used_again_without_what_a_task_left_in_it(tmp_path: Path) -> None:
    with contextlib.closing(Scratch(tmp_path / "scratch")) as scratch:
        with scratch.folder() as first:
            (first / "out0").mkdir()
            (first / "out0" / "a.dat").write_text("result")
            (first / "left").write_text("behind")
            (first / "link").symlink_to("/")
            with scratch.folder() as other:
                assert other != first
        with scratch.folder() as again:
            assert again in (first, other)
            with scratch.folder() as both:
                assert {again, both} == {first, other}
                assert contents(first) == ["out0"] and contents(other) == []
    assert not list((tmp_path / "scratch").iterdir())


def test_a_folder_in_which_a_task_made_others_is_removed(tmp_path: Path) -> None:
    with contextlib.closing(Scratch(tmp_path / "scratch")) as scratch:
        for deep in ("work", "out0/deep"):
            with scratch.folder() as folder:
                (folder / deep).mkdir(parents=True)
            assert not folder.exists()
        # One that the task removed by itself.
        with scratch.folder() as folder:
            folder.rmdir()
        with scratch.folder() as folder:
            assert contents(folder) == []
