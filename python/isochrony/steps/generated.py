"""Methods of `isochrony.Plan` that only pass parameters: `make generate` writes them from declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

import numpy.typing as npt

from .. import options as _options
from . import tapers as _tapers
from .chain import Chain

if TYPE_CHECKING:
    from ..options import Duration, Length
    from ..plan.plan import Plan
    from .tapers import Taper

__all__ = ["GeneratedOperators"]


class GeneratedOperators(Chain):
    """Part of `isochrony.Plan`: operators whose parameters are checked here and passed on."""

    __slots__ = ()

    def align(self, to: Plan, *, method: Literal["linear", "cubic"] = "cubic") -> Self:
        """Resample this plan's samples at the times of another's, so that both can be zipped.

        Inputs:
            Real samples, shape (n,).

        Returns:
            Samples with the indices of `to`, shape (n,), float64, in this plan's unit. Edges: values that need samples
            beyond a gap, a clock step or an end are left out; gaps of `to` stay. No delay in time.

        Parameters:
            to: samples at whose times to resample.
            method ("linear" or "cubic"): Interpolation: a line through two samples, or a cubic through four.

        Conventions:
            Signals of one store have their own clocks; times are those of both clocks, to the nanosecond. In memory,
            without clocks, indices are times. A sine of amplitude A at w radians per sample has an error of at most A
            w² / 8 ("linear") or 3 A w⁴ / 128 ("cubic"): 5e-4 A and 4e-7 A at a hundredth of the rate. NaN spreads to
            the values that need it. Frequencies above half the rate of `to` alias: use `lowpass` first. Cut windows
            after the zip, which knows where the gap-free ranges of `to` begin.

        Raises:
            OptionError: an argument of the wrong type, or an unknown choice.
            PlanError: the input is not real samples; the two have no time in common.

        >>> import numpy as np, isochrony as iso
        >>> here, there = iso.scan(np.arange(5.0) ** 2, rate=10), iso.scan(np.zeros(9), rate=10)
        >>> here.align(there, method="linear").collect()
        array([ 0.,  1.,  4.,  9., 16.])
        """
        return self._then("align", (to,), method=_options.choice("method", method, ("linear", "cubic")))

    def between(self, start: int, end: int) -> Self:
        """Pass samples in a range of indices, or windows that lie wholly inside.

        Inputs:
            Samples, shape (n,), or windows, shape (n, N).

        Returns:
            The same items inside the range, of the same dtype. No edges, no delay.

        Parameters:
            start (samples, from -9.2e18 to 9.2e18): First index.
            end (samples, from -9.2e18 to 9.2e18): Index after the last.

        Conventions:
            Where it can, the optimiser makes this the range of the scan, so that nothing else is read; see `explain`.
            Windows are still counted from the first sample after a break.

        Raises:
            OptionError: an argument of the wrong type, or a whole number above 2^63 - 1.
            PlanError: a value out of range; the input is neither samples nor windows.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(12), rate=100).rewindow(4).between(3, 12).collect()
        array([[ 4,  5,  6,  7],
               [ 8,  9, 10, 11]])
        """
        return self._then(
            "between",
            start=_options.index("between start=", start, "samples", "from -9.2e18 to 9.2e18"),
            end=_options.index("between end=", end, "samples", "from -9.2e18 to 9.2e18"),
        )

    def ca_cfar(
        self,
        pfa: float,
        *,
        training: int = 16,
        guard: int = 2,
        sides: Literal["both", "before"] = "both",
        order: float | None = None,
        degrees: int = 2,
    ) -> Self:
        """Compare each power with those around it (cell-averaging CFAR): a level of 1 or more is a detection.

        Inputs:
            Real, non-negative powers: samples, shape (n,), or windows of one number each.

        Returns:
            Levels of the same shape, float32 for float32, otherwise float64: each power divided by its detection
            threshold. `triggers(on=1)` makes ranges of them. Edges: numbers without all their training cells give no
            level, which are training + guard at the beginning of each gap-free range and, with both sides, at its end.
            Delay: training + guard with both sides, otherwise none.

        Parameters:
            pfa (from 1e-15 to 0.1): Probability that noise is detected (false alarm).
            training (cells, from 1 to 2^28): Training cells on each side, from which the noise power is estimated.
            guard (cells, from 0 to 2^28): Cells next to the one under test that are left out, on each side.
            sides ("both" or "before"): Training cells on both sides, or only before, which has no delay.
            order (of the training cells, above 0 and at most 1): Estimates the noise by the cell above this share of
                the sorted training cells, such as 0.75, which other targets do not mask. Left out: by their mean.
            degrees (degrees of freedom, from 1 to 1e6): Number of squared Gaussian values of which a power is the mean:
                2 for complex samples and bins of a spectrum, 1 for squares of real samples, n for their mean over n
                samples.

        Conventions:
            Noise exceeds the threshold with probability `pfa`, whatever its power. With averaged cells and `degrees` of
            2 the factor is N (pfa^(-1/N) - 1), for other degrees it follows from the F distribution; with an order
            statistic it is Rohling's. NaN spreads to the levels whose cells contain it.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, a number that is not finite, a count below
                its least value, or a whole number above 2^63 - 1.
            PlanError: another value out of range; the input is not real; `order` with degrees other than 2.

        Source:
            H. M. Finn and R. S. Johnson (1968); H. Rohling, "Radar CFAR thresholding in clutter and multiple target
            situations" (1983).

        >>> import numpy as np, isochrony as iso
        >>> power = np.random.default_rng(1).exponential(size=2000)
        >>> power[700] = 60.0
        >>> iso.scan(power, rate=100).ca_cfar(1e-6).triggers(on=1).collect()
        array([[700, 701]])
        """
        return self._then(
            "ca_cfar",
            pfa=_options.finite("ca_cfar pfa=", pfa, ""),
            training=_options.whole("ca_cfar training=", training, "cells", 1, "from 1 to 2^28"),
            guard=_options.whole("ca_cfar guard=", guard, "cells", 0, "from 0 to 2^28"),
            sides=_options.choice("sides", sides, ("both", "before")),
            order=None if order is None else _options.finite("ca_cfar order=", order, "of the training cells"),
            degrees=_options.whole("ca_cfar degrees=", degrees, "degrees of freedom", 1, "from 1 to 1e6"),
        )

    def calibrate(
        self, gain: float = 1.0, offset: float = 0.0, unit: str | None = None, *, counts: bool = False
    ) -> Self:
        """Set the calibration of samples: values become `value * gain + offset`, in a unit.

        Inputs:
            Samples of any type, shape (n,).

        Returns:
            The same samples, shape (n,), of the same dtype, with another scale, offset and unit. No edges, no delay.

        Parameters:
            gain: Factor by which values are multiplied; not 0.
            offset: Added after that, in the new unit.
            unit (the name of a unit): Unit of the result. Left out: the unit stays as it is.
            counts: Start from the samples as stored, whatever calibration they have.

        Conventions:
            Nothing is computed or rounded here: samples keep their dtype, and a stored signal has them with their
            calibration. Operators, `collect` and files of columns have values in the new unit.

        Raises:
            OptionError: an argument of the wrong type, or a number that is not finite.
            PlanError: the input is not samples; a gain of 0, or one by which a count is not a finite number of units.

        >>> import numpy as np, isochrony as iso
        >>> volts = iso.scan(np.array([0, 100, 200], "i2"), rate=100).calibrate(0.01, unit="V")
        >>> volts.calibrate(250, -50, "kPa").collect()
        array([-50., 200., 450.])
        >>> volts.calibrate(2, unit="m", counts=True).collect()
        array([  0., 200., 400.])
        """
        return self._then(
            "calibrate",
            gain=_options.finite("calibrate gain=", gain, ""),
            offset=_options.finite("calibrate offset=", offset, ""),
            unit=None if unit is None else _options.text("calibrate unit=", unit, "the name of a unit"),
            counts=_options.flag("counts", counts),
        )

    def cfar(
        self,
        pfa: float | None = None,
        *,
        deviations: float | None = None,
        memory: Length = 1000,
        timeout: Length = 1000,
    ) -> Self:
        """Compare each number with the noise before it: a level of 1 or more is a detection.

        Inputs:
            Real samples, shape (n,), or windows of one number each, such as a score.

        Returns:
            Levels of the same shape, float32 for float32, otherwise float64: the distance from the mean of the noise,
            divided by the distance at which a number is detected. `triggers(on=1)` makes ranges of them. Edges: the
            first `memory` levels of each gap-free range are 0. No delay.

        Parameters:
            pfa (from 1e-15 to 0.1): Probability that noise is detected (false alarm). Give this or `deviations`.
            deviations (standard deviations, from 1 to 1000): Standard deviations above the mean from which a number is
                detected.
            memory (samples or windows or text, from 8 to 2^52 - 1): Time constant of the mean and deviation of the
                noise. This many numbers are learned from first.
            timeout (samples or windows or text, from 1 to 2^52 - 1): After this many consecutive detections, samples
                count as noise again, until one is not detected; so the model follows a lasting step.

        Conventions:
            Noise is Gaussian; its mean and deviation are exponentially weighted. With `pfa` the distance is that of
            Student's t distribution, because mean and deviation are estimates; the bias from excluding detections is
            corrected. NaN has the level NaN and does not count as noise.

        Raises:
            OptionError: an argument of the wrong type, a number that is not finite, a count below its least value, or a
                whole number above 2^63 - 1.
            PlanError: another value out of range; text that is not a length; both or neither of `pfa` and `deviations`;
                the input is not real.

        Source:
            L. Girod et al., "XStream: a signal-oriented data stream management system" (2008), section II-A.

        >>> import numpy as np, isochrony as iso
        >>> signal = np.random.default_rng(1).normal(size=(500, 32))
        >>> signal[400] *= 3
        >>> loudness = iso.scan(signal.ravel(), rate=48_000).rewindow(32).map(lambda s: (s * s).mean())
        >>> loudness.cfar(deviations=6, memory=100).triggers(on=1).collect() // 32
        array([[400, 401]])
        """
        return self._then(
            "cfar",
            pfa=None if pfa is None else _options.finite("cfar pfa=", pfa, ""),
            deviations=None
            if deviations is None
            else _options.finite("cfar deviations=", deviations, "standard deviations"),
            memory=_options.length("cfar memory=", memory, "samples or windows", 8, "from 8 to 2^52 - 1"),
            timeout=_options.length("cfar timeout=", timeout, "samples or windows", 1, "from 1 to 2^52 - 1"),
        )

    def combine_packets(
        self,
        *others: Plan,
        clusters: Sequence[int] | None = None,
        error_rates: npt.ArrayLike | None = None,
        search: int = 10,
    ) -> Self:
        """Recover transmitted packets from the copies that several receivers got, of which some have bit errors.

        Inputs:
            Windows of uint8 that do not overlap, shape (n, bytes): packets that end with the CRC-32 of their other
            bytes, little-endian. Windows at the same index are copies of one packet; a receiver that missed it has a
            gap.

        Returns:
            Samples of uint8, shape (n,): the bytes of every packet that is intact or could be corrected, at its index;
            a gap where a packet is lost. No edges, no delay.

        Parameters:
            *others: the packets of the other receivers, of the same length and timebase. Without any, only intact
                packets are output.
            clusters (from 0 to 2^31 - 1): Cluster number of each receiver, this plan's first. Left out: each receiver
                is its own cluster.
            error_rates (from 0 to below 0.5): Bit error rate of each receiver, below 0.5; values under 1e-9 are treated
                as 1e-9. Default: 0.01 for each.
            search (bits, from 0 to 20): Maximum number of uncertain bits that are tried both ways.

        Conventions:
            An intact copy is taken as it is. Otherwise each bit on which copies differ is decided by vote: within a
            cluster with weights ln((1 - p) / p), where p is a receiver's error rate, and each cluster has one vote as
            strong as that of its best receiver, because receivers of a cluster err together (`error_correlation` shows
            which do). If the result does not agree with the CRC, the bits with the closest votes are tried both ways,
            and the likeliest combination that agrees is taken. A wrong packet passes once in 2^(32 - search) such
            searches.

        Raises:
            OptionError: an argument of the wrong type, a number that is not finite, a count below its least value, or a
                whole number above 2^63 - 1.
            PlanError: another value out of range; windows that are not uint8, overlap, differ, or are shorter than 5
                bytes; lists without a number for each receiver.

        Source:
            D. Chase, "A class of algorithms for decoding block codes with channel measurement information" (1972).

        >>> import zlib, numpy as np, isochrony as iso
        >>> text = b"all quiet"
        >>> sent = np.frombuffer(text + zlib.crc32(text).to_bytes(4, "little"), "u1")
        >>> heard = [sent ^ (np.arange(13) == k) for k in (3, 3, 8)]
        >>> first, *others = (iso.scan(copy.astype("u1"), rate=100).rewindow(13) for copy in heard)
        >>> bytes(first.combine_packets(*others, clusters=[0, 0, 1]).collect()[:9])
        b'all quiet'
        """
        return self._then(
            "combine_packets",
            others,
            clusters=[]
            if clusters is None
            else _options.whole_list("combine_packets clusters=", clusters, "clusters", 0, "from 0 to 2^31 - 1"),
            error_rates=[]
            if error_rates is None
            else _options.finite_or_list("combine_packets error_rates=", error_rates, ""),
            search=_options.whole("combine_packets search=", search, "bits", 0, "from 0 to 20"),
        )

    def count(self) -> Self:
        """Count the items of the input: samples, windows, rows or ranges.

        Inputs:
            Anything.

        Returns:
            One integer; `collect` gives it as an `int`. No edges; known at the end.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(10), rate=100).rewindow(4).count().collect()
        2
        """
        return self._then("count")

    def delay(
        self,
        other: Plan,
        max_lag: Length,
        *,
        method: Literal["xcorr", "gcc_phat"] = "xcorr",
        refine: Literal["parabola", "band_limited"] | None = None,
        band_hz: npt.ArrayLike | None = None,
        regularise: float = 0.001,
    ) -> Self:
        """Measure by how many seconds the windows of another plan lag behind those of this one.

        Inputs:
            Windows of real samples, shape (n, N).

        Returns:
            Rows: `start`, `end` (int64), `time` where the signal knows civil time, `delay` (seconds, float64; positive
            if the second plan has the event later) and `peak` (float64), the correlation at that delay. One row for
            each pair of windows at the same indices; no edges, no delay.

        Parameters:
            other: windows of real samples, of the same length, hop and timebase.
            max_lag (samples or text, from 0 to 2^40): Largest delay, below the window's length.
            method ("xcorr" or "gcc_phat"): Correlation whose highest peak is the delay: coefficients of `xcorr`, or
                `gcc_phat`.
            refine ("parabola" or "band_limited"): Interpolation of the peak between samples. Left out: a parabola for
                "xcorr", band-limited for "gcc_phat".
            band_hz (Hz, from 0): Band of "gcc_phat", as there.
            regularise (of the largest, from 0 to 1e6): Regularisation of "gcc_phat", as there.

        Conventions:
            The delay is that of the highest peak. NaN where a window has NaN or is zero. A parabola through the highest
            value and its neighbours is biased towards the nearer sample: for a flat band by up to 0.011 samples if the
            band ends at a sixth of the rate, 0.026 at a quarter, 0.12 at half the rate. "band_limited" takes the peak
            of the band-limited function through all values and has no bias.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, a number that is not finite, a count below
                its least value, or a whole number above 2^63 - 1.
            PlanError: another value out of range; text that is not a length; the inputs are not such windows; a lag of
                a window's length or more; a band out of range, or one given for "xcorr".

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(200)
        >>> x, y = (np.exp(-((t - at) ** 2) / 50) for at in (90, 92.5))
        >>> here, there = (iso.scan(z, rate=100).rewindow(200) for z in (x, y))
        >>> here.delay(there, 10, refine="band_limited").select("delay", "peak").collect()
         delay (s)  peak
             0.025     1
        [1 rows]
        """
        return self._then(
            "delay",
            (other,),
            max_lag=_options.length("delay max_lag=", max_lag, "samples", 0, "from 0 to 2^40"),
            method=_options.choice("method", method, ("xcorr", "gcc_phat")),
            refine=None if refine is None else _options.choice("refine", refine, ("parabola", "band_limited")),
            band_hz=[] if band_hz is None else _options.finite_or_list("delay band_hz=", band_hz, "Hz"),
            regularise=_options.finite("delay regularise=", regularise, "of the largest"),
        )

    def detrend(self, kind: Literal["constant", "linear"] = "constant") -> Self:
        """Subtract from every window its mean or its regression line.

        Inputs:
            Windows, shape (n, N), real or complex.

        Returns:
            Windows of the same shape: float32 and complex64 stay, otherwise float64 or complex128. No edges, no delay.

        Parameters:
            kind ("constant" or "linear"): The mean ("constant") or the regression line ("linear").

        Conventions:
            As `scipy.signal.detrend`. Calibrated counts are values in their unit. NaN spreads to its window.

        Raises:
            OptionError: an argument of the wrong type, or an unknown choice.
            PlanError: input that is not windows of samples.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 3.0, 2.0, 4.0]), rate=100).rewindow(4).detrend("linear").collect().round(6)
        array([[-0.3,  0.9, -0.9,  0.3]])
        """
        return self._then("detrend", kind=_options.choice("kind", kind, ("constant", "linear")))

    def error_correlation(self, *others: Plan, every: int = 1000) -> Self:
        """Measure how strongly the bit errors of several receivers are correlated.

        Inputs:
            Windows of uint8 that do not overlap, shape (n, bytes): packets that end with the CRC-32 of their other
            bytes, little-endian. Windows at the same index are copies of one packet.

        Returns:
            Rows of r * r numbers for r receivers, shape (n, r * r), float64: one row for every so many packets, counted
            from index 0, the last one of those that remain. `rows.reshape(-1, r, r)[k, i, j]` is the phi coefficient of
            the bit errors of receivers i and j, -1 to 1, over the packets that both have; on the diagonal it is the
            share of wrong bits. No edges.

        Parameters:
            *others: the packets of the other receivers, of the same length and timebase.
            every (packets, from 1 to 1e9): Packets per row.

        Conventions:
            Errors are known where one receiver's copy agrees with its CRC; other packets are not counted. NaN where
            there is no such packet, or one of both receivers has no errors.

        Raises:
            OptionError: an argument of the wrong type, a count below its least value, or a whole number above 2^63 - 1.
            PlanError: another value out of range; fewer than two inputs; windows that are not uint8, overlap, differ,
                or are shorter than 5 bytes.

        >>> import zlib, numpy as np, isochrony as iso
        >>> text = b"all quiet"
        >>> sent = np.frombuffer(text + zlib.crc32(text).to_bytes(4, "little"), "u1")
        >>> heard = [sent, sent ^ (np.arange(13) == 3), sent ^ 3 * (np.arange(13) == 3)]
        >>> first, *others = (iso.scan(copy.astype("u1"), rate=100).rewindow(13) for copy in heard)
        >>> first.error_correlation(*others).collect().reshape(3, 3).round(2)
        array([[0.  ,  nan,  nan],
               [ nan, 0.01, 0.7 ],
               [ nan, 0.7 , 0.02]])
        """
        return self._then(
            "error_correlation",
            others,
            every=_options.whole("error_correlation every=", every, "packets", 1, "from 1 to 1e9"),
        )

    def fft(
        self,
        *,
        taper: Taper = "boxcar",
        scaling: Literal["none", "spectrum", "psd"] = "none",
        detrend: Literal["none", "constant", "linear"] = "none",
    ) -> Self:
        """Compute the discrete Fourier transform of every window.

        Inputs:
            Windows, shape (n, N), real or complex.

        Returns:
            Rows of complex numbers: shape (n, N // 2 + 1) for real samples, at `numpy.fft.rfftfreq(N, 1 / rate)` Hz,
            shape (n, N) in NumPy's order for complex ones; `Plan.frequencies` has the frequencies. complex64 for
            float32 and complex64, otherwise complex128. No edges, no delay.

        Parameters:
            taper: Taper by which windows are multiplied, as in `isochrony.taper_factors`, periodic.
            scaling ("none" or "spectrum" or "psd"): "none"; "spectrum", in which a sine of amplitude A has A/2; "psd",
                whose squared magnitudes are power per Hz, two-sided (both as `scipy.signal.stft`).
            detrend ("none" or "constant" or "linear"): What is subtracted from each window: its mean ("constant"), its
                regression line ("linear"), or nothing.

        Conventions:
            As `numpy.fft.rfft` and `fft`. Calibrated counts are values in their unit. NaN spreads to its window's row.
            The window is detrended first, then tapered.

        Raises:
            OptionError: an argument of the wrong type, or an unknown choice.
            PlanError: input that is not windows of samples; a taper's parameter out of range.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 0.0, -1.0, 0.0]), rate=100).rewindow(4).fft().collect().real
        array([[0., 2., 0.]])
        """
        return self._then(
            "fft",
            taper=_tapers.taper_text(taper),
            scaling=_options.choice("scaling", scaling, ("none", "spectrum", "psd")),
            detrend=_options.choice("detrend", detrend, ("none", "constant", "linear")),
        )

    def gcc_phat(
        self, other: Plan, max_lag: Length, *, band_hz: npt.ArrayLike | None = None, regularise: float = 0.001
    ) -> Self:
        """Cross-correlate the phases of windows with those of another plan (GCC-PHAT).

        Inputs:
            Windows of real samples, shape (n, N).

        Returns:
            Rows of 2 max_lag + 1 numbers, shape (n, 2 max_lag + 1), float64: one row for each pair of windows at the
            same indices. No edges, no delay; a window without a partner gives no row.

        Parameters:
            other: windows of real samples, of the same length, hop and timebase.
            max_lag (samples or text, from 0 to 2^40): Largest lag, below the window's length.
            band_hz (Hz, from 0): Lower and upper frequency of the band that has signal. Left out: all frequencies.
            regularise (of the largest, from 0 to 1e6): Added to each frequency's cross-power before dividing by it, as
                a share of the largest cross-power in the band. Frequencies with less than that count less, instead of
                adding noise.

        Conventions:
            Every frequency of the band has the same weight, whatever its power: a pure delay gives a peak of 1, as
            sharp as the band allows, and echoes are separated. Lags have the sign of `xcorr`. NaN spreads to its pair's
            row.

        Raises:
            OptionError: an argument of the wrong type, a number that is not finite, a count below its least value, or a
                whole number above 2^63 - 1.
            PlanError: another value out of range; text that is not a length; the inputs are not such windows; a lag of
                a window's length or more; a band outside 0 Hz to half the rate.

        Source:
            C. H. Knapp and G. C. Carter, "The generalized correlation method for estimation of time delay" (1976).

        >>> import numpy as np, isochrony as iso
        >>> noise = np.random.default_rng(1).standard_normal(1030)
        >>> here, there = (iso.scan(z, rate=100).rewindow(1024) for z in (noise[3:1027], noise[:1024]))
        >>> int(here.gcc_phat(there, 5).collect().argmax()) - 5
        3
        """
        return self._then(
            "gcc_phat",
            (other,),
            max_lag=_options.length("gcc_phat max_lag=", max_lag, "samples", 0, "from 0 to 2^40"),
            band_hz=[] if band_hz is None else _options.finite_or_list("gcc_phat band_hz=", band_hz, "Hz"),
            regularise=_options.finite("gcc_phat regularise=", regularise, "of the largest"),
        )

    def haar(self, levels: int, *, output: Literal["energies", "details", "coefficients"] = "energies") -> Self:
        """Compute the orthonormal Haar wavelet transform of every window: band energies, or coefficients.

        Inputs:
            Windows of real samples, shape (n, N), where N is a multiple of 2^levels.

        Returns:
            Rows: "energies" of the details of levels 1, 2 ... and of the last approximation, shape (n, levels + 1),
            which add up to the sum of the squared samples; the "details" of the last level, shape (n, N / 2^levels); or
            all "coefficients", shape (n, N). float32 for float32, otherwise float64. No edges, no delay.

        Parameters:
            levels (from 1 to 62): Number of times the window is halved.
            output ("energies" or "details" or "coefficients"): "energies", "details" of the last level, or all
                "coefficients".

        Conventions:
            Coefficients are ordered as in `np.concatenate(pywt.wavedec(window, "haar", level=levels))`: the
            approximation, then details from the last level to the first. Level l covers about rate / 2^(l + 1) to rate
            / 2^l Hz. NaN spreads to its window's row.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, a count below its least value, or a whole
                number above 2^63 - 1.
            PlanError: another value out of range; input that is not windows of real samples of such a length.

        >>> import numpy as np, isochrony as iso
        >>> steps = iso.scan(np.array([1.0, 1.0, 3.0, 3.0]), rate=100).rewindow(4)
        >>> steps.haar(2).collect().round(6)
        array([[ 0.,  4., 16.]])
        """
        return self._then(
            "haar",
            levels=_options.whole("haar levels=", levels, "levels", 1, "from 1 to 62"),
            output=_options.choice("output", output, ("energies", "details", "coefficients")),
        )

    def iir(
        self,
        kind: Literal["butter", "cheby1", "cheby2", "ellip"],
        band: Literal["lowpass", "highpass", "bandpass", "bandstop"],
        cutoff_hz: npt.ArrayLike,
        order: int = 4,
        *,
        ripple_db: float | None = None,
        attenuation_db: float | None = None,
        initial: Literal["zero", "steady"] = "zero",
    ) -> Self:
        """Filter samples recursively: a Butterworth, Chebyshev or elliptic filter in second-order sections.

        Inputs:
            Samples of any type, shape (n,).

        Returns:
            Samples with their indices, shape (n,): float32 for float32, complex64 and complex128 by their parts,
            otherwise float64; the state is double precision. Edges: the filter starts again in each gap-free range, as
            `initial` says, and after windows that a filter removed. Delay: that of the filter, which depends on
            frequency; `zero_phase` has none.

        Parameters:
            kind ("butter" or "cheby1" or "cheby2" or "ellip"): Filter type: "butter" is flat, "cheby1" has ripple in
                the passband, "cheby2" in the stopband, "ellip" in both.
            band ("lowpass" or "highpass" or "bandpass" or "bandstop"): Passband type.
            cutoff_hz (Hz, above 0): Corner frequency, or both corners of a band, between 0 and half the rate: where the
                gain is 1 / sqrt(2) ("butter"), `-ripple_db` ("cheby1", "ellip") or `-attenuation_db` ("cheby2").
            order (poles, from 1 to 32): Order of the lowpass prototype; a band filter has twice as many poles.
            ripple_db (dB, from 1e-6 to 600): Passband ripple of "cheby1" and "ellip".
            attenuation_db (dB, from 1e-6 to 600): Stopband attenuation of "cheby2" and "ellip".
            initial ("zero" or "steady"): State at the start of each gap-free range: zeros, or "steady", as if its first
                sample had lasted forever, so that a constant has no transient.

        Conventions:
            The design is that of `scipy.signal.iirfilter(order, cutoff_hz, btype=band, ftype=kind, output="sos")`, the
            result that of `sosfilt`; "steady" starts from `sosfilt_zi` times the first sample. NaN and infinities make
            all that follows in their gap-free range NaN.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, a number that is not finite, a count below
                its least value, or a whole number above 2^63 - 1.
            PlanError: another value out of range; `ripple_db` or `attenuation_db` missing for a kind that needs it, or
                given for another; another number of corners than the band has; a corner outside 0 Hz to half the rate;
                a filter that double precision cannot represent; input that is not samples.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(2000) / 1000
        >>> signal = np.sin(2 * np.pi * 5 * t) + np.sin(2 * np.pi * 200 * t)
        >>> slow = iso.scan(signal, rate=1000).iir("ellip", "lowpass", 20, 6, ripple_db=0.1, attenuation_db=80)
        >>> fast = iso.scan(signal, rate=1000).highpass(100)
        >>> [round(float(np.std(plan.collect()[1000:])), 2) for plan in (slow, fast)]
        [0.71, 0.71]
        """
        return self._then(
            "iir",
            kind=_options.choice("kind", kind, ("butter", "cheby1", "cheby2", "ellip")),
            band=_options.choice("band", band, ("lowpass", "highpass", "bandpass", "bandstop")),
            cutoff_hz=_options.finite_or_list("iir cutoff_hz=", cutoff_hz, "Hz"),
            order=_options.whole("iir order=", order, "poles", 1, "from 1 to 32"),
            ripple_db=None if ripple_db is None else _options.finite("iir ripple_db=", ripple_db, "dB"),
            attenuation_db=None
            if attenuation_db is None
            else _options.finite("iir attenuation_db=", attenuation_db, "dB"),
            initial=_options.choice("initial", initial, ("zero", "steady")),
        )

    def join(
        self,
        other: Plan,
        *,
        tolerance: Duration | None = None,
        suffix: str = "_right",
        how: Literal["inner", "left", "outer"] = "inner",
    ) -> Self:
        """Join rows with those of another plan at the same time: where their ranges overlap, or the nearest.

        Inputs:
            Rows with `start` and `end`, or ranges.

        Returns:
            Rows, one for each pair, with the fields of both, in the order of this plan's rows and then of the other's.
            Rows without a partner are left out, or have nulls, as `how` says. No edges; a row waits only as long as a
            partner can follow.

        Parameters:
            other: rows or ranges. Rows of one timebase match by their indices, others by civil time.
            tolerance (seconds or text, from 0 to 1e12): Largest distance of two rows' starts; each row then matches at
                most one. Left out: rows whose ranges overlap.
            suffix: Appended to names of the other plan's fields that this one has, too.
            how ("inner" or "left" or "outer"): Which rows without a partner are kept, with nulls as the fields of the
                other: none ("inner"), this plan's ("left"), or those of both plans ("outer").

        Conventions:
            With a tolerance, each row matches at most one of the other plan, whose start is nearest to its own and no
            further away; of two equally near ones the earlier. Rows whose time is not known match none. Times of one
            plan's rows that decrease, as after a clock was set back, end the run with an error. A live feed that
            restarts may begin a little before the time that was expected of its next sample: such rows match those that
            end after that time.

            An outer join places a row of the other plan without a partner at its start, after this plan's rows with the
            same start; a row whose time is not known follows the row before it in its plan. Rows of an outer join have
            no indices, so `merge` and a further `join` refuse them.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, or a number that is not finite.
            PlanError: a value out of range; text that is not a length; an input without `start` and `end`; inputs
                without a common time; two fields of one name.

        >>> import numpy as np, isochrony as iso
        >>> windows = iso.scan(np.arange(8), rate=100).rewindow(4)
        >>> windows.stats("max").join(windows.stats("min"), tolerance=0.01).select("max", "min").collect()
         max  min
           3    0
           7    4
        [2 rows]
        """
        return self._then(
            "join",
            (other,),
            tolerance=None if tolerance is None else _options.length_in_seconds("join tolerance=", tolerance),
            suffix=_options.text("join suffix=", suffix, ""),
            how=_options.choice("how", how, ("inner", "left", "outer")),
        )

    def merge(self, *others: Plan) -> Self:
        """Merge items of several plans in the order of their indices.

        Inputs:
            Samples, windows, ranges, or rows other than those of groups, which have no indices.

        Returns:
            All items of all inputs, of the same type, ordered by their first index; where two begin together, the first
            plan's comes first. No edges; an item waits until no earlier one can follow.

        Parameters:
            *others: plans of the same type and timebase.

        Conventions:
            Where inputs overlap, single windows or samples alternate, however they arrived in blocks. Where indices
            decrease, as after a rewind of a selection by time, the first ascending part of all inputs comes first, then
            what follows.

        Raises:
            PlanError: the plans have different types of items; rows of groups.

        >>> import numpy as np, isochrony as iso
        >>> windows = iso.scan(np.arange(9), rate=100).rewindow(3)
        >>> low, high = windows.filter(lambda s: s.max() < 3), windows.filter(lambda s: s.min() > 5)
        >>> high.merge(low).collect()
        array([[0, 1, 2],
               [6, 7, 8]])
        """
        return self._then("merge", others)

    def notch(self, hz: float, q: float = 30.0, *, initial: Literal["zero", "steady"] = "zero") -> Self:
        """Remove one frequency, such as mains hum, with a second-order recursive filter.

        Inputs:
            Samples of any type, shape (n,).

        Returns:
            Samples with their indices, shape (n,): float32 for float32, complex64 and complex128 by their parts,
            otherwise float64. Edges and delay as for `iir`.

        Parameters:
            hz (Hz, above 0): Frequency to remove, between 0 and half the rate.
            q (above 0): Quality factor: the frequency divided by the width of the band that is attenuated by 3 dB or
                more.
            initial ("zero" or "steady"): State at the start of each gap-free range, as in `iir`.

        Conventions:
            The design is `scipy.signal.iirnotch(hz, q)`: a band of width `hz / q` is attenuated by 3 dB or more;
            constants pass unchanged. NaN and infinities make all that follows in their gap-free range NaN.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, or a number that is not finite.
            PlanError: a value out of range; a frequency outside 0 Hz to half the rate; a band wider than half the rate;
                input that is not samples.

        >>> import numpy as np, isochrony as iso
        >>> hum = np.sin(2 * np.pi * 50 * np.arange(4000) / 1000)
        >>> left = iso.scan(hum + 3.0, rate=1000).notch(50, q=10, initial="steady").collect()
        >>> bool(abs(left[2000:] - 3.0).max() < 1e-3)
        True
        """
        return self._then(
            "notch",
            hz=_options.finite("notch hz=", hz, "Hz"),
            q=_options.finite("notch q=", q, ""),
            initial=_options.choice("initial", initial, ("zero", "steady")),
        )

    def on(self, host: str) -> Self:
        """Execute all operators before it on a worker of a Dask cluster, such as one beside the sensor, so that results
        are sent instead of samples. A feed made with `listen(..., bind=False)` is opened there.

        Inputs:
            Samples, windows, ranges or rows.

        Returns:
            The input, unchanged. No edges, no delay.

        Parameters:
            host: Name of the worker (``dask worker --name``), or its address.

        Raises:
            OptionError: an argument of the wrong type.
            PlanError: another `on` before it; a feed that two of them read; a run without `on=`.

        >>> import numpy as np, isochrony as iso
        >>> plan = iso.scan(np.arange(3), rate=100).rewindow(2).on("buoy").filter(lambda s: s.max() > 1)
        >>> print(str(plan).partition("rewindow")[2])
        (window=2) -> on(host="buoy") -> filter(predicate=s.max() > 1)
        """
        return self._then("on", host=_options.text("on host=", host, ""))

    def passthrough(self) -> Self:
        """Pass everything unchanged; the optimiser moves no operator across it.

        Inputs:
            Anything.

        Returns:
            The input, unchanged. No edges, no delay.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(3), rate=100).passthrough().collect()
        array([0, 1, 2])
        """
        return self._then("passthrough")

    def power(
        self,
        *,
        taper: Taper = "hann",
        scaling: Literal["density", "spectrum"] = "density",
        detrend: Literal["none", "constant", "linear"] = "constant",
    ) -> Self:
        """Compute the power spectrum of every window (periodogram).

        Inputs:
            Windows, shape (n, N), real or complex.

        Returns:
            Rows of real numbers: shape (n, N // 2 + 1), one-sided, for real samples, shape (n, N), two-sided in NumPy's
            order, for complex ones; `Plan.frequencies` has the frequencies. float32 for float32 and complex64,
            otherwise float64. No edges, no delay.

        Parameters:
            taper: Taper by which windows are multiplied, as in `isochrony.taper_factors`, periodic.
            scaling ("density" or "spectrum"): "density", in the unit squared per Hz; "spectrum", in the unit squared,
                in which a sine of amplitude A peaks at A²/2.
            detrend ("none" or "constant" or "linear"): What is subtracted from each window: its mean ("constant"), its
                regression line ("linear"), or nothing.

        Conventions:
            As `scipy.signal.periodogram`. The sum of a density times rate / N is sum((x w)²) / sum(w²) for a detrended
            window x and a taper w: the mean square of x, weighted by w². NaN spreads to its window's row.

        Raises:
            OptionError: an argument of the wrong type, or an unknown choice.
            PlanError: input that is not windows of samples; a taper's parameter out of range.

        >>> import numpy as np, isochrony as iso
        >>> sine = 2 * np.sin(2 * np.pi * 25 * np.arange(8) / 100)
        >>> iso.scan(sine, rate=100).rewindow(8).power(taper="boxcar", scaling="spectrum").collect().round(6)
        array([[0., 0., 2., 0., 0.]])
        """
        return self._then(
            "power",
            taper=_tapers.taper_text(taper),
            scaling=_options.choice("scaling", scaling, ("density", "spectrum")),
            detrend=_options.choice("detrend", detrend, ("none", "constant", "linear")),
        )

    def quantile(self, at: npt.ArrayLike) -> Self:
        """Compute quantiles of every window.

        Inputs:
            Windows of real samples, shape (n, N).

        Returns:
            Rows of one number for each quantile, shape (n, q), in the unit of the window: float32 for float32,
            otherwise float64. No edges, no delay.

        Parameters:
            at (from 0 to 1): One or more quantiles: 0 is the minimum, 0.5 the median, 1 the maximum.

        Conventions:
            By the linear method of `numpy.quantile`. NaN for a window that has NaN.

        Raises:
            OptionError: an argument of the wrong type, or a number that is not finite.
            PlanError: a value out of range; input that is not windows of real samples.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([4, 1, 2, 3]), rate=100).rewindow(4).quantile([0.5, 1]).collect()
        array([[2.5, 4. ]])
        """
        return self._then("quantile", at=_options.finite_or_list("quantile at=", at, ""))

    def ranges(self, *, join: Length = 0, before: Length = 0, after: Length = 0) -> Self:
        """Merge windows that touch or overlap into ranges of indices.

        Inputs:
            Windows of any kind, or ranges.

        Returns:
            Ranges, shape (n, 2): start and end (exclusive) in samples, int64. `sync`, `rows` and `annotate` take them.
            No edges; a range is known when the next one does not join it.

        Parameters:
            join (samples or text, from 0 to 2^46): Ranges with this many samples or fewer between them become one.
            before (samples or text, from 0 to 2^46): Samples by which each range starts earlier.
            after (samples or text, from 0 to 2^46): Samples by which each range ends later.

        Conventions:
            Ranges never join across a gap or a clock step. Widened ranges may reach into a gap; none starts before
            index 0.

        Raises:
            OptionError: an argument of the wrong type, a count below its least value, or a whole number above 2^63 - 1.
            PlanError: another value out of range; text that is not a length; the input is neither windows nor ranges.

        >>> import numpy as np, isochrony as iso
        >>> loud = iso.scan(np.arange(12) % 6, rate=100).rewindow(2).filter(lambda s: s.max() > 1)
        >>> loud.ranges().collect()
        array([[ 2,  6],
               [ 8, 12]])
        """
        return self._then(
            "ranges",
            join=_options.length("ranges join=", join, "samples", 0, "from 0 to 2^46"),
            before=_options.length("ranges before=", before, "samples", 0, "from 0 to 2^46"),
            after=_options.length("ranges after=", after, "samples", 0, "from 0 to 2^46"),
        )

    def rms(self) -> Self:
        """Compute the root mean square of every window.

        Inputs:
            Windows, shape (n, N), real or complex.

        Returns:
            Rows of one number, shape (n, 1), in the unit of the window; of complex samples that of the magnitudes.
            float32 for float32 and complex64, otherwise float64. No edges, no delay.

        Conventions:
            NaN and infinities count; `stats("rms")` leaves them out.

        Raises:
            PlanError: input that is not windows of samples.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([3.0, -4.0, 0.0, 0.0]), rate=100).rewindow(4).rms().collect()
        array([[2.5]])
        """
        return self._then("rms")

    def running_mean(self, window: Duration) -> Self:
        """Compute the mean over a sliding window that ends at each sample.

        Inputs:
            Real samples, shape (n,), or windows of one number each.

        Returns:
            Means of the same shape, in the same unit, float32 for float32, otherwise float64. Edges: at the start of
            each gap-free range the window is shorter. Delay: the window ends at its sample.

        Parameters:
            window (seconds or text, above 0 and at most 1e9): Length of the window, to the nearest sample.

        Conventions:
            NaN and infinities reach as far as the window and no further; no rounding error of samples that have left it
            remains.

        Raises:
            OptionError: an argument of the wrong type, or a number that is not finite.
            PlanError: a value out of range; text that is not a length; a window shorter than half a sample; input that
                is not real.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 3.0, 5.0, 1.0]), rate=100).running_mean(0.02).collect()
        array([1., 2., 4., 3.])
        """
        return self._then("running_mean", window=_options.length_in_seconds("running_mean window=", window))

    def running_quantile(self, window: Duration, q: float, *, method: Literal["auto", "heaps"] = "auto") -> Self:
        """Compute a quantile, such as the median, over a sliding window that ends at each sample.

        Inputs:
            Real samples, shape (n,), or windows of one number each.

        Returns:
            Quantiles of the same shape, in the same unit, float32 for float32, otherwise float64. Edges: at the start
            of each gap-free range the window is shorter. Delay: the window ends at its sample.

        Parameters:
            window (seconds or text, above 0 and at most 1e9): Length of the window, to the nearest sample.
            q (of the samples, from 0 to 1): Quantile: 0 is the minimum, 0.5 the median, 1 the maximum.
            method ("auto" or "heaps"): "heaps" takes O(log n) steps for windows of any length, "auto" keeps those of up
                to some hundred samples sorted.

        Conventions:
            Between sorted samples values are interpolated linearly, as in `numpy.quantile`. NaN reaches as far as the
            window; infinities are sorted with the rest.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, or a number that is not finite.
            PlanError: a value out of range; text that is not a length; a window shorter than half a sample; input that
                is not real.

        >>> import numpy as np, isochrony as iso
        >>> spiky = iso.scan(np.array([1.0, 2.0, 90.0, 3.0, 2.0]), rate=100)
        >>> spiky.running_quantile(0.03, 0.5).collect()
        array([1. , 1.5, 2. , 3. , 3. ])
        """
        return self._then(
            "running_quantile",
            window=_options.length_in_seconds("running_quantile window=", window),
            q=_options.finite("running_quantile q=", q, "of the samples"),
            method=_options.choice("method", method, ("auto", "heaps")),
        )

    def running_rms(self, window: Duration) -> Self:
        """Compute the root mean square over a sliding window that ends at each sample.

        Inputs:
            Real samples, shape (n,), or windows of one number each.

        Returns:
            Root mean squares of the same shape, in the same unit, float32 for float32, otherwise float64. Edges: at the
            start of each gap-free range the window is shorter. Delay: the window ends at its sample.

        Parameters:
            window (seconds or text, above 0 and at most 1e9): Length of the window, to the nearest sample.

        Conventions:
            NaN and infinities reach as far as the window and no further; no rounding error of samples that have left it
            remains.

        Raises:
            OptionError: an argument of the wrong type, or a number that is not finite.
            PlanError: a value out of range; text that is not a length; a window shorter than half a sample; input that
                is not real.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([3.0, -3.0, 4.0, 4.0]), rate=100).running_rms(0.02).collect().round(2)
        array([3.  , 3.  , 3.54, 4.  ])
        """
        return self._then("running_rms", window=_options.length_in_seconds("running_rms window=", window))

    def spectral_score(
        self,
        weights: npt.ArrayLike = 1.0,
        *,
        band_hz: npt.ArrayLike | None = None,
        normalise: Literal["none", "total"] = "none",
        taper: Taper = "boxcar",
        detrend: Literal["none", "constant", "linear"] = "none",
    ) -> Self:
        """Compute a weighted sum of the magnitudes of every window's spectrum: one score per window.

        Inputs:
            Windows, shape (n, N), real or complex.

        Returns:
            Rows of one number, shape (n, 1): float32 for float32 and complex64, otherwise float64. No edges, no delay.

        Parameters:
            weights: Weight of each frequency, at `numpy.fft.rfftfreq(N, 1 / rate)` Hz, or one for all.
            band_hz (Hz): Lowest and highest frequency that count; negative ones exist for complex samples. Left out:
                all.
            normalise ("none" or "total"): "total" divides by the sum of all magnitudes.
            taper: Taper by which windows are multiplied, as in `isochrony.taper_factors`, periodic.
            detrend ("none" or "constant" or "linear"): What is subtracted from each window: its mean ("constant"), its
                regression line ("linear"), or nothing.

        Conventions:
            Magnitudes are those of `fft`, not scaled. NaN spreads to its window's row. With "total" and weights from 0
            to 1 the score is a share; a window of zeros has 0.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, or a number that is not finite.
            PlanError: input that is not windows of samples; another number of weights than of frequencies; a band out
                of range.

        Source:
            DETECTAUDIO of L. Girod et al., "XStream: a signal-oriented data stream management system" (2008), section
            II.

        >>> import numpy as np, isochrony as iso
        >>> windows = iso.scan(np.array([2.0, 0.0, -2.0, 0.0, 1.0, 1.0, 1.0, 1.0]), rate=100).rewindow(4)
        >>> windows.spectral_score(band_hz=(20, 30), normalise="total").collect()
        array([[1.],
               [0.]])
        """
        return self._then(
            "spectral_score",
            weights=_options.finite_or_list("spectral_score weights=", weights, ""),
            band_hz=[] if band_hz is None else _options.finite_or_list("spectral_score band_hz=", band_hz, "Hz"),
            normalise=_options.choice("normalise", normalise, ("none", "total")),
            taper=_tapers.taper_text(taper),
            detrend=_options.choice("detrend", detrend, ("none", "constant", "linear")),
        )

    def stalta(self, sta: Duration, lta: Duration, *, method: Literal["classic", "recursive"] = "classic") -> Self:
        """Compute the ratio of short-term to long-term average power (STA/LTA), for triggering on onsets.

        Inputs:
            Real samples, shape (n,), or windows of one number each.

        Returns:
            Ratios of the same shape, float32 for float32, otherwise float64. Edges: 0 until the long window is full, in
            each gap-free range. No delay: both windows end at each sample.

        Parameters:
            sta (seconds or text, above 0 and at most 1e9): Length of the short window, to the nearest sample.
            lta (seconds or text, above 0 and at most 1e9): Length of the long window, longer than `sta`.
            method ("classic" or "recursive"): "classic" takes plain means, "recursive" exponentially weighted ones with
                these time constants.

        Conventions:
            Those of ObsPy's `classic_sta_lta` and `recursive_sta_lta`. The ratio of silence is 0. Classic sums keep no
            rounding errors of samples that have left the window. NaN reaches as far as the long window; with the
            recursive method, to the end of its gap-free range.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, or a number that is not finite.
            PlanError: a value out of range; text that is not a length; `lta` not longer than `sta`; a window shorter
                than half a sample; input that is not real.

        Source:
            R. V. Allen, "Automatic earthquake recognition and timing from single traces" (1978).

        >>> import numpy as np, isochrony as iso
        >>> signal = np.random.default_rng(1).normal(size=5000)
        >>> signal[3000:3100] *= 20
        >>> ratio = iso.scan(signal, rate=100).stalta(0.2, 10)
        >>> ratio.triggers(on=5, off=1).collect().round(-1)
        array([[3000, 3120]])
        """
        return self._then(
            "stalta",
            sta=_options.length_in_seconds("stalta sta=", sta),
            lta=_options.length_in_seconds("stalta lta=", lta),
            method=_options.choice("method", method, ("classic", "recursive")),
        )

    def stats(self, *names: str, per: Literal["all", "run"] = "all") -> Self:
        """Compute statistics of the finite samples of each window, or of all samples.

        Inputs:
            Windows, shape (n, N), or samples, shape (n,), real or complex.

        Returns:
            Rows: `start`, `end` (int64), `time` where the signal knows civil time, then the statistics in the order of
            their names: int64 where exact (counts; minimum and maximum of integers without calibration), otherwise
            float64; NaN where no sample is finite. Of windows one row each; no edges, no delay. Of samples one row at
            the end, with the first index and the one after the last, or one row for each run; none where nothing is
            read.

        Parameters:
            names ("min" or "max" or "count" or "mean" or "std" or "var" or "rms"): Names of statistics, each once.
            per ("all" or "run"): Of samples: a row for "all" that is read, or for each "run", the samples between two
                clock steps. A run that is read in pieces with another one between them has a row for each piece.

        Conventions:
            Values are in the signal's unit; for complex samples they are those of the magnitudes. "std" and "var" are
            those of the population. Sums of integers up to 32 bits are exact, others are added in fixed lanes and, of
            all samples, by halves of a tree over their indices: the same bits however the samples are cut, stored or
            live, for any number of workers and whatever the CPU.

        Raises:
            OptionError: an argument of the wrong type, or an unknown choice.
            PlanError: an unknown or repeated name, or none; input that is neither windows nor samples; `per` of
                windows.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(6), rate=100).rewindow(3).stats("min", "mean").collect()
         start  end  min  mean
             0    3    0     1
             3    6    3     4
        [2 rows]
        >>> iso.scan(np.arange(6), rate=100).stats("min", "mean").collect()
         start  end  min  mean
             0    6    0   2.5
        [1 rows]
        """
        return self._then(
            "stats", names=_options.names("stats names=", names), per=_options.choice("per", per, ("all", "run"))
        )

    def taper(self, taper: Taper = "hann", *, symmetric: bool = False) -> Self:
        """Multiply the samples of every window by a taper.

        Inputs:
            Windows, shape (n, N), real or complex.

        Returns:
            Windows of the same shape: float32 and complex64 stay, otherwise float64 or complex128. No edges, no delay.

        Parameters:
            taper: Name of the taper, or its name and its parameter.
            symmetric: Whether both ends are alike; otherwise the window is its period, as spectra need it.

        Conventions:
            Factors are those of `isochrony.taper_factors`. Calibrated counts are values in their unit.

        Raises:
            OptionError: an argument of the wrong type, or an unknown choice.
            PlanError: input that is not windows of samples; the taper's parameter out of range.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.ones(4), rate=100).rewindow(4).taper("hann").collect()
        array([[0. , 0.5, 1. , 0.5]])
        """
        return self._then("taper", taper=_tapers.taper_text(taper), symmetric=_options.flag("symmetric", symmetric))

    def to_unit(self, unit: str) -> Self:
        """Convert values to another unit of the same quantity, such as kPa to mH2O.

        Inputs:
            Samples in a known unit, shape (n,).

        Returns:
            The same samples, shape (n,), of the same dtype, with the calibration of the new unit. No edges, no delay.

        Parameters:
            unit (the name of a unit): Unit to convert to.

        Conventions:
            As for `calibrate`, nothing is computed or rounded. A unit is a product of names with powers, such as `m/s`,
            `m s-2`, `mm/s^2` or `mV/Pa`: SI units with prefixes from f to P, and bar, atm, psi, mmHg, mH2O, g0
            (standard gravity), min, h, d, L, deg, rpm, degC, degF, in, ft, %, ppm, counts.

        Raises:
            OptionError: an argument of the wrong type.
            PlanError: the input is not samples; a unit that is not known; two units that measure different quantities.

        >>> import numpy as np, isochrony as iso
        >>> cold = iso.scan(np.array([-10.0, 0.0]), rate=1, unit="degC")
        >>> cold.to_unit("degF").collect().round(9)
        array([14., 32.])
        """
        return self._then("to_unit", unit=_options.text("to_unit unit=", unit, "the name of a unit"))

    def triggers(
        self, on: float, off: float | None = None, *, min_length: Duration = 0.0, merge: Duration = 0.0
    ) -> Self:
        """Detect ranges with a two-threshold trigger: a range starts where the value reaches `on` and ends before it
        falls below `off`.

        Inputs:
            Real samples, shape (n,), or windows of one number each; a range then covers whole windows.

        Returns:
            Ranges, shape (n, 2): start and end (exclusive) in samples, int64. `sync`, `rows` and `annotate` take them.
            Edges: a range ends with its gap-free range, and where a filter removed windows. Delay: until the range has
            ended and no other can merge with it.

        Parameters:
            on (of the numbers' unit; adjustable): Threshold at which a range starts.
            off (of the numbers' unit; adjustable): Threshold below which it ends. Left out: `on`.
            min_length (seconds or text, from 0 to 1e9): Drops ranges shorter than this.
            merge (seconds or text, from 0 to 1e9): Merges ranges with this much time or less between them.

        Conventions:
            ObsPy's `trigger_onset` names the last index of a range where this gives the index after it. NaN is below
            both thresholds. Ranges are merged before short ones are dropped.

        Raises:
            OptionError: an argument of the wrong type, or a number that is not finite.
            PlanError: a value out of range; text that is not a length; `off` above `on`; a negative time; input that is
                not real.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([0, 4, 3, 2, 0, 5, 0]), rate=1).triggers(on=4, off=3).collect()
        array([[1, 3],
               [5, 6]])
        """
        return self._then(
            "triggers",
            on=_options.finite("triggers on=", on, "of the numbers' unit"),
            off=None if off is None else _options.finite("triggers off=", off, "of the numbers' unit"),
            min_length=_options.length_in_seconds("triggers min_length=", min_length),
            merge=_options.length_in_seconds("triggers merge=", merge),
        )

    def trim_peak(self, extreme: Literal["max", "min", "abs"] = "max", *, count: int = 1, skip: int = 1) -> Self:
        """Find the peaks of every window: its extreme value, then that of the rest after it, and so on.

        Inputs:
            Windows of real values, shape (n, N), or rows computed from windows.

        Returns:
            Rows: `start`, `end` (int64), `time` where the signal knows civil time, then `peak` (float64, in the values'
            unit) and `at` (int64, the index of its sample), `peak_2`, `at_2` and so on; unknown (null) where nothing is
            left or nothing but NaN. No edges, no delay.

        Parameters:
            extreme ("max" or "min" or "abs"): Which value is the peak: the largest, the smallest, or the one furthest
                from zero.
            count (peaks, from 1 to 64): Number of peaks.
            skip (values, from 1): Number of values from a peak to where the rest begins.

        Conventions:
            Of equal values the first is the peak; NaN never is. A row of fewer values than the window has samples is
            spread over it evenly, and `at` is the first sample that a value covers.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, a count below its least value, or a whole
                number above 2^63 - 1.
            PlanError: another value out of range; input that is not windows of real values.

        Source:
            `trimpeak` of L. Girod et al., "XStream: a signal-oriented data stream management system" (2008), figure 3.

        >>> import numpy as np, isochrony as iso
        >>> echo = iso.scan(np.array([0, 7, 6, 0, 4, 1]), rate=100).rewindow(6)
        >>> echo.trim_peak(count=2, skip=2).collect()
         start  end  peak  at  peak_2  at_2
             0    6     7   1       4     4
        [1 rows]
        """
        return self._then(
            "trim_peak",
            extreme=_options.choice("extreme", extreme, ("max", "min", "abs")),
            count=_options.whole("trim_peak count=", count, "peaks", 1, "from 1 to 64"),
            skip=_options.whole("trim_peak skip=", skip, "values", 1),
        )

    def welch(
        self,
        nfft: Length,
        hop: Length | None = None,
        *,
        taper: Taper = "hann",
        scaling: Literal["density", "spectrum"] = "density",
        detrend: Literal["none", "constant", "linear"] = "constant",
        average: Literal["mean", "median"] = "mean",
    ) -> Self:
        """Compute the power spectrum of every window, averaged over overlapping parts of it (Welch's method).

        Inputs:
            Windows, shape (n, N), real or complex.

        Returns:
            Rows of real numbers: shape (n, nfft // 2 + 1) for real samples, shape (n, nfft) for complex ones;
            `Plan.frequencies` has the frequencies. float32 for float32 and complex64, otherwise float64. No edges;
            samples after the last whole part are not used. No delay.

        Parameters:
            nfft (samples or text, from 1 to 2^40): Samples of a part, up to the window's.
            hop (samples or text, from 1 to 2^40): Samples from the start of one part to the next. Left out: half a
                part, rounded up.
            taper: Taper by which parts are multiplied, as in `isochrony.taper_factors`, periodic.
            scaling ("density" or "spectrum"): "density", in the unit squared per Hz; "spectrum", in the unit squared,
                in which a sine of amplitude A peaks at A²/2.
            detrend ("none" or "constant" or "linear"): What is subtracted from each part: its mean ("constant"), its
                regression line ("linear"), or nothing.
            average ("mean" or "median"): "mean", or "median" divided by its bias for noise, which ignores a short
                disturbance.

        Conventions:
            As `scipy.signal.welch`; values are those of `power`.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, a count below its least value, or a whole
                number above 2^63 - 1.
            PlanError: another value out of range; text that is not a length; input that is not windows of samples;
                `nfft` above the window's length; a taper's parameter out of range.

        Source:
            P. D. Welch, "The use of fast Fourier transform for the estimation of power spectra" (1967).

        >>> import numpy as np, isochrony as iso
        >>> noise = np.random.default_rng(1).standard_normal(100_000)
        >>> density = iso.scan(noise, rate=100).rewindow(100_000).welch(256).collect()
        >>> (density[0, 1:-1].mean() * 50).round(1)  # white noise of unit variance, up to 50 Hz
        np.float64(1.0)
        """
        return self._then(
            "welch",
            nfft=_options.length("welch nfft=", nfft, "samples", 1, "from 1 to 2^40"),
            hop=None if hop is None else _options.length("welch hop=", hop, "samples", 1, "from 1 to 2^40"),
            taper=_tapers.taper_text(taper),
            scaling=_options.choice("scaling", scaling, ("density", "spectrum")),
            detrend=_options.choice("detrend", detrend, ("none", "constant", "linear")),
            average=_options.choice("average", average, ("mean", "median")),
        )

    def xcorr(self, other: Plan, max_lag: Length, *, normalise: Literal["none", "coeff"] = "none") -> Self:
        """Cross-correlate windows with those of another plan.

        Inputs:
            Windows of real samples, shape (n, N).

        Returns:
            Rows of 2 max_lag + 1 numbers, shape (n, 2 max_lag + 1), float64: one row for each pair of windows at the
            same indices. No edges, no delay; a window without a partner gives no row.

        Parameters:
            other: windows of real samples, of the same length, hop and timebase.
            max_lag (samples or text, from 0 to 2^40): Largest lag, below the window's length.
            normalise ("none" or "coeff"): "coeff" divides by the product of the windows' norms: results lie from -1 to
                1, and are 0 where a window is zero.

        Conventions:
            The number at lag l, from -max_lag on, is the sum over i of first[i] times second[i + l], as far as both
            windows reach, which is `scipy.signal.correlate(second, first)`. A peak at a positive lag means that the
            second plan has the event later. Sums have an absolute error of about 1e-15 of the product of the windows'
            norms. NaN spreads to its pair's row.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, a count below its least value, or a whole
                number above 2^63 - 1.
            PlanError: another value out of range; text that is not a length; the inputs are not such windows; a lag of
                a window's length or more.

        >>> import numpy as np, isochrony as iso
        >>> x, y = np.zeros((2, 8))
        >>> x[3], y[5] = 2, 3
        >>> here, there = (iso.scan(z, rate=100).rewindow(8) for z in (x, y))
        >>> abs(here.xcorr(there, 2).collect().round(6))
        array([[0., 0., 0., 0., 6.]])
        """
        return self._then(
            "xcorr",
            (other,),
            max_lag=_options.length("xcorr max_lag=", max_lag, "samples", 0, "from 0 to 2^40"),
            normalise=_options.choice("normalise", normalise, ("none", "coeff")),
        )

    def zero_crossings(self) -> Self:
        """Count the zero crossings of every window.

        Inputs:
            Windows of real samples, shape (n, N).

        Returns:
            Rows of one number, shape (n, 1): float32 for float32, otherwise float64. No edges, no delay.

        Conventions:
            Zeros of either sign and NaN have no sign and are skipped: 1, 0, -1 is one crossing, 1, 0, 1 is none.

        Raises:
            PlanError: input that is not windows of real samples.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1, 0, -1, 2, 0, 3]), rate=100).rewindow(6).zero_crossings().collect()
        array([[2.]])
        """
        return self._then("zero_crossings")

    def zero_phase(
        self,
        kind: Literal["butter", "cheby1", "cheby2", "ellip"],
        band: Literal["lowpass", "highpass", "bandpass", "bandstop"],
        cutoff_hz: npt.ArrayLike,
        order: int = 4,
        *,
        ripple_db: float | None = None,
        attenuation_db: float | None = None,
    ) -> Self:
        """Filter samples forward and backward: no frequency is delayed, and the gain is that of `iir` squared.

        Inputs:
            Samples of any type, shape (n,).

        Returns:
            Samples with their indices, shape (n,): float32 for float32, complex64 and complex128 by their parts,
            otherwise float64. Edges: each gap-free range is extended at both ends by odd reflection. No delay in the
            signal; results come a block of 16,384 samples or more late.

        Parameters:
            kind ("butter" or "cheby1" or "cheby2" or "ellip"): Filter type: "butter" is flat, "cheby1" has ripple in
                the passband, "cheby2" in the stopband, "ellip" in both.
            band ("lowpass" or "highpass" or "bandpass" or "bandstop"): Passband type.
            cutoff_hz (Hz, above 0): Corner frequency, or both corners of a band, between 0 and half the rate: the gain
                of "butter" is one half there.
            order (poles, from 1 to 32): Order of the lowpass prototype; a band filter has twice as many poles, and the
                filter is applied twice.
            ripple_db (dB, from 1e-6 to 600): Passband ripple of "cheby1" and "ellip" in one pass.
            attenuation_db (dB, from 1e-6 to 600): Stopband attenuation of "cheby2" and "ellip" in one pass.

        Conventions:
            As `scipy.signal.sosfiltfilt` of each gap-free range, with as many samples of padding, or all but one of a
            shorter range. For archives: the backward pass begins where what it does not know yet has decayed to a part
            in 10^12. NaN and infinities make all that follows in the range NaN, and up to two blocks before them.

        Raises:
            OptionError: an argument of the wrong type, an unknown choice, a number that is not finite, a count below
                its least value, or a whole number above 2^63 - 1.
            PlanError: another value out of range; as `iir`; a filter that takes more than 8,388,608 samples to settle.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(3000) / 1000
        >>> slow = np.sin(2 * np.pi * 2 * t)
        >>> noisy = iso.scan(slow + np.sin(2 * np.pi * 300 * t), rate=1000)
        >>> left = noisy.zero_phase("butter", "lowpass", 40).collect() - slow
        >>> bool(abs(left[300:-300]).max() < 1e-3)
        True
        """
        return self._then(
            "zero_phase",
            kind=_options.choice("kind", kind, ("butter", "cheby1", "cheby2", "ellip")),
            band=_options.choice("band", band, ("lowpass", "highpass", "bandpass", "bandstop")),
            cutoff_hz=_options.finite_or_list("zero_phase cutoff_hz=", cutoff_hz, "Hz"),
            order=_options.whole("zero_phase order=", order, "poles", 1, "from 1 to 32"),
            ripple_db=None if ripple_db is None else _options.finite("zero_phase ripple_db=", ripple_db, "dB"),
            attenuation_db=None
            if attenuation_db is None
            else _options.finite("zero_phase attenuation_db=", attenuation_db, "dB"),
        )
