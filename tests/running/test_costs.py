"""Costs that operators declare, against measured times: they say where plans are cut into stages."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import isochrony as iso

#: By which a declared cost may be off, relative to that of a low-pass: kernels differ by type, machine, optimisation.
FACTOR = 4.0
#: Tests are built with little optimisation, which slows a resampler five times as much as a low-pass: 13 times a
#: low-pass where 3 are declared, and 2 in a release build. How STA/LTA is inlined then depends on how the crate is
#: divided into units: 4.7 times a low-pass where 1 is declared, and 1.2 in a release build.
UNOPTIMISED = {"resample": 5.0, "stalta": 2.0}
#: Most runs of a plan: other processes may hold some up.
RUNS = 12

X = np.random.default_rng(3).normal(0, 100, 1 << 18).astype("f4")

OPERATORS: dict[str, Callable[[iso.Plan], iso.Plan]] = {
    "fir of 16 taps": lambda plan: plan.fir([1 / 16] * 16),
    "fir of 256 taps": lambda plan: plan.fir([1 / 256] * 256),
    "notch": lambda plan: plan.notch(50),
    "stalta": lambda plan: plan.stalta(0.05, 1.0),
    "ca_cfar": lambda plan: plan.ca_cfar(pfa=1e-3, training=32, guard=4),
    "running_mean": lambda plan: plan.running_mean(0.5),
    "running_quantile": lambda plan: plan.running_quantile(0.5, 0.5),
    "resample": lambda plan: plan.resample(500),
    "sine": lambda plan: plan.map(lambda s: np.sin(s)),
    "fft": lambda plan: plan.rewindow(4096).fft(),
    "power": lambda plan: plan.rewindow(4096).power(),
    "spectral_score": lambda plan: plan.rewindow(32).spectral_score(band_hz=(50, 200)),
}


@pytest.mark.alone
@pytest.mark.parametrize("name", OPERATORS)
def test_declared_costs_are_in_proportion_to_measured_times(name: str) -> None:
    plan = OPERATORS[name](iso.scan(X, rate=1000, segment=8192).lowpass(50))
    shares = re.findall(r"stage \d+: .*expected to take (\d+)% of the time", plan.explain())
    # The last one gathers results, alone or behind the operator.
    assert len(shares) == 2 or shares[2:] == ["0"], plan.explain()
    declared = float(shares[1]) / float(shares[0])
    for _ in range(RUNS):
        # The scan and the low-pass come first.
        _, lowpass, *others = (operator.useful_s for operator in plan.run(workers=1).report.operators)
        measured = sum(others) / lowpass
        if declared / FACTOR <= measured <= declared * FACTOR * UNOPTIMISED.get(name, 1.0):
            return
    pytest.fail(
        f"{name} takes {measured:.2f} times as long as a low-pass, and declares {declared:.2f}; correct its cost_ns"
    )
