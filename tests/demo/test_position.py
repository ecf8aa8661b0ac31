"""Bursts are found on every pipe, as closely as is stated, and what cannot be told is said."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from isochrony.demo.network import JUNCTIONS_M, PIPES, STATIONS, Pipe, Place, distance_m, travel_time_s
from isochrony.demo.position import Heard, Stretch, _chance, locate
from isochrony.errors import UsageError

HEARING = [station.junction for station in STATIONS]
# The reservoir lies behind the mill, where the only station is that hears it first: nobody can tell where.
TOLD = [pipe for pipe in PIPES if "reservoir" not in pipe.ends]


def heard(place: Place, error_s: float, random: np.random.Generator | None = None) -> list[Heard]:
    """What the stations hear of a burst 7 s after zero, with errors of up to four times `error_s`."""
    errors = error_s * np.array([1.0, 2.0, 0.5, 4.0])
    noise = np.zeros(4) if random is None else random.standard_normal(4) * errors
    return [
        Heard(junction, 7.0 + travel_time_s(place, junction) + late, error)
        for junction, late, error in zip(HEARING, noise.tolist(), errors.tolist(), strict=True)
    ]


def inside(region: tuple[Stretch, ...], place: Place) -> bool:
    return any(one.pipe == place.pipe and one.from_m <= place.at_m <= one.to_m for one in region)


@pytest.mark.parametrize("pipe", TOLD, ids=lambda pipe: "-".join(pipe.ends))
def test_without_noise_every_place_is_found_exactly(pipe: Pipe) -> None:
    for at_m in np.linspace(1.0, pipe.length_m - 1.0, 57).tolist():
        place = Place(pipe, at_m)
        found = locate(heard(place, 1e-4))
        # Times of some seconds are exact to 1e-15 s, places to the root of the misfit's rounding.
        assert distance_m(found.place, place) < 1e-5
        assert found.at_s == pytest.approx(7.0, abs=1e-8)
        assert found.misfit < 1e-9
        assert found.verdict == "located"


def test_the_place_is_the_least_of_a_fine_grid() -> None:
    random = np.random.default_rng(4)
    for _ in range(20):
        pipe = PIPES[random.integers(len(PIPES))]
        times = heard(Place(pipe, random.uniform(0, pipe.length_m)), 0.02, random)
        found = locate(times)
        weight = np.array([one.error_s for one in times]) ** -2
        at = np.array([one.at_s for one in times])

        def misfit(place: Place, at: np.ndarray = at, weight: np.ndarray = weight) -> float:
            rest = at - [travel_time_s(place, junction) for junction in HEARING]
            return float(weight @ (rest - weight @ rest / weight.sum()) ** 2)

        grid = [Place(one, at_m) for one in PIPES for at_m in np.linspace(0, one.length_m, 200).tolist()]
        values = [misfit(place) for place in grid]
        assert found.misfit == pytest.approx(misfit(found.place), abs=1e-9)
        assert found.misfit <= min(values) + 1e-9
        for place, value in zip(grid, values, strict=True):
            if abs(value - found.misfit - 3.841) > 1e-6:
                assert inside(found.region, place) == (value < found.misfit + 3.841)


@pytest.mark.parametrize("pipe", TOLD, ids=lambda pipe: "-".join(pipe.ends))
def test_the_true_place_lies_in_the_region_as_often_as_stated(pipe: Pipe) -> None:
    random = np.random.default_rng(sum(map(ord, "".join(pipe.ends))))
    trials = 600
    within = near = consistent = 0
    for _ in range(trials):
        # Not within four errors of a junction, where fewer places are possible than the region assumes.
        place = Place(pipe, random.uniform(8.0, pipe.length_m - 8.0))
        found = locate(heard(place, 1e-3, random))
        within += inside(found.region, place)
        near += distance_m(found.place, place) <= found.error_m
        consistent += found.verdict != "inconsistent"
    # A binomial share of 0.95 has a deviation of 0.009 in so many trials; four of them.
    assert 0.914 < within / trials < 0.986
    assert 0.914 < near / trials < 0.986
    # One in a thousand contradicts itself by chance: more than five of 600 do in 3e-4 of all cases.
    assert consistent >= trials - 5


def test_a_place_behind_the_only_station_is_as_long_as_the_pipe() -> None:
    found = locate(heard(Place(PIPES[0], 200.0), 1e-4))
    dead_end = next(one for one in found.region if one.pipe == PIPES[0])
    assert (dead_end.from_m, dead_end.to_m) == (0.0, PIPES[0].length_m)
    assert found.error_m >= PIPES[0].length_m / 2
    assert found.verdict == "located"


def test_two_stations_on_a_loop_leave_two_places() -> None:
    two = [one for one in heard(Place(PIPES[1], 150.0), 1e-4) if one.junction in ("mill", "school")]
    found = locate(two)
    assert found.verdict == "ambiguous"
    assert found.parts >= 2
    assert inside(found.region, Place(PIPES[1], 150.0))


def test_times_that_contradict_each_other_are_not_hidden() -> None:
    times = heard(Place(PIPES[1], 150.0), 1e-3)
    wrong = [Heard(one.junction, one.at_s + 1.75 * (one.junction == "bridge"), one.error_s) for one in times]
    found = locate(wrong)
    assert found.verdict == "inconsistent"
    assert found.chance < 1e-9


# Misfit, degrees of freedom, and the chance of more.
CHANCES = [(3.841, 1, 0.05), (5.991, 2, 0.05), (7.815, 3, 0.05), (16.266, 3, 1e-3), (18.467, 4, 1e-3), (0.0, 5, 1.0)]


@pytest.mark.parametrize(("misfit", "freedom", "chance"), CHANCES)
def test_the_chance_of_a_misfit_is_that_of_the_tables(misfit: float, freedom: int, chance: float) -> None:
    assert _chance(misfit, freedom) == pytest.approx(chance, rel=1e-3)


def test_distances_are_those_along_pipes() -> None:
    a, b = Place(PIPES[1], 100.0), Place(PIPES[2], 50.0)
    assert distance_m(a, b) == distance_m(b, a) == 420 - 100 + 50
    assert distance_m(a, Place(PIPES[1], 30.0)) == 70.0
    assert distance_m(a, Place(PIPES[0], 640.0)) == 100.0
    assert distance_m(a, Place(Pipe(("here", "there"), 1.0, 1.0), 0.5)) == math.inf


def test_the_map_is_to_scale() -> None:
    for pipe in PIPES:
        assert math.dist(*(JUNCTIONS_M[end] for end in pipe.ends)) == pytest.approx(pipe.length_m, abs=1.0)
    assert all(a.ends != b.ends for a, b in pairwise(PIPES))


def test_rejects_what_tells_no_place() -> None:
    with pytest.raises(UsageError, match="two or more stations"):
        locate([Heard("mill", 0.0, 1e-3), Heard("mill", 1.0, 1e-3)])
    with pytest.raises(UsageError, match="above 0"):
        locate([Heard("mill", 0.0, 0.0), Heard("bridge", 1.0, 1e-3)])
    with pytest.raises(UsageError, match="not all connected by pipes"):
        locate([Heard("mill", 0.0, 1e-3), Heard("moon", 1.0, 1e-3)])
