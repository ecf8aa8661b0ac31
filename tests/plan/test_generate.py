"""Samples that Python makes."""

from typing import Any

import numpy as np
import pytest

import functions_of_tests as own
import isochrony as iso


def test_generated_samples_run_again_and_have_gaps() -> None:
    def made() -> Any:
        yield np.arange(10, dtype="i4")
        yield np.arange(10, 15, dtype="i4")
        yield 20, np.arange(20, 30, dtype="i4")

    plan = iso.generate(made, dtype="i4", rate=100, start="2010-03-01", unit="m")
    for _ in range(2):
        np.testing.assert_array_equal(plan.collect(), [*range(15), *range(20, 30)])
    np.testing.assert_array_equal(plan.rewindow(10).collect(), [range(10), range(20, 30)])
    report = plan.rewindow(10).run().report
    assert report.operators[1].gaps == 1
    assert str(plan) == "scan(made)"
    with pytest.raises(iso.PlanError, match=r"made.*makes its samples in this process.*imported by its name"):
        plan.to_json()
    again = iso.Plan.from_json(iso.generate(own.ramp, dtype="i4", rate="44100/1001").to_json(), allow_functions=True)
    np.testing.assert_array_equal(again.collect(), np.arange(70))
    assert "6300/143 Hz" in again.explain()


def test_iterators_serve_one_run_and_lists_many() -> None:
    arrays = [np.arange(3.0), np.arange(3.0, 5.0)]
    plan = iso.generate(arrays, dtype="f8", rate=1)
    np.testing.assert_array_equal(plan.collect(), np.arange(5))
    np.testing.assert_array_equal(plan.collect(), np.arange(5))
    assert not arrays[0].flags.writeable
    plan = iso.generate(iter([np.arange(3.0)]), dtype="f8", rate=1)
    assert plan.count().collect() == 3
    with pytest.raises(iso.RunError, match="used up"):
        plan.collect()


def test_generators_that_fail_name_where_and_why() -> None:
    def broken() -> Any:
        yield np.arange(5.0)
        raise OSError("unplugged")

    with pytest.raises(iso.RunError, match=r"scan.*unplugged") as error:
        iso.generate(broken, dtype="f8", rate=1, start="2010-03-01").collect()
    assert isinstance(error.value.__cause__, OSError)
    for item, part in [
        (np.arange(3), r"block 1 has dtype int64 where float64 was expected; convert it, or state dtype="),
        (np.zeros((2, 2)), r"block 1 has shape \(2, 2\), but samples are 1-D; yield one channel"),
        ((-1, np.zeros(3)), "in order of their indices"),
        ("abc", "cannot be used in a plan"),
    ]:
        with pytest.raises(iso.RunError, match=part):
            iso.generate([np.zeros(2), item], dtype="f8", rate=1).collect()
    with pytest.raises(iso.PlanError, match="function"):
        iso.generate(3, dtype="f8", rate=1)  # type: ignore[arg-type]


def test_a_limit_stops_an_endless_generator() -> None:
    def endless() -> Any:
        while True:
            yield np.ones(10)

    plan = iso.generate(endless, dtype="f8", rate=1)
    assert plan.limit(25).count().collect() == 25
