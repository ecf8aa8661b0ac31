"""Finding pressure drops and timing their onset, on plain arrays.

Two steps, as a person would do it. `find_drops` walks over short window means and
marks where the level falls by far more than it usually wanders. `pick_onset`
then looks at the samples around such a place and fits when the fall began, to a
fraction of a sample.

The onset is a least-squares fit of ``level + slope * t - drop * (1 - exp(-(t - onset) / rise))``.
Level, slope and drop enter linearly and are eliminated by projection; onset and
rise time are searched on a grid that is refined around its best point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import UsageError

__all__ = ["Onset", "find_drops", "pick_onset"]

Float = npt.NDArray[np.float64]

# Windows of the mean on each side of a candidate, and the fewest windows apart
# that two drops can be.
_SIDE = 5
_APART = 50
_LEAD_S = 0.12
_TAIL_S = 0.05
_SMOOTH_S = 0.005


@dataclass(frozen=True, slots=True)
class Onset:
    """When a drop began: fractional sample index, its standard error, and the fit."""

    index: float
    error: float
    drop: float
    rise: float


def find_drops(means: npt.ArrayLike, threshold: float = 12.0) -> npt.NDArray[np.intp]:
    """Windows at which the level falls abruptly.

    Parameters:
        means: mean of consecutive windows (shape n), any unit.
        threshold: how many robust standard deviations of the usual change a fall
            must exceed, above 0.

    Returns:
        Indices of the windows at which a fall is steepest, ascending.
    """
    level = np.asarray(means, dtype=np.float64)
    if threshold <= 0:
        raise UsageError(f"threshold={threshold} must be above 0")
    if len(level) < 4 * _SIDE:
        return np.empty(0, dtype=np.intp)
    sums = np.concatenate(([0.0], np.cumsum(level - level[0])))
    after = (sums[2 * _SIDE :] - sums[_SIDE:-_SIDE]) / _SIDE
    before = (sums[_SIDE:-_SIDE] - sums[: -2 * _SIDE]) / _SIDE
    fall = before - after
    usual = 1.4826 * np.median(np.abs(fall - np.median(fall)))
    score = fall / max(usual, np.finfo(float).tiny)
    found: list[int] = []
    for peak in np.argsort(score)[::-1]:
        if score[peak] < threshold:
            break
        if all(abs(int(peak) - other) >= _APART for other in found):
            found.append(int(peak))
    return np.sort(np.asarray(found, dtype=np.intp)) + _SIDE


def pick_onset(samples: npt.ArrayLike, sample_rate: float) -> Onset:
    """Time the beginning of the steepest fall in a stretch of samples.

    Parameters:
        samples: a stretch (shape n, any real dtype) with the fall in it and at
            least 0.12 s before and 0.05 s after it.
        sample_rate: in Hz.

    Returns:
        The onset as fractional index into `samples`, with its standard error in samples.

    Raises:
        UsageError: the stretch is too short.
    """
    x = np.asarray(samples, dtype=np.float64)
    lead, tail = round(_LEAD_S * sample_rate), round(_TAIL_S * sample_rate)
    if len(x) < 2 * (lead + tail):
        raise UsageError(
            f"{len(x)} samples are too few to time an onset at {sample_rate} Hz; give at least {2 * (lead + tail)}"
        )
    steepest = _steepest(x, max(round(_SMOOTH_S * sample_rate), 2), lead, tail)
    window = x[steepest - lead : steepest + tail]
    time = np.arange(len(window), dtype=np.float64)

    onsets = np.linspace(lead - 0.03 * sample_rate, lead + 0.01 * sample_rate, 81)
    rises = np.geomspace(0.001, 0.03, 15) * sample_rate
    for _ in range(4):
        left = _residual(window, time, onsets, rises)
        row, column = np.unravel_index(int(np.argmin(left)), left.shape)
        onset, rise = float(onsets[row]), float(rises[column])
        step = float(onsets[1] - onsets[0])
        factor = float(rises[1] / rises[0])
        best = float(left[row, column])
        onsets = np.linspace(onset - 2 * step, onset + 2 * step, 21)
        rises = np.geomspace(rise / factor, rise * factor, 15)
    return Onset(
        index=steepest - lead + onset,
        error=_standard_error(window, time, onset, rise, best),
        drop=_drop(window, time, onset, rise),
        rise=rise / sample_rate,
    )


def _steepest(x: Float, width: int, lead: int, tail: int) -> int:
    """Where a boxcar-smoothed difference is most negative, away from the ends."""
    sums = np.concatenate(([0.0], np.cumsum(x)))
    smooth = (sums[width:] - sums[:-width]) / width
    change = smooth[width:] - smooth[:-width]
    inner = change[lead : len(change) - tail]
    return int(np.argmin(inner)) + lead + width


def _shapes(time: Float, onsets: Float, rises: Float) -> Float:
    """Unit falls for each pair of onset and rise, shape (onsets, rises, time)."""
    since = np.maximum(time - onsets[:, None, None], 0.0)
    return np.asarray(np.expm1(-since / rises[None, :, None]), dtype=np.float64)


def _without_line(rows: Float, time: Float) -> Float:
    """Rows (..., n) with their best straight line taken out."""
    centred = (time - time.mean()) / np.linalg.norm(time - time.mean())
    level = rows - rows.mean(axis=-1, keepdims=True)
    return np.asarray(level - (level @ centred)[..., None] * centred, dtype=np.float64)


def _residual(window: Float, time: Float, onsets: Float, rises: Float) -> Float:
    """Sum of squares left by the best fit for each pair, shape (onsets, rises)."""
    shapes = _without_line(_shapes(time, onsets, rises), time)
    target = _without_line(window, time)
    energy = np.maximum(np.einsum("ijk,ijk->ij", shapes, shapes), np.finfo(float).tiny)
    along = np.einsum("ijk,k->ij", shapes, target)
    # Only falls count: a rise would have a negative amplitude.
    return np.asarray(target @ target - np.where(along > 0, along, 0.0) ** 2 / energy)


def _drop(window: Float, time: Float, onset: float, rise: float) -> float:
    """Height of the fitted fall, in the unit of the samples."""
    shape = _without_line(_shapes(time, np.array([onset]), np.array([rise]))[0, 0], time)
    return float(shape @ _without_line(window, time) / (shape @ shape))


def _standard_error(window: Float, time: Float, onset: float, rise: float, best: float) -> float:
    """From the curvature of the residual along the onset, in samples."""
    near = _residual(window, time, np.array([onset - 0.5, onset + 0.5]), np.array([rise]))
    curvature = float(near.sum() - 2.0 * best) / 0.25
    variance = best / (len(window) - 5)
    return float(np.sqrt(2.0 * variance / curvature)) if curvature > 0 else float("inf")
