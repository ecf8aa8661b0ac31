"""Makes fir.json: taps of SciPy's firwin and remez; run with SciPy at hand."""

import json
from pathlib import Path

import scipy
from scipy import signal

RATE = 1000.0


def firwin():
    """Designs by a window."""
    for taps, cutoff, band, window, db in (
        (21, [100.0], "lowpass", "hamming", None),
        (20, [1.0], "lowpass", "hann", None),
        (15, [400.0], "highpass", "blackman", None),
        (24, [100.0, 300.0], "bandpass", "boxcar", None),
        (31, [100.0, 300.0], "bandstop", "hamming", None),
        (33, [50.0, 60.0], "bandpass", "kaiser", 60.0),
        (18, [499.0], "lowpass", "kaiser", 30.0),
        (1, [20.0], "lowpass", "hamming", None),
    ):
        shape = ("kaiser", signal.kaiser_beta(db)) if window == "kaiser" else window
        made = signal.firwin(taps, cutoff, window=shape, pass_zero=band, fs=RATE)
        yield {"taps": made.tolist(), "cutoff": cutoff, "band": band, "window": window, "db": db}


def remez():
    """Designs for equal ripple."""
    for taps, edges, gains, weights in (
        (21, [0, 100, 160, 500], [1, 0], [1, 1]),
        (32, [0, 100, 160, 500], [1, 0], [1, 20]),
        (41, [0, 50, 90, 200, 240, 500], [0, 1, 0], [10, 1, 10]),
        (40, [0, 100, 140, 260, 300, 500], [1, 0, 0], [1, 2, 3]),
        (61, [0, 100, 130, 170, 200, 500], [1, 0, 1], [1, 10, 1]),
        (27, [0, 200, 230, 500], [0, 1], [5, 1]),
    ):
        made = signal.remez(taps, edges, gains, weight=weights, fs=RATE, maxiter=100)
        yield {"taps": made.tolist(), "edges": edges, "gains": gains, "weights": weights}


def kaiserord():
    """Lengths and shapes of Kaiser windows."""
    for db, width in ((40.0, 20.0), (65.0, 3.0), (100.0, 200.0), (21.5, 100.0)):
        taps, beta = signal.kaiserord(db, width / (RATE / 2))
        yield [db, width, taps, beta]


vectors = {"scipy": scipy.__version__, "firwin": list(firwin()), "remez": list(remez()), "kaiserord": list(kaiserord())}
lines = ",\n".join(
    f"{json.dumps(key)}: "
    + ("[\n" + ",\n".join(map(json.dumps, value)) + "\n]" if isinstance(value, list) else json.dumps(value))
    for key, value in vectors.items()
)
Path(__file__).with_suffix(".json").write_text("{\n" + lines + "\n}\n")
