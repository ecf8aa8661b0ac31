"""Makes iir.json: second-order sections of SciPy's iirfilter, and what its sosfilt gives; run with SciPy at hand."""

import itertools
import json
from pathlib import Path

import numpy as np
import scipy
from scipy import signal

RATE = 1000.0
CORNERS = {
    "lowpass": ([40.0], [0.01], [499.0]),
    "highpass": ([40.0], [0.05], [495.0]),
    "bandpass": ([30.0, 170.0], [0.5, 4.0], [100.0, 490.0]),
    "bandstop": ([49.0, 51.0], [20.0, 430.0], [1.0, 3.0]),
}
FAMILIES = {"butter": {}, "cheby1": {"rp": 0.5}, "cheby2": {"rs": 40.0}, "ellip": {"rp": 1.0, "rs": 60.0}}


def cases():
    """Designs of all families and bands."""
    families = itertools.product(FAMILIES.items(), CORNERS.items(), (1, 4, 7))
    for at, ((family, ripples), (band, corners), order) in enumerate(families):
        cutoff = corners[at % len(corners)]
        sos = signal.iirfilter(
            order, cutoff if len(cutoff) > 1 else cutoff[0], btype=band, ftype=family, fs=RATE, output="sos", **ripples
        )
        yield {"family": family, "band": band, "order": order, "cutoff": cutoff, **ripples, "sos": sos.tolist()}


def one_frequency():
    """Notches and peaks."""
    for name, hz, q in (("notch", 50.0, 30.0), ("notch", 499.0, 2.0), ("peak", 0.1, 5.0), ("peak", 250.0, 0.6)):
        b, a = getattr(signal, f"iir{name}")(hz, q, fs=RATE)
        yield {"name": name, "hz": hz, "q": q, "b": b.tolist(), "a": a.tolist()}


def filtered():
    """What filters give, from zero and from a steady state."""
    x = np.cumsum(np.sin(np.arange(40) ** 2)) + 3
    for order in (2, 9):
        sos = signal.butter(
            order, [30.0, 170.0] if order > 2 else 40.0, "band" if order > 2 else "low", fs=RATE, output="sos"
        )
        steady, _ = signal.sosfilt(sos, x, zi=signal.sosfilt_zi(sos) * x[0])
        yield {"sos": sos.tolist(), "x": x.tolist(), "zero": signal.sosfilt(sos, x).tolist(), "steady": steady.tolist()}


vectors = {
    "scipy": scipy.__version__,
    "rate": RATE,
    "designs": list(cases()),
    "one_frequency": list(one_frequency()),
    "filtered": list(filtered()),
}
lines = ",\n".join(
    f"{json.dumps(key)}: "
    + ("[\n" + ",\n".join(map(json.dumps, value)) + "\n]" if isinstance(value, list) else json.dumps(value))
    for key, value in vectors.items()
)
Path(__file__).with_suffix(".json").write_text("{\n" + lines + "\n}\n")
