"""Samples at another rate: steps of `isochrony.Plan`."""

from __future__ import annotations

from typing import Literal, Self

from .chain import Chain
from .native_errors import OptionError
from .options import choice, finite, whole

__all__ = ["ResamplingSteps"]

_EDGES = ("inside", "zeros", "steady")


class ResamplingSteps(Chain):
    """Of `isochrony.Plan`: samples at another rate, on a grid of their own.

    Sample ``j`` of what comes out lies at index ``j * down / up`` of what goes in, whatever is scanned and wherever a
    stretch begins, and has the civil time of that place. What comes of one signal by one ratio shares its indices, by
    whatever way, and can be zipped; `align` brings signals of different clocks together.
    """

    __slots__ = ()

    def resample(
        self,
        rate_hz: float | None = None,
        *,
        up: int | None = None,
        down: int | None = None,
        attenuation_db: float = 100.0,
        passband: float = 0.9,
        edges: Literal["inside", "zeros", "steady"] = "inside",
    ) -> Self:
        """Give samples at another rate, without delay: a lowpass at half the lower rate, evaluated at the new places.

        Returns:
            Samples at the new rate, with indices of their own: float32 for float32, in single precision, complex ones
            by their parts, otherwise float64. Edges: as `edges` says, at both ends of each gap-free range. No delay.

        Parameters:
            rate_hz: the new rate, above 0 Hz; its ratio to the signal's nominal rate is taken exactly, whatever it is.
            up, down: instead of it, so many samples for each `down` of the signal, from 1; one left out is 1.
            attenuation_db: from half the lower rate on frequencies are weakened by so much, so that what aliases or
                mirrors is as weak; 20 to 160 dB. Of float32 samples roundings are 120 to 130 dB down.
            passband: what passes, as a part of half the lower rate, 0.05 to 0.99: within ``10**(-attenuation_db / 20)``
                or so of 1.
            edges: near the ends of each gap-free stretch "inside" gives only what is of samples in it alone, so that
                about ``(attenuation_db - 8) / (14 * (1 - passband))`` samples at the lower rate and up to four more
                are left out on each side, 66 to 70 by default, and up to half as many again where a large ratio is
                done in stages (85 for ``up=100``); "zeros" and "steady" give a sample for each place in the stretch,
                as if zeros, or its first and last sample, went on outside.

        Conventions:
            With ``edges="zeros"`` there are as many samples as ``scipy.signal.resample_poly`` gives, and they are those
            that it gives with a lowpass of this passband and attenuation as its ``window``, to within
            `attenuation_db`; its own, default window is shorter and passes less. A ratio of 1 gives samples as they
            are. Constants stay what they are. NaN and infinities reach as far as the lowpass.
            A gap, a clock step and what was removed are reached across by nothing, and are the same behind. Up to
            2**17 weights (most ratios of small numbers) are exact; beyond, they are cubics between phases, and as exact
            as `attenuation_db` says. Large ratios are done in stages.

        Raises:
            OptionError: an option without a legal value.
            PlanError: not one of `rate_hz` and `up` or `down`, rates more than 2**20 apart, or no samples come in.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(4410) / 44100
        >>> tone = iso.scan(np.sin(2 * np.pi * 1000 * t), rate=44100)
        >>> at_48 = tone.resample(48000, edges="zeros").collect()
        >>> want = np.sin(2 * np.pi * 1000 * np.arange(len(at_48)) / 48000)
        >>> len(at_48), bool(abs(at_48 - want)[200:-200].max() < 1e-5)
        (4800, True)
        """
        choice("edges", edges, _EDGES)
        if (rate_hz is None) == (up is None and down is None):
            raise OptionError("resample takes rate_hz=, or up= or down= or both; give one of them")
        return self._then(
            "resample",
            up=None if up is None else whole("resample up=", up, "samples"),
            down=None if down is None else whole("resample down=", down, "samples"),
            rate_hz=None if rate_hz is None else finite("resample rate_hz=", rate_hz, "Hz"),
            attenuation_db=finite("resample attenuation_db=", attenuation_db, "dB"),
            passband=finite("resample passband=", passband, ""),
            edges=edges,
        )

    def decimate(
        self,
        factor: int,
        *,
        attenuation_db: float = 100.0,
        passband: float = 0.9,
        edges: Literal["inside", "zeros", "steady"] = "inside",
    ) -> Self:
        """Keep every so-many-th sample, those whose index is a multiple of `factor`, after a lowpass against aliases.

        The lowpass has no recursion and no delay; this is ``resample(up=1, down=factor)``, see there.

        Returns:
            As `resample`: samples at the lower rate, with indices of their own, without delay.

        Parameters:
            factor: how many samples become one, from 1.
            attenuation_db, passband, edges: as in `resample`.

        Raises:
            OptionError, PlanError: as with `resample`.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.ones(3000), rate=1000).decimate(10, edges="steady").collect().round(6).max()
        np.float64(1.0)
        """
        return self.resample(
            up=1,
            down=whole("decimate factor=", factor, "samples"),
            attenuation_db=attenuation_db,
            passband=passband,
            edges=edges,
        )
