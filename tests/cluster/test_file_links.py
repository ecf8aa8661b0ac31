"""Links to cached files by the names that the files have in storage."""

from __future__ import annotations

from pathlib import Path

from isochrony.cluster.scratch import FileLinks


def test_a_link_is_kept_for_later_tasks_and_made_anew_where_a_function_removed_it(tmp_path: Path) -> None:
    target = tmp_path / "object"
    target.write_text("content")
    links = FileLinks(tmp_path / "links")
    first = links.take(target, "a.fits")
    assert first.name == "a.fits" and first.read_text() == "content"
    assert links.take(target, "a.fits") == first
    other = links.take(target, "b.fits")
    assert other.name == "b.fits" and other != first
    first.unlink()
    again = links.take(target, "a.fits")
    assert again.read_text() == "content" and again.name == "a.fits"


def test_links_that_no_task_uses_are_bounded(tmp_path: Path) -> None:
    links = FileLinks(tmp_path / "links", kept=3)
    targets = [tmp_path / str(number) for number in range(6)]
    taken = [links.take(target, "file") for target in targets]
    assert all(link.is_symlink() for link in taken), "tasks use all of them"
    links.give_back(targets[0], "file")
    assert [link.is_symlink() for link in taken] == [False] + 5 * [True]
    for target in targets[1:]:
        links.give_back(target, "file")
    assert [link.is_symlink() for link in taken] == 3 * [False] + 3 * [True]
    assert len(list((tmp_path / "links").iterdir())) == 3
