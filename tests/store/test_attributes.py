"""User attributes of signals and of the store, which any Zarr reader sees, too."""

import json
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso


def test_a_stores_own_are_on_disk_at_once(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        assert dict(store.attrs) == {}
        store.attrs["operator"] = "city"
        store.attrs.update(campaign=np.int32(2010), installed=iso.Time("2010-03-01"), tags=["a", None])
        expected = {"operator": "city", "campaign": 2010, "installed": "2010-03-01T00:00:00Z", "tags": ["a", None]}
        assert dict(store.attrs) == expected
        assert not store.has_pending
        reader = iso.open(store.path)
        assert dict(reader.attrs) == expected
        del store.attrs["tags"]
        assert "tags" not in reader.attrs
        assert len(reader.attrs) == 3
        assert repr(reader.attrs) == repr(dict(reader.attrs))
        with pytest.raises(KeyError, match="tags"):
            del store.attrs["tags"]
        store.create("x", dtype="i2", rate=1)
    on_disk = json.loads((tmp_path / "a.iso" / "zarr.json").read_text())["attributes"]
    assert on_disk["operator"] == "city"
    assert on_disk["isochrony"]["kind"] == "store"
    assert dict(iso.open(tmp_path / "a.iso").attrs)["campaign"] == 2010


def test_a_stores_own_survive_other_zarr_readers(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    with iso.open(tmp_path / "a.iso", "x") as store:
        store.attrs["operator"] = "city"
    assert zarr.open_group(tmp_path / "a.iso", mode="r").attrs["operator"] == "city"


def test_a_stores_own_are_refused_where_they_cannot_be(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        with pytest.raises(iso.StoreError, match="JSON"):
            store.attrs["x"] = object()
        with pytest.raises(ValueError, match="JSON"):
            store.attrs["x"] = float("nan")
        with pytest.raises(ValueError, match="is reserved"):
            store.attrs["isochrony"] = {}
        with pytest.raises(PermissionError, match=r"mode .r\+."):
            iso.open(store.path).attrs["x"] = 1
        assert dict(store.attrs) == {}
    with pytest.raises(iso.StoreError, match="closed"):
        dict(store.attrs)
    with pytest.raises(iso.StoreError, match="closed"):
        store.attrs["x"] = 1
