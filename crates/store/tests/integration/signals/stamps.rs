//! Interpretation of stamps: starts, gaps, clock steps, late samples, runs.

use super::*;

#[test]
fn a_stated_start_is_exact_and_follows_on_without_stamps() {
    let (_folder, store) = new_store();
    let mut third = options(1);
    third.rate = Rate::new(44_100_000, 1001).unwrap();
    let writer = store.create("x", &third).unwrap();
    let signal = writer.signal().unwrap();
    assert_eq!(signal.time_of(0).unwrap().value, at(0));
    writer.append(&vec![0i16; 100_000]).unwrap();
    writer.append_gap(7).unwrap();
    writer.append(&[1i16]).unwrap();
    let signal = writer.signal().unwrap();
    for index in [0i64, 1, 99_999, 100_007] {
        let exact = at(0)
            .checked_add(third.rate.duration_ns(index).unwrap())
            .unwrap();
        let off = signal
            .time_of(index)
            .unwrap()
            .value
            .checked_sub(exact)
            .unwrap();
        assert!(
            off.to_f64().abs() < 1e-6,
            "sample {index} is off by {off} ns"
        );
    }
    assert!(signal.time_of(100_003).unwrap().in_gap);
}

#[test]
fn stamps_decide_between_gap_and_clock_step() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(100)).unwrap();
    let block = vec![1i16; 100];
    assert_eq!(writer.append_at(&block, &exact(0)).unwrap().index, 0);
    assert_eq!(writer.append_at(&block, &exact(SECOND)).unwrap().index, 100);
    let after = writer.append_at(&block, &exact(4 * SECOND)).unwrap();
    assert!(
        matches!(
            after.placement,
            Placement::Gap {
                samples: Some(200),
                ..
            }
        ),
        "{after:?}"
    );
    assert_eq!((after.index, after.new_run), (400, None));
    let back = writer.append_at(&block, &exact(2 * SECOND)).unwrap();
    assert_eq!(
        (back.index, back.new_run),
        (500, Some(RunReason::BackwardStep))
    );
    let signal = writer.signal().unwrap();
    assert_eq!(signal.gaps().len(), 1);
    let runs = signal.runs().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0].civil, Some((at(0), at(5 * SECOND))));
    assert!((runs[0].rate.unwrap().hz - 100.0).abs() < 1e-3);
    assert!((signal.true_rate().unwrap().unwrap().hz - 100.0).abs() < 1e-3);
    // 2 s to 3 s is in the first run's gap and in the second run's samples, which precede.
    let found = signal
        .index_of(&Time::civil(at(5 * SECOND / 2)), Round::Nearest, None)
        .unwrap();
    assert_eq!(found.index, 550);
    let first = Some(Prefer::Run(runs[0].id));
    let found = signal
        .index_of(&Time::civil(at(5 * SECOND / 2)), Round::Nearest, first)
        .unwrap();
    assert_eq!((found.index, found.in_gap), (250, true));
}

