"""The simulation behind the trust classifier, against an event-driven one and a closed form."""

import heapq
import importlib
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("trust_simulation")


@pytest.fixture
def features(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("trust_features")


class GivenTimes:
    """Stands for random times: gives columns of an array in turn."""

    def __init__(self, times: Any) -> None:
        self.times, self.position = times, 0

    def draw(self, rng: Any, items: int) -> Any:
        self.position += items
        drawn = self.times[self.position - items : self.position]
        return np.vstack([drawn, np.ones((items - len(drawn), drawn.shape[1]))])


@dataclass
class Trace:
    """When each item finished, left and was started, by stage."""

    started: list[list[float]]
    finished: list[list[float]]
    left: list[list[float]]


def by_events(times: list[list[float]], capacities: list[int]) -> Trace:
    """Three stages and two links, event by event: a stage is idle, busy or holds a finished item."""
    trace = Trace([[], [], []], [[], [], []], [[], [], []])
    links: list[deque[int]] = [deque(), deque()]
    state = ["idle", "idle", "idle"]
    events: list[tuple[float, int]] = []
    now, count = 0.0, len(times[0])

    def settle() -> None:
        changed = True
        while changed:
            changed = False
            for stage in (2, 1, 0):
                started = len(trace.started[stage])
                if state[stage] == "holds" and (stage == 2 or len(links[stage]) < capacities[stage]):
                    if stage < 2:
                        links[stage].append(started - 1)
                    trace.left[stage].append(now)
                    state[stage], changed = "idle", True
                if state[stage] == "idle" and started < count and (stage == 0 or links[stage - 1]):
                    if stage > 0:
                        assert links[stage - 1].popleft() == started
                    trace.started[stage].append(now)
                    heapq.heappush(events, (now + times[stage][started], stage))
                    state[stage], changed = "busy", True

    settle()
    while events:
        now, stage = heapq.heappop(events)
        trace.finished[stage].append(now)
        state[stage] = "holds"
        settle()
    return trace


@pytest.mark.parametrize("topology", ["single", "behind_a_stage", "before_a_stage"])
def test_links_are_those_of_an_event_driven_simulation(simulation: ModuleType, topology: str) -> None:
    rng = np.random.default_rng(3)
    window, items = np.array([500, 700]), 900
    count = simulation.WARM_UP + 700 + items
    rates = {"single": (0.9, 1.0, 0.01), "behind_a_stage": (0.9, 0.8, 1.0), "before_a_stage": (1.0, 0.8, 0.9)}
    times = [rng.exponential(rate, (count, 2)) for rate in rates[topology]]
    capacity, other = np.array([4, 9]), np.array([3, 2])
    links = simulation.Links(topology, *map(GivenTimes, times), capacity, other, window)
    outcome = simulation.simulate(rng, links, items)
    writer = 1 if topology == "behind_a_stage" else 0
    for row in range(2):
        for number, factor in enumerate(simulation.CAPACITY_FACTORS):
            observed = int(factor * capacity[row])
            capacities = [int(other[row]), observed] if writer else [observed, int(other[row])]
            trace = by_events([column[:, row].tolist() for column in times], capacities)
            left, started = np.array(trace.left[writer]), np.array(trace.started[writer + 1])
            reader_left, reader_end = np.array(trace.left[writer + 1]), np.array(trace.finished[writer + 1])
            first = count - items
            duration = reader_left[-1] - reader_left[first - 1]
            np.testing.assert_allclose(outcome.throughput[number, row], items / duration)
            np.testing.assert_allclose(outcome.mean_items[number, row], (started - left)[first:].sum() / duration)
            if factor != 1.0:
                continue
            inside = slice(simulation.WARM_UP, simulation.WARM_UP + int(window[row]))
            finished = np.array(trace.finished[writer])
            gaps = (finished[1:] - left[:-1])[inside.start - 1 : inside.stop - 1]
            waits = (left - finished)[inside]
            measured = {name: values[row] for name, values in outcome.measured.items()}
            np.testing.assert_allclose(measured["interarrival_s"], gaps.mean())
            np.testing.assert_allclose(measured["interarrival_cv"], gaps.std() / gaps.mean())
            np.testing.assert_allclose(measured["writer_wait_share"], waits.sum() / (waits.sum() + gaps.sum()))
            elapsed = reader_left[inside][-1] - reader_left[inside.start - 1]
            blocked = (reader_left - reader_end)[inside].sum()
            np.testing.assert_allclose(measured["reader_output_wait_share"], blocked / elapsed, atol=1e-12)
            idle = (started[1:] - reader_left[:-1])[inside.start - 1 : inside.stop - 1].sum()
            np.testing.assert_allclose(measured["reader_wait_share"], idle / elapsed, atol=1e-12)
            counts = np.zeros(9, int)
            for end in finished[inside]:
                counts[8 * ((left < end).sum() - (started < end).sum()) // capacity[row]] += 1
            np.testing.assert_array_equal(outcome.occupancy[row], counts)


def test_exponential_links_are_m_m_1_k(simulation: ModuleType, features: ModuleType) -> None:
    rng = np.random.default_rng(4)
    rows = 40
    exponential = np.full(rows, simulation.FAMILIES.index("exponential"))
    links = simulation.Links.random(rng, "single", exponential, exponential)
    quiet = {"noise": np.zeros(rows)}
    capacity = np.minimum(links.capacity, 12)
    links = replace(
        links, source=replace(links.source, **quiet), middle=replace(links.middle, **quiet), capacity=capacity
    )
    outcome = simulation.simulate(rng, links, 20_000)
    for number, capacities in enumerate(links.capacities()):
        for row in range(rows):
            weights = (1.0 / links.source.mean[row]) ** np.arange(capacities[row] + 3)
            shares = weights / weights.sum()
            waiting = np.clip(np.arange(len(shares)) - 1, 0, capacities[row])
            assert outcome.throughput[number, row] == pytest.approx(1.0 - shares[0], rel=0.05)
            assert outcome.mean_items[number, row] == pytest.approx(shares @ waiting, rel=0.25, abs=0.02)
    measured = features.measured_rows(outcome, links.capacity, links.window)
    right = features.labels(measured, links.capacities(), outcome)
    # Means of a short window are off by more than the tolerance.
    assert right[links.window > 4_000, features.MODELS.index("mm1k")].mean() > 0.9


@pytest.mark.parametrize("family", ["deterministic", "exponential", "erlang", "bimodal", "lognormal", "heavy_tailed"])
def test_times_have_their_mean(simulation: ModuleType, family: str) -> None:
    rng = np.random.default_rng(5)
    rows = 30
    times = simulation.Times.random(rng, np.full(rows, simulation.FAMILIES.index(family)), np.full(rows, 2.0))
    drawn = times.draw(rng, 40_000)
    assert (drawn > 0.0).all()
    # A tail with an exponent near 2 converges slowly, and cut times are at least 0.01.
    assert np.median(drawn.mean(axis=0)) == pytest.approx(2.0, rel=0.03)
    noise = simulation._levy_noise(rng, 40_000, np.array([1.0]))
    assert noise.mean() == pytest.approx(0.0, abs=2e-3)
    assert noise.max() - noise.min() <= 0.742 + 0.220


@pytest.mark.parametrize("load", [0.4, 0.9, 1.3])
def test_models_give_the_probabilities_of_a_markov_chain(features: ModuleType, load: float) -> None:
    room = np.array([3, 11])
    loads, ones = np.full(2, load), np.ones(2)
    powers = np.where(np.arange(12) <= room[:, None], load ** np.arange(12), 0.0)
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(features.state_probabilities("mm1k", loads, ones, ones, room), expected, atol=1e-12)
    # Constant service as many short exponential phases: stationary vector of the generator.
    phases, size = 120, 4
    states = 1 + (size - 1) * phases
    generator = np.zeros((states, states))
    for items in range(size):
        for phase in range(phases if items else 1):
            here = 1 + (items - 1) * phases + phase if items else 0
            if items < size - 1:
                generator[here, 1 + items * phases + (phase if items else 0)] += load
            if items:
                last = phase == phases - 1
                following = (1 + (items - 2) * phases if items > 1 else 0) if last else here + 1
                generator[here, following] += phases
    generator -= np.diag(generator.sum(axis=1))
    system = np.vstack([generator.T, np.ones(states)])
    stationary = np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0]
    by_items = [stationary[0], *(stationary[1 + n * phases : 1 + (n + 1) * phases].sum() for n in range(size - 1))]
    found = features.state_probabilities("md1k", loads[:1], ones[:1], ones[:1], np.array([size - 1]))
    np.testing.assert_allclose(found[0], by_items, atol=2e-3)
