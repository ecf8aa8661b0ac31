"""STACKING_PROFILE: how long each step of stacking takes, by the format of frames: figure 7 of the paper.

Of frames of 2048 x 1489 a task takes, without writing, at least 1.9 ms (raw), 24 ms (gzip) and 6.1 ms (RICE) on two
busy cores. It was 9.6, 99 and 35 ms before three changes: only the tile is read; a gzip file is decompressed at once,
not in parts; wcslib gives coordinates without `astropy.wcs.WCS`, which looks for distortions first. In the paper gzip
takes twice as long as raw, coordinates 10 to 20 % of the time, and calibration with what follows less than 1 ms.
"""

import itertools
import tempfile
import time
from pathlib import Path

import numpy as np
from coadd import Stack
from cutouts import STEPS, cutout
from frames import SUFFIXES, write
from sky import Source

ALL_STEPS = (*STEPS, "writeStacking (once a source)")


def profile(sources: list[Source], seed: int, shape: tuple[int, int], count: int = 20) -> dict[str, np.ndarray]:
    """Median seconds of ALL_STEPS by format, of tasks that each read a file of their own.

    A file is read right after it was written, that is, from memory: storage comes on top.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for form in SUFFIXES:
            rows = []
            for number, source in zip(range(count), itertools.cycle(sources), strict=False):
                path = write(Path(folder), seed, number, form, shape)
                stack, cut = Stack(source), cutout((number, source.ra, source.dec, str(path)), path)
                begin = time.perf_counter()
                stack.add(cut)
                added = time.perf_counter()
                stack.write(Path(folder) / "stack.fits")
                written = time.perf_counter()
                *before, last = cut["seconds"]
                rows.append([*before, last + added - begin, written - added])
                path.unlink()
            found[form] = np.median(rows, axis=0)
    return found
