"""Importing through the binding, views, sealing and verification."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from isochrony import _native

EPOCH = 1_267_401_600


@pytest.fixture
def recordings_made(tmp_path: Path) -> Path:
    """Two stations, ten 10 s files each at 100 Hz; one file of the second is missing, one is cut short."""
    rng = np.random.default_rng(1)
    folder = tmp_path / "rec"
    for station in ("stn_10", "stn_11"):
        (folder / station).mkdir(parents=True)
        for k in range(10):
            if (station, k) == ("stn_11", 4):
                continue
            samples = rng.integers(-500, 500, 1000, dtype="<i2").tobytes()
            path = folder / station / f"p_{EPOCH + 10 * k}.raw"
            path.write_bytes(samples[:-1] if (station, k) == ("stn_11", 8) else samples)
    return folder


OPTIONS = {"layout": "{station}/{sensor}_{epoch}.raw", "dtype": "<i2", "rate": 100, "unit": "mbar"}


class TestRaw:
    def test_a_folder_comes_in_whole_and_only_once(self, store: iso.Store, recordings_made: Path) -> None:
        seen: list[tuple[int, int, int, int]] = []
        summary = store.import_raw(recordings_made, **OPTIONS, progress=lambda *now: seen.append(now))
        assert [one["name"] for one in summary["signals"]] == ["stn_10/p", "stn_11/p"]
        assert (summary["files"], summary["skipped"]) == (18, 0)
        ((path, reason),) = summary["problems"]
        assert path.endswith(f"p_{EPOCH + 80}.raw")
        assert "1999" in reason
        assert seen[-1][2] == seen[-1][3] == 19
        signal = store["stn_10/p"]
        stored = b"".join(file.read_bytes() for file in sorted((recordings_made / "stn_10").iterdir()))
        assert signal.counts[:].tobytes() == stored
        assert len(store["stn_11/p"].gaps) == 2
        again = store.import_raw(recordings_made, **OPTIONS)
        assert (again["files"], again["skipped"]) == (0, 18)

    def test_options_that_say_too_little(self, store: iso.Store, recordings_made: Path) -> None:
        with pytest.raises(iso.ImportRefusedError, match="layout="):
            store.import_raw(recordings_made, rate=100)
        with pytest.raises(iso.ImportRefusedError, match="censam"):
            store.import_raw(recordings_made, preset="nothing")
        with pytest.raises(iso.IsochronyError):
            store.import_raw(recordings_made / "nothing", **OPTIONS)

    def test_an_exception_of_progress_ends_it_with_everything_so_far_committed(
        self, tmp_path: Path, recordings_made: Path
    ) -> None:
        def stop(*_: int) -> None:
            raise KeyboardInterrupt

        store = iso.open(tmp_path / "b.iso", "x")
        with pytest.raises(KeyboardInterrupt):
            store.import_raw(recordings_made, **OPTIONS, progress=stop)
        store.close(commit=False)
        with iso.open(tmp_path / "b.iso", "a") as store:
            assert not store.has_pending
            store.import_raw(recordings_made, **OPTIONS)
            assert store["stn_10/p"].sample_count == 10_000

    @pytest.mark.skipif(os.name != "posix", reason="sends a signal")
    def test_ctrl_c_ends_following(self, tmp_path: Path, recordings_made: Path) -> None:
        # The child interrupts itself once something is in; a second thread can look, since imports run detached.
        program = textwrap.dedent(
            f"""
            import os, signal, threading, time
            import isochrony as iso
            # Started in the background, a process ignores Ctrl-C; this one must not.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            store = iso.open({str(tmp_path / "c.iso")!r}, "x")
            def press():
                for _ in range(600):
                    time.sleep(0.1)
                    if "stn_10/p" in store and store["stn_10/p"].sample_count > 0:
                        break
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=press, daemon=True).start()
            summary = store.import_raw({str(recordings_made)!r}, **{OPTIONS!r}, follow=True)
            print(summary["cancelled"], store["stn_10/p"].sample_count > 0)
            """
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert done.stdout == "True True\n", done.stderr


class TestSession:
    def test_blocks_of_any_importer(self, store: iso.Store) -> None:
        session = store.ingest(gap_slip=0.5)
        assert not session.known("a.bin", 10, 1)
        session.block(
            "a/b", np.arange(100, dtype="i4"), rate=(10, 1), start=(EPOCH * 10**9, 0), resolution=(1000, 0),
            unit="V", scale=0.1, source="a.bin", attrs={"station": "a"},
        )  # fmt: skip
        session.block("a/b", np.arange(100, 200, dtype="i4"), rate=10, source="a.bin")
        session.done("a.bin", 10, 1)
        session.reject("c.bin", "is no recording")
        summary = session.finish()
        assert summary["problems"] == [("c.bin", "is no recording")]
        assert (summary["signals"][0]["samples"], summary["signals"][0]["start"]) == (200, "2010-03-01T00:00:00Z")
        signal = store["a/b"]
        assert signal[10] == pytest.approx(1.0)
        assert signal.attrs["station"] == "a"
        again = store.ingest()
        assert again.known("a.bin", 10, 1)
        assert not again.known("a.bin", 11, 1)
        with pytest.raises(iso.ImportRefusedError, match="finished"):
            session.finish()

    def test_reading_stores_refuse(self, store: iso.Store) -> None:
        store.commit()
        with pytest.raises(PermissionError):
            iso.open(store.path).ingest()

    def test_layouts(self) -> None:
        layout = _native.Layout("{station}/{sensor}_{epoch}.raw")
        assert layout.match("x/p_1267401600.raw") == ("x/p", (EPOCH * 10**9, 10**9))
        with pytest.raises(iso.ImportRefusedError, match="does not fit the layout"):
            layout.match("x/p.raw")
        assert _native.Layout("{station}/*.wav").match("x/p.wav") == ("x", None)
        with pytest.raises(iso.ImportRefusedError, match="brace"):
            _native.Layout("{station")


class TestViews:
    def test_columns_are_exact_for_what_they_name(self, store: iso.Store) -> None:
        rng = np.random.default_rng(2)
        x = rng.integers(-1000, 1000, 200_000).astype("i2")
        signal = store.create("x", dtype="i2", rate=1000, unit="V", scale=-0.5, offset=3, start="2010-03-01")
        signal.append(x[:150_000])
        signal.append_gap(samples=5_000)
        signal.append(x[150_000:])
        store.commit()
        view = signal.view(slice(1_000, 190_000), pixels=300)
        values = signal.values()
        assert 250 < len(view) < 350
        for k in range(len(view)):
            part = values[view.start[k] : view.end[k]]
            part = part[np.isfinite(part)]
            assert view.count[k] == len(part)
            if len(part):
                assert (view.min[k], view.max[k]) == (part.min(), part.max())
                assert view.mean[k] == pytest.approx(part.mean(), rel=1e-9)
                assert view.std[k] == pytest.approx(part.std(), rel=1e-6, abs=1e-9)
        assert (view.start[1:] == view.end[:-1]).all()
        assert view.time_ns[0] == signal.time_of(int(view.start[0])).ns
        assert view.gap_fraction.max() > 0
        with pytest.raises(iso.StoreError, match="pixels"):
            signal.view(pixels=0)
        with pytest.raises(iso.OptionError, match="1 to 1000000"):
            signal.view(pixels=-3)

    def test_without_civil_time(self, store: iso.Store) -> None:
        signal = store.create("x", dtype="f4", rate=10)
        signal.append(np.arange(100, dtype="f4"))
        view = signal.view(pixels=10)
        assert view.time_ns[1] == view.start[1] * 10**8


class TestSealing:
    @pytest.mark.parametrize("codec", ["zstd", "blosc"])
    def test_a_sealed_signal_reads_the_same_and_says_that_it_cannot_grow(self, store: iso.Store, codec: str) -> None:
        x = (np.arange(300_000) // 100).astype("i4")
        signal = store.create("x", dtype="i4", rate=100, start="2010-03-01")
        signal.append(x)
        store.commit()
        before = np.asarray(signal[1000:2000])
        raw, stored = signal.seal(codec)
        assert raw == x.nbytes
        assert stored < raw / 4
        assert signal.codec == codec
        assert signal.sizes()["codec"] == codec
        np.testing.assert_array_equal(np.asarray(signal[5:299_000]), x[5:299_000])
        np.testing.assert_array_equal(before, x[1000:2000])
        with pytest.raises(iso.StoreError, match="unseal") as caught:
            signal.append(x)
        assert caught.value.code == "sealed"
        signal.unseal()
        signal.append(x)
        assert signal.sizes()["codec"] == "raw"
        assert signal.sample_count == 600_000
        with pytest.raises(iso.StoreError, match="zstd"):
            signal.seal("gzip")


class TestVerifying:
    def test_flipped_bits_are_named(self, tmp_path: Path) -> None:
        path = tmp_path / "x.iso"
        with iso.open(path, "x") as store:
            signal = store.create("a/b", dtype="i2", rate=1000, start="2010-03-01")
            signal.append(np.arange(200_000).astype("i2"))
        assert _native.verify(path)["damage"] == []
        shard = path / "a/b/data/c/0"
        data = bytearray(shard.read_bytes())
        data[4096 + 1000] ^= 4
        shard.write_bytes(bytes(data))
        report = _native.verify(path)
        (damage,) = report["damage"]
        assert damage["signal"] == "a/b"
        assert damage["range"][0] <= 500 < damage["range"][1]
        assert not damage["repaired"]
        assert report["signals"] == 1
        assert _native.verify(path, deep=False)["damage"] == []

    def test_what_can_be_mended_is(self, tmp_path: Path) -> None:
        path = tmp_path / "x.iso"
        with iso.open(path, "x") as store:
            store.create("a/b", dtype="i2", rate=1000).append(np.arange(1000).astype("i2"))
        (path / "a/b/zarr.json").write_text("{}")
        assert _native.verify(path)["damage"]
        assert all(one["repaired"] for one in _native.verify(path, repair=True)["damage"])
        assert _native.verify(path)["damage"] == []

    def test_no_store(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            _native.verify(tmp_path / "nothing")
