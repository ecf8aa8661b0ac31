"""BEARINGS: how well microphones time a call, and where a plane wave comes from: the arithmetic of `hearing`.

Errors are standard deviations; bearings are radians from north to east.
"""

import numpy as np
from meadow import RATE

LOW, HIGH = BAND = 600, 9000  # Hz
CALL = 8192  # samples around a call


def error_of_time(peak: np.ndarray, power: np.ndarray, hz: np.ndarray) -> np.ndarray:
    """How well one microphone times a call in a window of noise: Cramér and Rao's bound.

    `peak` is the correlation of two microphones, which is the call's share of the power, and `power` is the spectrum.
    """
    noise, noise_hz2 = (1 - peak) / peak, (HIGH**3 - LOW**3) / (HIGH - LOW) / 3
    # Mean squares of frequencies: of the noise alone, and of the call alone.
    call_hz2 = power @ hz**2 / power.sum(axis=1) * (1 + noise) - noise_hz2 * noise
    independent = 2 * (HIGH - LOW) * CALL / RATE
    return np.sqrt((noise + noise**2 * noise_hz2 / call_hz2 / 2) / (independent * 4 * np.pi**2 * call_hz2))


def bearings(late: np.ndarray, time_error: np.ndarray, mics: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where plane waves come from that reach microphones `late`, the error, and how far no plane wave does, in errors."""
    # With the slowness s a wave reaches the microphone at m later by s · m.
    design = np.column_stack([mics, np.ones(len(mics))])
    waves = late @ np.linalg.pinv(design).T
    left = np.sqrt(np.square(late - waves @ design.T).sum(axis=1)) / time_error
    error = time_error * np.sqrt(np.trace(np.linalg.inv(design.T @ design)[:2, :2]) / 2)
    return np.arctan2(-waves[:, 0], -waves[:, 1]), error / np.hypot(*waves[:, :2].T), left
