"""Timing the onset of a pressure drop, on plain arrays.

The plan of `fronts` says where a fall is steepest; `pick_onset` looks at the samples around and
fits when the fall began, to a fraction of a sample, with a standard error that holds.

The onset is a least-squares fit of ``level + slope * t - drop * (1 - exp(-(t - onset) / rise))``
after a linear prediction was taken from data and shapes alike. Pumps hum and turbulence is slow:
neighbouring samples of the noise are alike, and a fit that takes them for independent is three
times worse and believes to be better. The prediction is learned from the samples before the fall,
and what it leaves of the noise is white. Level, slope and drop enter linearly and are eliminated by
projection; onset and rise time are searched on a grid that is refined around its best point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["AROUND_S", "Onset", "pick_onset"]

Float = npt.NDArray[np.float64]

# What is fitted, before and behind the steepest fall.
_LEAD_S = 0.05
_TAIL_S = 0.05
# The prediction's length in samples, and the samples it is learned from; they end before a slow onset may begin.
_ORDER = 8
_LEARN_S = 0.3
# Where the onset is searched around the steepest fall.
_EARLIEST_S, _LATEST_S = -0.02, 0.005
# Grids, each three times finer than the one before: the last has steps of some thousandths of a sample.
_REFINED = 7
AROUND_S = _LEARN_S - _EARLIEST_S + _TAIL_S
"""So many seconds before and behind the steepest fall are more than are looked at."""


@dataclass(frozen=True, slots=True)
class Onset:
    """When a drop began: fractional sample index, its standard error, and the fit."""

    index: float
    error: float
    drop: float
    rise: float


def pick_onset(samples: npt.ArrayLike, sample_rate: float, about: int) -> Onset | None:
    """Time the beginning of a fall.

    Parameters:
        samples: a stretch with the fall in it (shape n, any real dtype).
        sample_rate: in Hz.
        about: index at which the fall is steepest.

    Returns:
        The onset as fractional index into `samples`, with its standard error in samples; None where there is less
        than 0.3 s and 0.02 s before the fall or 0.05 s behind it, or no fall that the noise does not explain.
    """
    x = np.asarray(samples, dtype=np.float64)
    lead, tail, learn = (round(span * sample_rate) for span in (_LEAD_S, _TAIL_S, _LEARN_S))
    quiet = about + round(_EARLIEST_S * sample_rate)
    if quiet - learn < 0 or about - lead - _ORDER < 0 or about + tail > len(x):
        return None
    fit = _Fit(x[about - lead - _ORDER : about + tail], _prediction(x[quiet - learn : quiet]))

    onsets = lead + np.arange(round(_EARLIEST_S * sample_rate), round(_LATEST_S * sample_rate) + 1.0)
    rises = np.geomspace(0.001, 0.03, 11) * sample_rate
    for _ in range(_REFINED):
        left = fit.residual(onsets, rises)
        row, column = np.unravel_index(int(np.argmin(left)), left.shape)
        onset, rise = float(onsets[row]), float(rises[column])
        step = float(onsets[1] - onsets[0])
        factor = float(rises[1] / rises[0])
        onsets = np.linspace(onset - 1.5 * step, onset + 1.5 * step, 9)
        rises = np.geomspace(rise / factor, rise * factor, 7)
    error = fit.error(onset, rise)
    if error is None:
        return None
    return Onset(about - lead + onset, error, fit.drop(onset, rise), rise / sample_rate)


def _prediction(noise: Float) -> Float:
    """The filter that takes from a sample what the samples before it foretell: 1, then least-squares coefficients."""
    x = noise - noise.mean()
    before = np.lib.stride_tricks.sliding_window_view(x, _ORDER)[:-1, ::-1]
    coefficients, *_ = np.linalg.lstsq(before, x[_ORDER:], rcond=None)
    return np.concatenate(([1.0], -coefficients))


class _Fit:
    """Falls against a window of samples, both whitened; index 0 is the first sample that can be predicted."""

    def __init__(self, window: Float, whitening: Float) -> None:
        self._whitening = whitening
        self._time = np.arange(len(window), dtype=np.float64) - _ORDER
        self._centred = self._time[_ORDER:] - self._time[_ORDER:].mean()
        self._centred /= np.linalg.norm(self._centred)
        self._target = self._alone(window)

    def _alone(self, rows: Float) -> Float:
        """Rows (..., n) whitened, with their best straight line taken out; a line stays a line when it is whitened."""
        count = rows.shape[-1] - _ORDER
        white = sum(
            tap * rows[..., _ORDER - back : _ORDER - back + count] for back, tap in enumerate(self._whitening.tolist())
        )
        level = white - np.mean(white, axis=-1, keepdims=True)
        return np.asarray(level - (level @ self._centred)[..., None] * self._centred, dtype=np.float64)

    def _shapes(self, onsets: Float, rises: Float) -> Float:
        """Unit falls for each pair of onset and rise, shape (onsets, rises, time)."""
        since = np.maximum(self._time - onsets[:, None, None], 0.0)
        return self._alone(np.expm1(-since / rises[None, :, None]))

    def residual(self, onsets: Float, rises: Float) -> Float:
        """Sum of squares left by the best fit for each pair, shape (onsets, rises)."""
        shapes = self._shapes(onsets, rises)
        energy = np.maximum(np.einsum("ijk,ijk->ij", shapes, shapes), np.finfo(float).tiny)
        along = shapes @ self._target
        # Only falls count: a rise would have a negative amplitude.
        return np.asarray(self._target @ self._target - np.where(along > 0, along, 0.0) ** 2 / energy)

    def drop(self, onset: float, rise: float) -> float:
        """Height of the fitted fall, in the unit of the samples."""
        shape = self._shapes(np.array([onset]), np.array([rise]))[0, 0]
        return float(shape @ self._target / (shape @ shape))

    def error(self, onset: float, rise: float) -> float | None:
        """From the curvature of the residual along the onset, the rise fitted anew, in samples; None if it has none."""
        best = float(self.residual(np.array([onset]), np.array([rise])).min())
        near = self.residual(np.array([onset - 0.5, onset + 0.5]), np.geomspace(rise / 1.5, rise * 1.5, 21)).min(axis=1)
        curvature = float(near.sum() - 2.0 * best) / 0.25
        # Onset, rise, drop, level and slope were fitted.
        variance = best / (len(self._target) - 5)
        return float(np.sqrt(2.0 * variance / curvature)) if curvature > 0 else None
