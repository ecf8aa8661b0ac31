use isochrony_dsp::resample::Ratio;
use isochrony_flow::{
    EventSink, IfExists, Plan, SharedFactory, SignalLocation, SignalSink, SinkFactory,
    StoredRecording,
};
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::{Fixed, Rate, Stamp};

use super::made::{array, quick, resample};

const T0: i64 = 1_267_401_600_000_000_000;

/// 40 ppm fast at 100 Hz: three minutes, a gap of 3.3 s, two minutes, and after a step back by an hour one.
fn recorded() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::F32, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    let mut at = T0 as f64;
    let minute = |at: &mut f64| {
        let samples: Vec<f32> = (0..6000).map(|n| (n as f32 * 0.01).sin()).collect();
        let stamp = Stamp::new(Fixed::from_int(at.round() as i64), Fixed::ZERO);
        writer
            .append_bytes_at(bytemuck::cast_slice(&samples), &stamp, None)
            .unwrap();
        *at += 6000.0 * 1e7 / 1.000_04;
    };
    (0..3).for_each(|_| minute(&mut at));
    at += 3.3e9;
    (0..2).for_each(|_| minute(&mut at));
    at -= 3.6e12;
    minute(&mut at);
    store.commit(true).unwrap();
    (folder, store)
}

fn time_at(signal: &isochrony_store::Signal, ratio: Ratio, index: i64) -> f64 {
    let (at, part) = ratio.place(index).unwrap();
    let ns = |at| {
        let time = signal.time_of(at).unwrap().value;
        time.checked_sub(Fixed::from_int(T0)).unwrap().to_f64()
    };
    ns(at) + part as f64 / ratio.up() as f64 * 1e7 / 1.000_04
}

#[test]
fn a_kept_signal_has_the_times_of_the_places_over_gaps_and_clock_steps() {
    let (_folder, store) = recorded();
    let signal = store.signal("p").unwrap();
    assert_eq!((signal.gaps().len(), signal.state().runs.len()), (1, 2));
    for (name, up, down, edges) in [
        ("tenth", 1, 10, "inside"),
        ("denser", 147, 100, "steady"),
        ("odd", 3, 7, "zeros"),
    ] {
        let ratio = Ratio::new(up, down).unwrap();
        let plan = resample(
            &Plan::scan(StoredRecording::new(store.path(), signal.clone())),
            quick(up, down, edges),
        )
        .unwrap();
        let collected = array(&plan);
        let to = SignalSink::new(SignalLocation::new(&store, name), IfExists::Refuse);
        plan.sink(to).unwrap().run().unwrap();
        let kept = store.signal(name).unwrap();
        assert_eq!(kept.rate(), ratio.rate(signal.rate()).unwrap());
        assert_eq!(kept.state().runs.len(), 2, "{name}");
        let stretches: Vec<_> = kept
            .select(0..kept.end_index())
            .unwrap()
            .segments()
            .map(|s| s.unwrap().range())
            .collect();
        assert_eq!(stretches.len(), 3, "{name}: {stretches:?}");
        let mut indices = collected
            .parts
            .iter()
            .flat_map(|&(start, len)| start..start + len as i64);
        let period = 1e9 / kept.rate().to_f64();
        for at in stretches.into_iter().flatten() {
            let from = indices.next().unwrap();
            let got = kept
                .time_of(at)
                .unwrap()
                .value
                .checked_sub(Fixed::from_int(T0))
                .unwrap()
                .to_f64();
            let want = time_at(&signal, ratio, from);
            // Gaps are rounded to whole samples, within a hundredth; the store's clock fits the stamps within another.
            assert!(
                (got - want).abs() < 0.02 * period,
                "{name} at {at} of {from}: {got} {want}"
            );
        }
        assert_eq!(indices.next(), None);
    }
}

#[test]
fn rows_have_the_times_of_their_places() {
    let (_folder, store) = recorded();
    let signal = store.signal("p").unwrap();
    let ratio = Ratio::new(3, 7).unwrap();
    let plan = Plan::scan(StoredRecording::new(store.path(), signal.clone()));
    let plan = resample(&plan, quick(3, 7, "inside")).unwrap();
    let rows = plan
        .rewindow(101)
        .unwrap()
        .rows([])
        .unwrap()
        .collect()
        .unwrap();
    let rows = rows.rows().unwrap();
    let starts: &arrow_array::Int64Array = rows.column(0).as_any().downcast_ref().unwrap();
    let times: &arrow_array::TimestampNanosecondArray = rows
        .column_by_name("time")
        .unwrap()
        .as_any()
        .downcast_ref()
        .unwrap();
    assert!(rows.num_rows() > 100);
    for (&start, &time) in starts.values().iter().zip(times.values()) {
        let want = time_at(&signal, ratio, start);
        assert!(
            ((time - T0) as f64 - want).abs() < 4.0,
            "{start}: {time} {want}"
        );
    }
}

#[test]
fn events_lie_on_the_samples_that_were_resampled() {
    let (_folder, store) = recorded();
    let plan = Plan::scan(StoredRecording::new(
        store.path(),
        store.signal("p").unwrap(),
    ));
    let windows = resample(&plan, quick(3, 7, "inside"))
        .unwrap()
        .rewindow(1000)
        .unwrap();
    let events = EventSink::new(SignalLocation::new(&store, "p"), "window");
    windows
        .apply_factory(SharedFactory::new(SinkFactory::new(events)), &[])
        .unwrap()
        .run()
        .unwrap();
    let signal = store.signal("p").unwrap();
    let events: Vec<_> = signal
        .events()
        .map(|event| (event.start, event.end))
        .collect();
    // The first window lacks what the lowpass leaves out: 1000 take 2333 and a third samples.
    assert_eq!(events[..2], [(2333, 4667), (4666, 7000)]);
}

#[test]
fn an_error_behind_says_when_what_was_resampled_was_taken() {
    let (_folder, store) = recorded();
    let plan = Plan::scan(StoredRecording::new(
        store.path(),
        store.signal("p").unwrap(),
    ));
    let tenth = resample(&plan, quick(1, 10, "inside")).unwrap();
    let fails = tenth.each(|_| Err("enough".into()));
    let error = fails.unwrap().run().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("2010-03-01T00:00:0"), "{text}");
}
