"""Tapers: factors by which the samples of a window are multiplied, so that its ends do not show in its spectrum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors.native import OptionError
from ..options import whole

if TYPE_CHECKING:
    from typing import TypeAlias

    #: A taper: its name, or its name and its parameter.
    Taper: TypeAlias = str | tuple[str, float]

__all__ = ["TAPERS", "adds_up", "taper_factors", "taper_text"]

#: Names of tapers, and of their parameter if they have one.
TAPERS = {
    "boxcar": None,
    "bartlett": None,
    "hann": None,
    "hamming": None,
    "blackman": None,
    "blackmanharris": None,
    "nuttall": None,
    "flattop": None,
    "kaiser": "beta",
    "tukey": "alpha",
    "gaussian": "std",
}


def taper_text(taper: object) -> str:
    """A taper as plans save it: ``"hann"``, ``"kaiser(8.6)"``.

    Raises:
        OptionError: there is none of that name, or it lacks its parameter or has one too many.
    """
    if isinstance(taper, str) and taper in TAPERS and TAPERS[taper] is None:
        return taper
    if isinstance(taper, tuple) and len(taper) == 2 and TAPERS.get(taper[0]) is not None:
        try:
            return f"{taper[0]}({float(taper[1])!r})"
        except (TypeError, ValueError):
            pass
    legal = ", ".join(f'("{name}", {value})' if value else f'"{name}"' for name, value in TAPERS.items())
    raise OptionError(f"taper={taper!r} is refused; give one of {legal}")


def taper_factors(taper: Taper, width: int, *, symmetric: bool = False) -> npt.NDArray[np.float64]:
    """The factors of a taper (window function), as `scipy.signal.get_window` gives them.

    Parameters:
        taper: name of the taper, such as "hann"; or ("kaiser", beta) with beta from 0 to 700, ("tukey", alpha) with
            alpha from 0 to 1, ("gaussian", std) with std in samples, above 0.
        width: length in samples, from 1.
        symmetric: True: both ends alike, for the design of filters. False: periodic in `width`, for spectra.

    Returns:
        An array, shape (width,), float64.

    Raises:
        OptionError: no such taper, or its parameter or `width` is out of range.

    >>> import isochrony as iso
    >>> iso.taper_factors("hann", 4)
    array([0. , 0.5, 1. , 0.5])
    """
    from .._native import taper_factors as factors

    return np.array(factors(taper_text(taper), whole("taper_factors width=", width, "samples"), symmetric))


def adds_up(taper: Taper, nfft: int, hop: int, *, tolerance: float = 1e-10) -> bool:
    """Whether overlapping tapered windows add up to a constant (COLA, constant overlap-add).

    If so, overlap-add restores a signal from its windows, such as those of `Plan.stft`.

    Parameters:
        taper: as in `taper_factors`; periodic.
        nfft: length of a window in samples, from 1.
        hop: samples from one window to the next, from 1 to `nfft`.
        tolerance: largest legal deviation of a sum from their median, relative to it.

    Returns:
        A bool.

    Raises:
        OptionError: a parameter out of range.

    >>> import isochrony as iso
    >>> iso.adds_up("hann", 64, 16), iso.adds_up("hann", 64, 48)
    (True, False)
    """
    from .._native import adds_up as native

    factors = taper_factors(taper, nfft).tolist()
    return native(factors, whole("adds_up hop=", hop, "samples"), float(tolerance))
