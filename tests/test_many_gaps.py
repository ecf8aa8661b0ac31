"""Many gaps stay lazy."""

import numpy as np
import pytest
from made import START

import isochrony as iso


def test_many_gaps_stay_lazy(store: iso.Store) -> None:
    signal = store.create("x", dtype="u1", rate=1000, start=START)
    signal.append(np.ones(400_000, "u1"))
    for start in range(1, 4_000, 2):
        signal.mark_invalid(start, start + 1)
    gaps = signal.gaps
    assert len(gaps) == 2000
    assert gaps[1999].start == 3999
    assert gaps[-1] == gaps[1999]
    assert [g.start for g in gaps[10:14]] == [21, 23, 25, 27]
    assert [g.start for g in gaps[13:9:-2]] == [27, 23]
    assert gaps.missing == 2000
    with pytest.raises(IndexError, match="2000"):
        gaps[2000]
    assert sum(1 for _ in gaps) == 2000
    assert np.asarray(gaps).shape == (2000, 2)
