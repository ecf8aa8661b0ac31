//! Late samples, as pieces and as rows.

use super::*;

#[test]
fn late_samples_are_counted_and_kept_on_request() {
    let mut sender = steady_sender((50, 500));
    sender.sends_backlog = true;
    let (indices, _, _, listener) = events(&sender, 100);
    // All frames from 50 on arrive at 1011 ms, when samples before 900 have been given up.
    assert_eq!(indices, (0..500).chain(900..2000).collect::<Vec<_>>());
    let counts = listener.counts();
    assert_eq!((counts.lost_samples, counts.late_samples), (400, 400));
    assert_eq!(counts.late_frames, 40);
    let late = listener.take_late();
    let starts: Vec<i64> = late.iter().map(|late| late.start).collect();
    assert_eq!(starts, (500..900).step_by(10).collect::<Vec<_>>());
    let sample = |late: &crate::LateSamples| i16::from_ne_bytes([late.samples[0], late.samples[1]]);
    assert!(
        late.iter()
            .all(|late| i64::from(sample(late)) == late.start)
    );
    assert_eq!(late[0].time, Some(START + 500 * MS as i64));
    assert_eq!(listener.take_late(), []);
}

fn run_with_late(sender: &Sender, late: impl Fn(Plan) -> Plan) -> (Option<RecordBatch>, Listener) {
    let listener = listener(sender.rate, 100);
    let feed = ReplayedFeed {
        listener: listener.clone(),
        arrivals: sender.arrivals(),
        clock: Arc::default(),
        steps: vec![MS],
        marks: Arc::default(),
    };
    let plans = [
        Plan::scan(feed).count().unwrap(),
        late(Plan::scan(listener.late().unwrap())),
    ];
    let (gathered, _) = Plan::collect_all(&plans, &RunOptions::default()).unwrap();
    (gathered[1].rows().cloned(), listener)
}

#[test]
fn late_rows_say_where_the_feed_was_and_which_sample_it_is() {
    let mut sender = steady_sender((50, 500));
    sender.sends_backlog = true;
    let (late, listener) = run_with_late(&sender, |late| late);
    let late = late.unwrap();
    assert_eq!(column(&late, "start"), [900; 400]);
    assert_eq!(column(&late, "end"), [901; 400]);
    let expected: Vec<i64> = (500..900).collect();
    assert_eq!(column(&late, "index"), expected);
    let times: Vec<i64> = expected.iter().map(|k| START + k * MS as i64).collect();
    assert_eq!(column(&late, "sample_time"), times);
    assert_eq!(column(&late, "time"), [START + 900 * MS as i64; 400]);
    let values: Vec<i64> = expected.iter().map(|k| k % 1000).collect();
    assert_eq!(column(&late, "value"), values);
    let counts = listener.counts();
    assert_eq!((counts.late_samples, counts.dropped_late_samples), (400, 0));
}

#[test]
fn repeated_frames_before_the_first_released_are_late_once() {
    let mut sender = steady_sender((0, 0));
    // Frames 0 and 2 come, and come again, when frame 5 has been released.
    sender.delays[..5].copy_from_slice(&[Some(300), None, Some(300), None, None]);
    sender.repeats = vec![Some(310), None, Some(320)];
    sender.repeats.resize(20, None);
    sender.repeats.push(Some(5));
    let (late, listener) = run_with_late(&sender, |late| late);
    let counts = listener.counts();
    let expected: Vec<i64> = (0..10).chain(20..30).collect();
    assert_eq!(column(&late.unwrap(), "value"), expected);
    assert_eq!((counts.late_samples, counts.lost_samples), (20, 0));
    assert_eq!((counts.late_frames, counts.duplicate_frames), (2, 3));
}

#[test]
fn late_samples_of_a_restarted_clock_are_placed_behind_themselves() {
    let mut sender = steady_sender((50, 150));
    (sender.sends_backlog, sender.restarts) = (true, true);
    // What was taken in the silence comes at 661 ms, when samples before 550 have been given up: 50 of it are late.
    let (late, listener) = run_with_late(&sender, |late| late);
    let (late, counts) = (late.unwrap(), listener.counts());
    assert_eq!(counts.clock_steps, 1);
    assert!((49..=51).contains(&counts.late_samples), "{counts:?}");
    check_late_rows(Some(&late), &counts, &listener);
    let (starts, indices) = (column(&late, "start"), column(&late, "index"));
    // Frame by frame: each row is where its frame's late samples end.
    let (first, last) = (indices[0], indices[indices.len() - 1] + 1);
    let ends = indices
        .iter()
        .map(|index| first + ((index - first) / 10 + 1) * 10);
    let ends: Vec<i64> = ends.map(|end| end.min(last)).collect();
    assert_eq!(starts, ends);
}

fn counted_in_windows(late: Plan) -> Plan {
    let params = json!({"keys": [], "every": 0.2, "aggregates": {"n": "count"}});
    let catalog = Catalog::standard();
    let group_by = catalog.get("group_by").unwrap();
    late.apply(group_by, params.as_object().unwrap().clone(), &[])
        .unwrap()
}

#[test]
fn late_rows_are_grouped_in_windows_of_the_feed() {
    let mut sender = steady_sender((50, 500));
    sender.sends_backlog = true;
    let (groups, _) = run_with_late(&sender, counted_in_windows);
    let groups = groups.unwrap();
    assert_eq!(column(&groups, "start"), [800]);
    assert_eq!(column(&groups, "n"), [400]);
}

#[test]
fn late_rows_of_both_runs_of_a_restarted_clock_are_in_windows_of_their_own() {
    let mut sender = steady_sender((50, 1000));
    sender.restarts = true;
    for late in [20, 180] {
        sender.delays[late] = Some(90);
    }
    let (groups, listener) = run_with_late(&sender, counted_in_windows);
    let (groups, counts) = (groups.unwrap(), listener.counts());
    assert_eq!((counts.clock_steps, counts.late_samples), (1, 20));
    assert_eq!(column(&groups, "n"), [10, 10]);
    let starts = column(&groups, "start");
    assert!(starts[0] <= 280 && starts[1] > 500, "{starts:?}");
    assert!(column(&groups, "end")[0] <= starts[1]);
}