#[test]
fn a_gap_beyond_max_gap_takes_one_chunk_and_keeps_its_duration() {
    let (_folder, store) = new_store();
    let mut small = options(100);
    small.max_gap_ns = 10 * SECOND;
    let writer = store.create("x", &small).unwrap();
    let chunk = 32_768;
    writer.append(&[1i16; 100]).unwrap();
    let hour = 3_600 * SECOND;
    let gap = writer.append_gap_duration(Fixed::from_int(hour)).unwrap();
    assert_eq!(gap.range(), 100..100 + chunk);
    writer.append(&[2i16; 100]).unwrap();
    let stamped = writer.append_at(&[3i16; 100], &exact(3 * hour)).unwrap();
    assert!(
        matches!(stamped.placement, Placement::Gap { samples: None, .. }),
        "{stamped:?}"
    );
    assert_eq!(stamped.index, 200 + 2 * chunk);
    let signal = writer.signal().unwrap();
    let time = |index: i64| {
        signal
            .time_of(index)
            .unwrap()
            .value
            .checked_sub(at(0))
            .unwrap()
            .to_f64()
    };
    let resumed = time(100 + chunk) - (SECOND + hour) as f64;
    assert!(resumed.abs() < 1e3, "off by {resumed} ns");
    assert!((time(stamped.index) - 3.0 * hour as f64).abs() < 1e3);
    let second = signal.select(at(hour)..at(2 * hour)).unwrap();
    assert_eq!(second.sample_count(), 100);
    let path = store.path().to_path_buf();
    store.commit(true).unwrap();
    store.close().unwrap();
    drop((writer, store));
    let store = Store::open(path, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    let next = writer
        .append_at(&[4i16], &exact(3 * hour + SECOND))
        .unwrap();
    assert_eq!(next.placement, Placement::Contiguous);
}

#[test]
fn a_nanosecond_more_is_a_sample_more_at_a_learned_rate_however_long_the_gap() {
    let (_folder, store) = new_store();
    let day = 86_400 * SECOND;
    let mut fast = options(1_000_000_000);
    fast.max_gap_ns = 1_000 * day;
    let lengths = [0, 1, 2, 3].map(|more| {
        let writer = store.create(&format!("x{more}"), &fast).unwrap();
        // Ten parts per million slow, so that the clock learns a rate.
        for k in 0..100 {
            let stamp = Stamp::new(at(k * 10_000_100), Fixed::from_int(1000));
            writer.append_at(&[1i16; 10_000], &stamp).unwrap();
            writer.append_gap(9_990_000).unwrap();
        }
        let gap = writer.append_gap_duration(Fixed::from_int(400 * day + more));
        gap.unwrap().length
    });
    let nominal = 400 * day;
    let learned = nominal - lengths[0];
    // Microsecond stamps of one second give the rate to two parts per million.
    assert!((learned - nominal / 100_000).abs() < nominal / 500_000);
    assert_eq!(lengths.map(|length| length - lengths[0]), [0, 1, 2, 3]);
}

#[test]
fn a_stated_gap_takes_its_index_and_ends_at_the_stamp_whatever_part_of_a_sample_it_lasts() {
    let (folder, store) = new_store();
    let writer = store.create("x", &options(1)).unwrap();
    let block = bytes(&[1i16; 100]);
    let (mut index, mut time) = (0, 0);
    writer.append_bytes_at(&block, &exact(0), None).unwrap();
    let mut expected = vec![(0, 0)];
    for (gap, lasted) in [
        (1, SECOND / 20),
        (2, 2 * SECOND + SECOND / 3),
        (7, 70 * SECOND),
    ] {
        index += 100 + gap;
        time += 100 * SECOND + lasted;
        let went = writer
            .append_bytes_behind_gap(&block, gap, &exact(time))
            .unwrap();
        assert_eq!((went.index, went.new_run), (index, None));
        let Placement::Gap {
            samples,
            duration_ns,
        } = went.placement
        else {
            panic!("{went:?}");
        };
        assert_eq!(samples, Some(gap.unsigned_abs()));
        assert!(
            (duration_ns.to_f64() - lasted as f64).abs() < 1e3,
            "{duration_ns}"
        );
        expected.push((index, time));
    }
    store.commit(true).unwrap();
    store.close().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    let signal = writer.signal().unwrap();
    assert_eq!((signal.gaps().len(), signal.end_index()), (3, index + 100));
    for (first, time) in expected {
        for (index, time) in [(first, time), (first + 99, time + 99 * SECOND)] {
            let off = signal.time_of(index).unwrap().value.checked_sub(at(time));
            assert!(off.unwrap().to_f64().abs() < 1e3, "{index}: {off:?}");
        }
    }
    // A step back is a clock step despite a stated gap; a gap's length is kept.
    let back = writer
        .append_bytes_behind_gap(&block, 5, &exact(time))
        .unwrap();
    assert_eq!(
        (back.index, back.new_run),
        (index + 100, Some(RunReason::BackwardStep))
    );
    let none = writer.append_bytes_behind_gap(&block, 0, &exact(2 * time));
    assert_eq!(code(none), "invalid_length");
}

#[test]
fn late_samples_fill_their_gap_or_become_a_run() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(100)).unwrap();
    writer.append_at(&[1i16; 100], &exact(SECOND)).unwrap();
    writer.append_at(&[2i16; 100], &exact(6 * SECOND)).unwrap();
    let late = bytes(&[3; 100]);
    let filled = writer.backfill(&late, &exact(4 * SECOND)).unwrap();
    assert!(
        matches!(filled, Backfilled::Filled { samples: 100, .. }),
        "{filled:?}"
    );
    assert_eq!(
        writer
            .matches(&late, &exact(4 * SECOND))
            .unwrap()
            .map(|range| range.end - range.start),
        Some(100)
    );
    assert_eq!(writer.matches(&late, &exact(2 * SECOND)).unwrap(), None);
    assert_eq!(
        writer
            .matches(&bytes(&[4; 100]), &exact(4 * SECOND))
            .unwrap(),
        None
    );
    let over = writer
        .backfill(&bytes(&[5; 100]), &exact(3 * SECOND / 2))
        .unwrap();
    let Backfilled::Appended(over) = over else {
        panic!("{over:?}")
    };
    assert_eq!(over.new_run, Some(RunReason::Overlap));
    let on = writer
        .backfill(&bytes(&[6; 200]), &exact(5 * SECOND / 2))
        .unwrap();
    let on_run = match on {
        Backfilled::Appended(on) => on.run,
        other => panic!("{other:?}"),
    };
    assert_eq!(on_run, over.run);
    // Live samples keep their own clock.
    let live = writer.append(&[7i16; 100]).unwrap();
    assert_eq!(live.new_run, Some(RunReason::Resumed));
    let signal = writer.signal().unwrap();
    let time = signal.time_of(live.index).unwrap().value;
    assert_eq!(time, at(7 * SECOND));
    let first = signal.select(at(SECOND)..at(3 * SECOND)).unwrap();
    let flat = |selection: &isochrony_store::Selection| -> Vec<i16> {
        selection
            .segments()
            .flat_map(|segment| segment.unwrap().to_vec::<i16>().unwrap())
            .collect()
    };
    let ones = flat(&first);
    assert_eq!((ones.len(), ones[0], ones[99], ones[100]), (200, 1, 1, 5));
    let last = flat(
        &signal
            .select_with(at(SECOND)..at(3 * SECOND), Overlap::Last)
            .unwrap(),
    );
    assert_eq!((last.len(), last[49], last[50]), (200, 1, 5));
    let all = signal
        .select_with(at(SECOND)..at(3 * SECOND), Overlap::All)
        .unwrap();
    assert_eq!(all.sample_count(), 250);
}

