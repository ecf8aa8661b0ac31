"""FUSION: from bearings and arrival times to places, and from features to kinds: the arithmetic of `localise`.

Errors are standard deviations, bearings are radians from north to east, places are metres to the east and north.
"""

from itertools import combinations
from typing import Any

import numpy as np
from meadow import SOUND, SOUND_ERROR

MISFIT = 30  # squares of errors over their standard deviations: one call of a million has more


def place(heard: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, float]:
    """East, north and time of a call, and the speed of sound, by weighted least squares; their covariance; the misfit.

    Bearings are from the middles of the arrays, arrival times of the microphone of each that listens for them, an "ear".
    """
    arrays, bearing, late = heard["middle"], heard["bearing"], heard["late"]
    across = np.column_stack([np.cos(bearing), -np.sin(bearing)])
    near = np.linalg.lstsq(across, (across * arrays).sum(axis=1))[0]  # to all lines of sight
    state = np.array([*near, np.mean(late - np.hypot(*(near - arrays).T) / SOUND), SOUND])
    weights = 1 / np.array([*heard["bearing_error"], *heard["late_error"], SOUND_ERROR])
    for _ in range(8):
        (east, north), way = (state[:2] - arrays).T, state[:2] - arrays - heard["ear"]
        far, sound = np.hypot(*way.T), state[3]
        turned = np.angle(np.exp(1j * (bearing - np.arctan2(east, north))))
        left = np.array([*turned, *(late - far / sound - state[2]), SOUND - sound])
        by_angle = np.column_stack([north, -east, 0 * east, 0 * east]) / (east**2 + north**2)[:, None]
        by_time = np.column_stack([way / far[:, None] / sound, 1 + 0 * far, -far / sound**2])
        design = np.concatenate([by_angle, by_time, [[0, 0, 0, 1]]]) * weights[:, None]
        if not (np.isfinite(design).all() and np.abs(state).max() < 1e6):
            return state, np.full((4, 4), np.nan), np.inf
        step, _, rank, _ = np.linalg.lstsq(design, left * weights)
        state = state + step
    covariance = np.linalg.inv(design.T @ design) if rank == 4 else np.full((4, 4), np.nan)
    return state, covariance, float(np.square(left * weights).sum()) if rank == 4 else np.inf


def agreeing(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The place of a call by all arrays that heard it, or by all but one where that one contradicts; or none."""
    for count in (len(calls), len(calls) - 1):
        placed = []
        for some in combinations(calls, count) if count > 1 else ():
            heard = {key: np.array([one[key] for one in some]) for key in calls[0]}
            state, covariance, misfit = place(heard)
            if misfit < MISFIT:
                placed.append({**heard, "state": state, "covariance": covariance})
        if len(placed) == 1:
            return placed
    return []


def ellipse(covariance: np.ndarray) -> tuple[float, float, float]:
    """Half axes of the ellipse that holds 95 % of places, and the bearing of the longer one in degrees."""
    squares, axes = np.linalg.eigh(covariance)
    minor, major = np.sqrt(squares * -2 * np.log(0.05))
    return major, minor, np.degrees(np.arctan2(*axes[:, 1]))


class Kinds:
    """Tells kinds by features that are independent and Gaussian, as they are in calls whose kinds are known."""

    def __init__(self, features: np.ndarray, kinds: np.ndarray) -> None:
        self.names = np.unique(kinds)
        self.means = np.array([features[kinds == name].mean(axis=0) for name in self.names])
        self.deviations = np.array([features[kinds == name].std(axis=0) for name in self.names])

    def tell(self, features: np.ndarray) -> str:
        """The kind that is most likely, of what several arrays heard (rows of features)."""
        away = (features[:, None] - self.means) / self.deviations
        return str(self.names[np.argmax((-0.5 * away**2 - np.log(self.deviations)).sum(axis=(0, 2)))])
