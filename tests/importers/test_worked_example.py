"""The importer of docs/add_a_format.md, taken from the document and run."""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from isochrony.errors import BadSourceError
from isochrony.importers import Block, Format, Options, Stamp

DOCUMENT = Path(__file__).parents[2] / "docs" / "add_a_format.md"


@pytest.fixture(scope="module")
def vib() -> Format:
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)
    assert code is not None
    names: dict[str, object] = {"__name__": "vib"}
    exec(compile(code[1], str(DOCUMENT), "exec"), names)
    found = names["FORMAT"]
    assert isinstance(found, Format)
    return found


def recording(path: Path, channels: int, frames: int) -> np.ndarray:
    samples = np.random.default_rng(1).integers(-30_000, 30_000, (frames, channels)).astype("<i2")
    header = struct.pack("<4sQIH", b"VIB1", 1_267_401_600_000_007, 25_600_500, channels)
    path.write_bytes(header + samples.tobytes())
    return samples


def blocks(vib: Format, path: Path, **options: bool) -> list[Block]:
    return list(vib.read(path, "pump", Options(**options)))  # type: ignore[arg-type]


def test_the_documents_importer_reads_what_it_describes(vib: Format, tmp_path: Path) -> None:
    path = tmp_path / "a.vib"
    samples = recording(path, 3, 1_000_000)
    found = blocks(vib, path)
    assert vib.recognises(path.read_bytes()[:512])
    for channel in range(3):
        ours = [block for block in found if block.signal == f"pump/ch{channel + 1}"]
        assert np.array_equal(np.concatenate([block.samples for block in ours]), samples[:, channel])
        assert ours[0].start == Stamp(1_267_401_600_000_007_000, 1000)
        assert {block.start for block in ours[1:]} == {None}
        assert ours[0].rate == Fraction(51201, 2)


def test_the_documents_importer_refuses_what_is_damaged(vib: Format, tmp_path: Path) -> None:
    path = tmp_path / "a.vib"
    samples = recording(path, 2, 100)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BadSourceError, match="truncated"):
        blocks(vib, path)
    assert np.array_equal(blocks(vib, path, partial=True)[0].samples, samples[:99, 0])
    path.write_bytes(b"VIB1")
    with pytest.raises(BadSourceError, match="fewer than its header"):
        blocks(vib, path)
