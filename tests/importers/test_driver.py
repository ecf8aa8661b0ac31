from __future__ import annotations

import signal
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from isochrony.errors import BadSourceError, UsageError
from isochrony.importers import (
    Block,
    Format,
    Omission,
    Options,
    Stamp,
    driver,
    find_sources,
    format_named,
    formats,
    import_files,
    sources,
)


class FakeSession:
    """Keeps what it is given, in order."""

    def __init__(self, known: set[str] | None = None) -> None:
        self.blocks: list[tuple[str, str, Any]] = []
        self.ended: list[str] = []
        self.refused: dict[str, str] = {}
        self.incomplete: dict[str, str] = {}
        self.finished = 0
        self.commits = 0
        self._known = known or set()

    def known(self, source: str, size: int, mtime_ns: int) -> bool:
        return Path(source).name in self._known

    def block(self, signal: str, samples: np.ndarray, **description: Any) -> None:
        if signal == "full":
            raise OSError(28, "No space left on device")
        if signal == "odd":
            raise ValueError("signal 'odd' has another dtype")
        self.blocks.append((signal, Path(description["source"]).name, description))

    def done(self, source: str, size: int, mtime_ns: int) -> None:
        self.ended.append(Path(source).name)

    def reject(self, source: str, reason: str) -> None:
        self.refused[Path(source).name] = reason

    def report(self, source: str, reason: str) -> None:
        self.incomplete[Path(source).name] = reason

    def commit(self) -> None:
        self.commits += 1

    def finish(self) -> dict[str, Any]:
        self.finished += 1
        return {"problems": list(self.refused.items()), "kept": [False] * len(self.refused)}


class FakeStore:
    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.options: dict[str, Any] = {}

    def ingest(self, **options: Any) -> FakeSession:
        self.options = options
        return self.session

    def keys(self) -> list[str]:
        return []


def read_fake(path: Path, signal: str, options: Options) -> Iterator[Block | Omission]:
    """Lines of a text file: ``start``, ``start signal``, ``bad`` or ``noise``."""
    for line in path.read_text().splitlines():
        if line == "bad":
            raise BadSourceError("holds a bad line")
        if line == "noise":
            yield Omission("noise in a line")
            continue
        start, _, name = line.partition(" ")
        stamp = Stamp(int(start)) if start != "-" else options.start
        yield Block(name or options.signal or signal, np.zeros(2), Fraction(1), stamp)


@pytest.fixture(autouse=True)
def fake_format(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Format("fake", "a test", (".fake",), read_fake)
    known = (*formats(), fake)
    monkeypatch.setattr("isochrony.importers.registry.formats", lambda: known)


def run(folder: Path, session: FakeSession | None = None, **options: Any) -> FakeSession:
    session = session or FakeSession()
    import_files(FakeStore(session), folder, **options)
    return session


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.fake").write_text(text)
    return folder


def test_files_come_in_order_of_time_whatever_their_names(tmp_path: Path) -> None:
    write(tmp_path, a="30", b="10", c="20", late="-")
    assert run(tmp_path).ended == ["b.fake", "c.fake", "a.fake", "late.fake"]


def test_files_without_time_come_in_natural_order(tmp_path: Path) -> None:
    write(tmp_path, take10="-", take2="-", take1="-")
    assert run(tmp_path).ended == ["take1.fake", "take2.fake", "take10.fake"]


def test_a_bad_file_is_refused_whole_and_the_rest_is_imported(tmp_path: Path) -> None:
    write(tmp_path, a="10\n20\nbad", b="30")
    session = run(tmp_path)
    assert session.refused == {"a.fake": "holds a bad line"}
    assert [source for _, source, _ in session.blocks] == ["b.fake"]


def test_a_long_bad_file_is_refused_whole_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_HELD_BYTES", 0)
    write(tmp_path, a="10\n20\nbad", b="30\n40")
    session = run(tmp_path)
    assert [source for _, source, _ in session.blocks] == ["b.fake", "b.fake"]


def test_what_the_session_refuses_about_a_file_is_reported(tmp_path: Path) -> None:
    write(tmp_path, a="10 odd", b="20")
    session = run(tmp_path)
    assert session.refused == {"a.fake": "signal 'odd' has another dtype"}
    assert session.ended == ["b.fake"]


def test_unknown_empty_and_hidden_files(tmp_path: Path) -> None:
    write(tmp_path, a="10")
    (tmp_path / "notes.doc").write_text("hello")
    (tmp_path / "empty.wav").touch()
    (tmp_path / ".hidden.fake").write_text("1")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.fake").write_text("1")
    session = run(tmp_path)
    assert session.ended == ["a.fake"]
    assert session.refused["empty.wav"] == "is empty; fetch it again, or leave it out"
    assert "no importer recognises it; name one with format= (audio" in session.refused["notes.doc"]


def test_known_files_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, a="10", b="20")
    assert run(tmp_path, FakeSession({"a.fake"})).ended == ["b.fake"]


def test_signals_are_named_by_the_path_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    write(tmp_path / "x" / "y", z="10")
    assert run(tmp_path).blocks[0][0] == "x/y/z"
    assert run(tmp_path / "x" / "y" / "z.fake").blocks[0][0] == "z"
    assert run(tmp_path, signal="mine").blocks[0][0] == "mine"


