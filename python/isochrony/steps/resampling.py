"""Samples at another rate: steps of `isochrony.Plan`."""

from __future__ import annotations

from typing import Literal, Self

from ..errors.native import OptionError
from ..options import choice, finite, whole
from .chain import Chain

__all__ = ["ResamplingSteps"]

_EDGES = ("inside", "zeros", "steady")


class ResamplingSteps(Chain):
    """Part of `isochrony.Plan`: samples at another rate, with indices of their own.

    Output sample ``j`` lies at input index ``j * down / up``, whatever range is scanned, and has the civil time of that
    instant. Results of one signal at one ratio share their indices and can be zipped; for signals with different clocks
    use `align`.
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
        """Resample to another rate without delay: a lowpass at half the lower rate, evaluated at the new instants.

        Returns:
            Samples at the new rate, with indices of their own: float32 for float32, in single precision, complex ones
            by their parts, otherwise float64. Edges: as `edges` says, at both ends of each gap-free range. No delay in
            the signal; results wait for the samples that the lowpass needs.

        Parameters:
            rate_hz: the new rate, above 0 Hz; its ratio to the signal's nominal rate is taken exactly, whatever it is.
            up, down: instead of it, `up` output samples for each `down` input samples, from 1; one left out is 1.
            attenuation_db: attenuation of aliases and images, from half the lower rate on; 20 to 160 dB. Rounding of
                float32 samples is 120 to 130 dB down.
            passband: passband as a share of half the lower rate, 0.05 to 0.99: the gain is within about
                ``10**(-attenuation_db / 20)`` of 1.
            edges: at the ends of each gap-free range "inside" gives only results that depend on its own samples, which
                leaves out about ``(attenuation_db - 8) / (14 * (1 - passband))`` samples at the lower rate and up to
                four more on each side, 66 to 70 by default, and up to half as many again where a large ratio is done in
                stages (85 for ``up=100``); "zeros" and "steady" give a result for each instant, as if zeros, or the
                first and last sample, continued outside.

        Conventions:
            With ``edges="zeros"`` there are as many samples as from ``scipy.signal.resample_poly``, and they agree
            with it, given a lowpass of this passband and attenuation as its ``window``, to within `attenuation_db`;
            its default window is shorter and has a narrower passband. A ratio of 1 copies samples. Constants are
            preserved. NaN and infinities reach as far as the lowpass, which never reaches across a gap, a clock step
            or what a filter removed. Up to 2**17 weights (most ratios of small numbers) are exact; beyond, they are
            interpolated by cubics to within `attenuation_db`. Large ratios are done in stages.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, or a count below 1; not exactly one of
                `rate_hz` and `up` or `down`.
            PlanError: another value out of range; rates more than 2**20 apart; input that is not samples.

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
            raise OptionError("resample needs rate_hz= or a ratio; give rate_hz=, or up=, down= or both")
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
        """Reduce the rate by a whole factor: samples whose index is a multiple of it, after an anti-aliasing lowpass.

        The lowpass has linear phase and no delay; this is ``resample(up=1, down=factor)``, see there.

        Returns:
            As `resample`: samples at the lower rate, with indices of their own, without delay.

        Parameters:
            factor: input samples per output sample, from 1.
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
