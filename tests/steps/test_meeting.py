"""Steps in which several plans meet, and loops, against NumPy and plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isochrony as iso


def arrays(count: int, length: int = 400) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.normal(size=length).astype("f4") for _ in range(count)]


def test_map_and_filter_of_several_plans_are_those_of_numpy() -> None:
    x, y = arrays(2)
    a, b = iso.scan(x, 37, rate=100), iso.scan(y, 50, rate=100)
    np.testing.assert_array_equal(a.map(lambda s, t: s * t - 1, b).collect(), x * y - np.float32(1))
    wx, wy = (each.reshape(-1, 20) for each in (x, y))
    windows, others = a.rewindow(20), b.rewindow(20)
    centred = windows.map(lambda s, t, low: (s - t).clip(low, 1), others, others.map(lambda t: t.min()))
    expected = np.clip(wx - wy, wy.min(axis=1, keepdims=True), 1)
    np.testing.assert_array_equal(centred.collect(), expected)
    louder = windows.filter(lambda s, t: s.max() > t.max(), others)
    np.testing.assert_array_equal(louder.collect(), wx[wx.max(axis=1) > wy.max(axis=1)])


def test_plans_that_meet_in_an_expression_are_saved_and_read(tmp_path) -> None:
    with iso.open(tmp_path / "s.iso", mode="x") as store:
        for name, values in zip("xy", arrays(2), strict=True):
            store.create(name, dtype="f4", rate=100, start="2020-01-01T00:00:00Z").append(values)
        store.commit()
        x, y = iso.scan(store["x"]).rewindow(20), iso.scan(store["y"]).rewindow(20)
        with pytest.raises(iso.PlanError, match="of one timebase"):
            x.map(lambda s, t: s + t, y)  # Two signals of a store have clocks of their own.
        loop = x.feedback(lambda w, g: (w.map(lambda s, g: s * g, g), g.map(lambda g: g / 2)), initial=1.0)
        again = iso.Plan.from_json(loop.to_json(), store=store)
        assert again == loop and str(again) == str(loop)
        np.testing.assert_array_equal(again.collect(), loop.collect())


def test_zip_gives_a_plan_for_each() -> None:
    x, y = arrays(2)
    here, there = iso.scan(x, 30, rate=100).zip(iso.scan(y[:90], 7, rate=100))
    first, second = iso.collect(here, there)
    np.testing.assert_array_equal(first, x[:90])
    np.testing.assert_array_equal(second, y[:90])


@settings(max_examples=100, deadline=None)
@given(delay=st.integers(1, 50), segment=st.integers(1, 500), length=st.integers(1, 400))
def test_an_echo_is_that_of_a_plain_loop(delay: int, segment: int, length: int) -> None:
    x = arrays(1, length)[0].astype("f8")
    plan = iso.scan(x, segment, rate=100).feedback(lambda x, back: x.map(lambda s, t: s + t / 2, back), delay=delay)
    y = x.copy()
    for n in range(delay, length):
        y[n] = x[n] + y[n - delay] / 2
    np.testing.assert_array_equal(plan.collect(), y)


def test_what_is_fed_back_has_the_dtype_and_the_width_of_initial() -> None:
    x = np.arange(12, dtype="i2")
    windows = iso.scan(x, rate=100).rewindow(4)
    total = windows.feedback(lambda w, t: w.map(lambda s, t: t + s.astype("int64"), t), initial=[0, 0, 0, 0])
    np.testing.assert_array_equal(total.collect(), np.cumsum(x.reshape(3, 4), axis=0))
    assert total.collect().dtype == np.int64


def test_python_functions_may_stand_in_a_loop() -> None:
    x = np.ones(6)
    halved = iso.py(lambda block: block / 2, dtype="f8")
    plan = (
        iso.scan(x, rate=100)
        .rewindow(1)
        .feedback(lambda w, g: (w.map(lambda s, g: s * g, g), g.map(halved)), initial=1.0)
    )
    np.testing.assert_array_equal(plan.collect()[:, 0], 0.5 ** np.arange(6))


@pytest.mark.parametrize(
    ("step", "error", "says"),
    [
        (lambda w: w.map(lambda s: s, w), iso.PlanError, "map gets 2 arguments, one for each plan: .* lambda x1, x2: "),
        (lambda w: w.filter(lambda s, t: s > t, w), iso.PlanError, "one bool per window"),
        (lambda w: w.map(iso.py(abs, dtype="f8"), w), iso.PlanError, "cannot take a function made with iso.py"),
        (lambda w: w.feedback(lambda x, b: x, delay=0), iso.OptionError, "delay="),
        (lambda w: w.feedback(lambda x, b: x, initial="a"), iso.OptionError, "real number"),
        (lambda w: w.feedback(lambda x, b: x, initial=1j), iso.OptionError, "real number"),
        (lambda w: w.feedback(lambda x, b: x, initial=[[1.0]]), iso.OptionError, "real number"),
        (lambda w: w.feedback(lambda x, b: 3), iso.PlanError, "returned int"),
        (lambda w: w.feedback(lambda x, b: x), iso.PlanError, "feed back the same as initial="),
        (lambda w: w.feedback(lambda x, b: b.filter(lambda b: b.max() > 0)), iso.PlanError, "filter in its loop"),
    ],
)
def test_refusals_say_what_to_do(step, error, says) -> None:
    windows = iso.scan(np.arange(8.0), rate=100).rewindow(2)
    with pytest.raises(error, match=says):
        step(windows)


def test_what_is_fed_back_cannot_leave_its_loop() -> None:
    windows = iso.scan(np.arange(8.0), rate=100).rewindow(2)
    leaked = []
    windows.feedback(lambda w, back: leaked.append(back) or w.map(lambda s, t: s.max() + t, back))
    with pytest.raises(iso.PlanError, match="times instead of once"):
        leaked[0].collect()


def test_a_function_with_too_few_arguments_is_told_as_many_names_as_there_are_plans() -> None:
    x = iso.scan(np.arange(8.0), rate=100)
    with pytest.raises(iso.PlanError, match=r"lambda x1, x2, x3, x4, x5, x6, x7: "):
        x.map(lambda s: s, *[x] * 6)


@pytest.mark.parametrize("optimise", [True, False])
def test_a_running_plan_takes_other_parameters_from_the_next_window_on(optimise: bool) -> None:
    burst = 64 * 10
    x = (np.random.default_rng(1).normal(size=3 * burst) * 1000).astype("i2")
    control = iso.Control()
    plans = []

    def change(_values: np.ndarray, start: int) -> None:
        if start == burst:
            control.set(plans[0], predicate=lambda s: s.max() > 1200)

    loud = iso.scan(x, 10, rate=100).each(change).rewindow(5).filter(lambda s: s.max() > 2500)
    plans.append(loud)
    windows = x.reshape(-1, 5)
    level = np.where(np.arange(len(windows)) < burst // 5, 2500, 1200)
    expected = windows[windows.max(axis=1) > level]
    np.testing.assert_array_equal(loud.collect(control=control, optimise=optimise), expected)
    assert len(loud.collect()) < len(expected)


def test_what_cannot_change_is_refused() -> None:
    windows = iso.scan(np.arange(8.0), rate=100).rewindow(2)
    loud = windows.filter(lambda s: s.max() > 3)
    control = iso.Control()
    with pytest.raises(iso.PlanError, match="adjustable of rewindow: none"):
        control.set(windows, window=3)
    with pytest.raises(iso.PlanError, match="compare it"):
        control.set(loud, predicate=lambda s: s.max())
    with pytest.raises(iso.PlanError, match="an expression"):
        control.set(loud, predicate=3)
    for at in (2.5, True, "3", 1 << 63):
        with pytest.raises(iso.OptionError, match="at="):
            control.set(loud, at=at, predicate=lambda s: s.max() > 3)  # type: ignore[arg-type]
    control.set(windows.map(lambda s: s * 2), expression=lambda s: s * 3)
    with pytest.raises(iso.PlanError, match="not part of the running plan"):
        loud.collect(control=control)


def test_a_control_serves_one_run_at_a_time() -> None:
    control, refused = iso.Control(), []
    loud = iso.scan(np.arange(8.0), rate=100).rewindow(2).filter(lambda s: s.max() > 4)

    def meanwhile(_values: np.ndarray, _start: int) -> None:
        with pytest.raises(iso.PlanError, match="create a new Control") as error:
            loud.collect(control=control)
        refused.append(error.value.code)

    watched = iso.scan(np.arange(8.0), rate=100).each(meanwhile).rewindow(2).filter(lambda s: s.max() > 4)
    expected = [[4.0, 5.0], [6.0, 7.0]]
    np.testing.assert_array_equal(watched.collect(control=control), expected)
    assert set(refused) == {"control_in_use"}
    np.testing.assert_array_equal(loud.collect(control=control), expected)


@pytest.mark.parametrize(
    "meet",
    [
        lambda a, b: a.zip(b),
        lambda a, b: a.map(lambda s, t: s + t, b),
        lambda a, b: a.triggers(on=0.5).join(b.triggers(on=0.5)),
        lambda a, b: a.rewindow(16).delay(b.rewindow(16), 3),
        lambda a, b: a.rewindow(16).xcorr(b.rewindow(16), 3),
        lambda a, b: a.rewindow(16).gcc_phat(b.rewindow(16), 3),
        lambda a, b: a.sync(on=b.triggers(on=0.5))[0],
    ],
    ids=["zip", "map", "join", "delay", "xcorr", "gcc_phat", "sync"],
)
def test_plans_of_one_timebase_and_two_rates_do_not_meet(meet) -> None:  # type: ignore[no-untyped-def]
    a, b = iso.scan(np.zeros(100), rate=1000), iso.scan(np.zeros(200), rate=2000)
    with pytest.raises(iso.PlanError, match=r"(?s)1000 Hz.*2000 Hz.*resample") as refused:
        meet(a, b)
    assert "align" in str(refused.value)
    meet(a, iso.scan(np.zeros(100), rate=1000))


def test_samples_of_two_rates_are_not_merged() -> None:
    a, b = iso.scan(np.zeros(100), rate=1000), iso.scan(np.zeros(200), rate=2000)
    with pytest.raises(iso.PlanError, match=r"1000 Hz.*2000 Hz"):
        a.merge(b)
    a.merge(iso.scan(np.zeros(100), rate=1000))
