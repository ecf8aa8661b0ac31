"""Pages of Parquet files that are larger than memory is meant for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isochrony.errors import BadSourceError
from isochrony.importers import Options, parquet_pages
from isochrony.importers import parquet as importer

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 300_000


def written(path: Path, text: int = 0, **options: Any) -> Path:
    """Columns of which one is constant, and one of texts if a length is given, in two row groups."""
    columns: dict[str, Any] = {"value": np.arange(ROWS, dtype="f8"), "flat": np.zeros(ROWS, "f8")}
    table = pyarrow.table(columns | ({"text": ["x" * text] * ROWS} if text else {}))
    parquet.write_table(table, path, row_group_size=ROWS // 2, **options)
    return path


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_the_sizes_of_pages_are_those_of_their_column(
    tmp_path: Path, compression: str, version: str, dictionary: bool
) -> None:
    path = written(
        tmp_path / "a.parquet",
        text=300,
        compression=compression,
        data_page_version=version,
        use_dictionary=dictionary,
        write_statistics=True,
    )
    metadata = parquet.ParquetFile(path).metadata
    with path.open("rb") as file:
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(column)
                sizes = list(parquet_pages._page_sizes(file, chunk))
                # Headers count to the column, too.
                headers = chunk.total_uncompressed_size - sum(sizes)
                assert 10 * len(sizes) <= headers <= 1500 * len(sizes), (sizes, chunk)


def test_a_page_that_is_too_large_is_refused_with_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = written(tmp_path / "large.parquet", use_dictionary=False, data_page_size=1 << 30, max_rows_per_page=ROWS)
    small = written(tmp_path / "small.parquet", use_dictionary=False, data_page_size=1 << 16)
    largest = {path: max(sizes(path)) for path in (large, small)}
    assert largest[large] > 4 * largest[small]
    limit = 2 * largest[small]
    monkeypatch.setattr(parquet_pages, "MOST_PAGE_BYTES", limit)
    options = Options(rate=Fraction(100))
    values = np.concatenate(
        [block.samples for block in importer.read(small, "s", options) if block.signal == "s/value"]
    )
    np.testing.assert_array_equal(values, np.arange(ROWS))
    with pytest.raises(BadSourceError) as caught:
        list(importer.read(large, "s", options))
    text = str(caught.value)
    assert f"has a page of {largest[large]} bytes in column 'value' of row group 0" in text, text
    assert f"at most {limit} are decoded at once" in text
    assert "data_page_size=2**20" in text


def sizes(path: Path) -> list[int]:
    chunk = parquet.ParquetFile(path).metadata.row_group(0).column(0)
    with path.open("rb") as file:
        return list(parquet_pages._page_sizes(file, chunk))


def test_headers_that_are_damaged_are_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", use_dictionary=False)
    chunk = parquet.ParquetFile(path).metadata.row_group(0).column(0)
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(3)
    for _ in range(300):
        spoilt = data.copy()
        at = chunk.data_page_offset
        spoilt[at : at + 40] = rng.integers(0, 256, 40, "u1").tobytes()
        path.write_bytes(spoilt)
        try:
            sizes(path)
        except BadSourceError as error:
            assert "no page begins there" in str(error)
