"""FUSION: from bearings and arrival times to places, and from features to kinds: the arithmetic of `localise`.

Errors are standard deviations, bearings are radians from north to east, places are metres to the east and north.
"""

import numpy as np
from meadow import MICS, SOUND, SOUND_ERROR


def place(
    arrays: np.ndarray, bearings: np.ndarray, bearing_errors: np.ndarray, late: np.ndarray, late_errors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """East, north and time of a call, and the speed of sound, by weighted least squares; and their covariance.

    Bearings are from the middles of the `arrays`, arrival times `late` of their first microphones.
    """
    across = np.column_stack([np.cos(bearings), -np.sin(bearings)])
    near = np.linalg.lstsq(across, (across * arrays).sum(axis=1))[0]  # to all lines of sight
    state = np.array([*near, np.mean(late - np.hypot(*(near - arrays).T) / SOUND), SOUND])
    weights = 1 / np.array([*bearing_errors, *late_errors, SOUND_ERROR])
    for _ in range(8):
        (east, north), way = (state[:2] - arrays).T, state[:2] - arrays - MICS[0]
        far, sound = np.hypot(*way.T), state[3]
        turned = np.angle(np.exp(1j * (bearings - np.arctan2(east, north))))
        left = np.array([*turned, *(late - far / sound - state[2]), SOUND - sound])
        by_angle = np.column_stack([north, -east, 0 * east, 0 * east]) / (east**2 + north**2)[:, None]
        by_time = np.column_stack([way / far[:, None] / sound, 1 + 0 * far, -far / sound**2])
        design = np.concatenate([by_angle, by_time, [[0, 0, 0, 1]]]) * weights[:, None]
        state = state + np.linalg.lstsq(design, left * weights)[0]
    return state, np.linalg.inv(design.T @ design)


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
