"""CUTOUTS: what a task of stacking does: it cuts a source out of a frame, calibrates it, and centres it on a pixel.

Its steps have the names of figure 7 of Raicu et al., "Accelerating large-scale data exploration through data diffusion"
(2008), section 5.2. Workers of a cluster are sent this module, `fits_tiles` and `pixels`.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from fits_tiles import DAMAGE, image_of, opened, radec2xy, tile
from pixels import reject_outliers, shifted

SIZE = 100  # pixels a side of a cutout, with the source in pixel 50
READ = 105  # a side of what is read, since the shift is periodic; odd, since an even size has a frequency without phase
STEPS = ("open", "radec2xy", "readHDU + getTile + curl + convertArray", "calibration + interpolation + doStacking")
#: Number of the source, right ascension and declination in degrees, path of the frame.
Task = tuple[int, float, float, str]


def cutout(task: Task, path: str | Path) -> dict[str, Any]:
    """Cut the source of a task out of the frame at a local path.

    Returns:
        values: SIZE x SIZE pixels in flux units, float32, NaN where rejected; weight: 1 / variance of a pixel;
        rejected: pixels that were read and not used; seconds: of each of STEPS.

    Raises:
        ValueError: the frame is damaged or does not show the source; names the frame.
    """
    _, ra, dec, frame = task
    times = [time.perf_counter()]
    try:
        with opened(Path(path)) as hdus:
            times.append(time.perf_counter())
            image = image_of(hdus)
            place = radec2xy(image.header, ra, dec)
            times.append(time.perf_counter())
            column, row = (int(one) for one in np.rint(place))
            values, outside = tile(image, column, row, READ)
            sky, gain = (float(image.header[key]) for key in ("SKY", "CAL"))
        times.append(time.perf_counter())
        if not gain > 0:
            raise ValueError(f"CAL={gain:g} in its header is refused; give flux units per count, above 0")
        noise = gain * reject_outliers(values)
        values = (values - sky) * gain
    except DAMAGE as error:
        raise ValueError(f"{frame}: {error}; copy the frame again, or leave it out") from error
    rejected = int(np.isnan(values).sum()) - outside
    values = shifted(values, (row, column) - place[::-1])[2 : 2 + SIZE, 2 : 2 + SIZE]
    times.append(time.perf_counter())
    seconds = np.diff(times).tolist()
    return {"values": values.astype("f4"), "weight": noise**-2, "rejected": rejected, "seconds": seconds}