def test_a_layout_names_signal_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, s_200="-", s_100="-", other="-")

    def match(relative: str) -> tuple[str, Stamp | None]:
        name, _, time = relative.removesuffix(".fake").partition("_")
        if not time:
            raise BadSourceError("does not fit the layout")
        return name, Stamp(int(time), 100)

    monkeypatch.setattr(driver, "_layout", lambda _template: match)
    session = run(tmp_path, layout="{station}_{epoch}.fake")
    assert session.ended == ["s_100.fake", "s_200.fake"]
    assert session.blocks[0][2]["start"] == (100, 0)
    assert session.blocks[0][2]["resolution"] == (100, 0)
    assert session.refused == {"other.fake": "does not fit the layout"}


def test_a_forced_format_applies_to_every_file(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(10, "i2"), 8000)
    session = run(tmp_path, format="mseed")
    assert "does not begin with a SEED record" in session.refused["a.wav"]


def test_progress_counts_bytes_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_PROGRESS_EVERY_S", 0.0)
    write(tmp_path, a="10", b="2000")
    told: list[tuple[int, ...]] = []
    run(tmp_path, progress=lambda *state: told.append(state))
    assert told == [(2, 6, 1, 2), (6, 6, 2, 2)]


def test_an_interrupt_keeps_what_was_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_PROGRESS_EVERY_S", 0.0)
    write(tmp_path, a="10", b="20")
    session = FakeSession()

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, session, progress=interrupt)
    assert session.ended == ["a.fake"]
    assert session.finished == 1


def test_a_file_is_in_the_session_as_a_whole_when_ctrl_c_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a="10", b="20")
    session = FakeSession()
    block = session.block

    def interrupted(*arguments: Any, **description: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        block(*arguments, **description)

    session.block = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, session)
    assert (session.ended, session.finished) == (["a.fake"], 1)
    # Of a long one the rest would have to be waited for: what is not committed is let go.
    monkeypatch.setattr(driver, "_HELD_BYTES", 0)
    session.ended, session.finished = [], 0
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, session)
    assert (session.ended, session.finished) == ([], 0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_following_imports_files_that_appear_and_keep_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a="10")
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            write(tmp_path, b="20")
        if looks == 2:
            # Still growing at the second look, so it has to wait for the fourth.
            write(tmp_path, b="20\n30")
        if looks == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(driver.time, "sleep", sleep)
    session = run(tmp_path, follow=True)
    assert [description["start"] for _, _, description in session.blocks] == [(10, 0), (20, 0), (30, 0)]
    assert session.finished == 1


def test_a_look_opens_only_what_changed_since_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.arange(10))
    (tmp_path / "c.dat").write_bytes(b"nothing known")
    opened: list[str] = []
    real = sources.format_of
    monkeypatch.setattr(sources, "format_of", lambda path: opened.append(path.name) or real(path))
    first = find_sources(tmp_path)
    assert sorted(opened) == ["a.npy", "b.npy", "c.dat"]
    opened.clear()
    np.save(tmp_path / "b.npy", np.arange(11))
    np.save(tmp_path / "d.npy", np.arange(10))
    second = find_sources(tmp_path, before={source.path: source for source in first})
    assert sorted(opened) == ["b.npy", "d.npy"]
    assert second == find_sources(tmp_path)


def test_rejects_a_missing_folder_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        run(tmp_path / "none")
    with pytest.raises(UsageError, match="holds no files"):
        run(tmp_path)


def test_rejects_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown format 'mp5'; known are audio, csv"):
        find_sources(tmp_path, "mp5")


def test_every_format_says_what_it_reads() -> None:
    names = [one.name for one in formats()]
    assert names == ["audio", "csv", "mseed", "numpy", "parquet"]
    for one in formats():
        assert one.summary
        assert all(suffix.startswith(".") for suffix in one.suffixes)
        assert format_named(one.name) is one


def test_the_sessions_options_are_those_of_the_user(tmp_path: Path) -> None:
    write(tmp_path, a="10")
    store = FakeStore(FakeSession())
    import_files(store, tmp_path, rate=Fraction(5), gap_slip=0.1, alpha=0.9, max_gap=9.0)
    kept = {"gap_slip": 0.1, "alpha": 0.9, "initial_rate": None, "max_gap": 9.0, "value_jump": None}
    assert store.options == kept


def test_a_store_is_its_path_or_open(tmp_path: Path) -> None:
    write(tmp_path, a="10")
    with pytest.raises(UsageError, match=r"got int where a store is expected; give its path, or what iso\.open"):
        import_files(5, tmp_path)  # type: ignore[arg-type]


def test_what_is_left_out_of_a_file_is_reported_and_the_file_is_done(tmp_path: Path) -> None:
    write(tmp_path, a="10\nnoise\n20", b="30", many="40\n" + "noise\n" * 9)
    session = run(tmp_path)
    assert session.refused == {}
    assert session.ended == ["a.fake", "b.fake", "many.fake"]
    assert session.incomplete["a.fake"] == "the rest is imported, but not: noise in a line"
    assert session.incomplete["many.fake"].endswith("noise in a line; and 4 more")


def test_a_file_that_grows_while_it_is_followed_is_reported_as_it_was_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, a="10\nnoise", b="30\nnoise")
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            write(tmp_path, a="10\n20")
        if looks == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(driver.time, "sleep", sleep)
    session = run(tmp_path, follow=True)
    assert list(session.incomplete) == ["b.fake"]


def test_decoded_samples_are_held_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with more is read twice: it is refused whole all the same."""
    monkeypatch.setattr(driver, "_HELD_BYTES", 3 * driver._BLOCK_BYTES)
    write(tmp_path, a="\n".join(map(str, range(10))), b="\n".join(map(str, range(10))) + "\nbad")
    session = run(tmp_path)
    assert session.refused == {"b.fake": "holds a bad line"}
    assert len(session.blocks) == 10
