"""What several test modules start from: a signal with known samples, one gap and exact times."""

import numpy as np

import isochrony as iso

START = "2010-03-01T00:00:00Z"


def pressure(store: iso.Store, name: str = "stn_10/pressure", **options: object) -> iso.Signal:
    """Samples 0..999, a gap of 500, samples 1000..1999, at 100 Hz."""
    given_options = {"dtype": "f4", "rate": 100, "unit": "kPa", "start": START, **options}
    signal = store.create(name, **given_options)
    signal.append(np.arange(1000, dtype=given_options["dtype"]))
    signal.append_gap(samples=500)
    signal.append(np.arange(1000, 2000).astype(given_options["dtype"]))
    return signal