#[test]
fn a_requested_run_keeps_the_rate_but_not_the_time() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(100)).unwrap();
    writer.append_at(&[1i16; 100], &exact(0)).unwrap();
    let run = writer.begin_run().unwrap();
    let stamped = writer.append_at(&[2i16; 100], &exact(90 * SECOND)).unwrap();
    assert_eq!((stamped.run, stamped.index), (run, 100));
    let signal = writer.signal().unwrap();
    assert_eq!(signal.gaps().len(), 0);
    assert!(!signal.contiguous(99..101).unwrap());
    assert_eq!(
        code(signal.select(0..200).unwrap().as_segment()),
        "clock_step_in_selection"
    );
    assert_eq!(signal.runs().unwrap()[1].reason, RunReason::Requested);
    assert_eq!(signal.time_of(100).unwrap().value, at(90 * SECOND));
    writer.begin_run().unwrap();
    writer.append(&[3i16; 100]).unwrap();
    let signal = writer.signal().unwrap();
    assert_eq!(code(signal.time_of(200)), "no_civil_time");
    assert_eq!(
        signal
            .select(at(0)..at(3600 * SECOND))
            .unwrap()
            .sample_count(),
        200
    );
    let told = writer
        .append_at(&[4i16; 100], &exact(200 * SECOND))
        .unwrap();
    assert_eq!((told.index, told.new_run), (300, None));
    assert_eq!(
        writer.signal().unwrap().time_of(200).unwrap().value,
        at(199 * SECOND)
    );
}
