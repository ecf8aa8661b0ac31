//! Groups in windows of time, against loops over all rows.

use std::collections::HashSet;

use isochrony_flow::arrow::array::types::TimestampNanosecondType;
use isochrony_flow::operators::GroupBy;
use isochrony_flow::{Break, Item, PlanOutput, RangeOrigin};
use isochrony_time::RunId;

use super::*;

const RATE: i64 = 100;
const PERIOD: i64 = 1_000_000_000 / RATE;

type KeyedRow = (i64, i64, f64, i64);

#[derive(Debug, Clone)]
struct ClockRun {
    first: i64,
    zero: i64,
    rows: Vec<KeyedRow>,
}

#[derive(Debug, Clone)]
struct History {
    runs: Vec<ClockRun>,
    stream: StreamId,
    clock: Option<Arc<ClockOfRuns>>,
    cuts: Vec<(usize, Option<i64>)>,
    rewinds: bool,
}

#[derive(Debug)]
struct ClockOfRuns(Vec<(i64, i64)>);

impl ClockOfRuns {
    fn run_of(&self, index: i64) -> usize {
        let after = self.0.partition_point(|run| run.0 <= index);
        after.saturating_sub(1)
    }

    fn time(&self, index: i64) -> i64 {
        let (first, zero) = self.0[self.run_of(index)];
        zero + (index - first) * PERIOD
    }
}

impl History {
    fn end(&self, run: usize) -> i64 {
        self.runs.get(run + 1).map_or(i64::MAX, |next| next.first)
    }
}

impl Clock for ClockOfRuns {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        let pairs = out.iter_mut().zip(indices);
        pairs.for_each(|(out, &index)| *out = self.time(index));
        Ok(())
    }

    fn first_at(&self, near: i64, time: i64) -> Option<i64> {
        let at = self.run_of(near);
        let (first, zero) = self.0[at];
        let end = self.0.get(at + 1).map_or(i64::MAX, |next| next.0);
        let after = (time - zero + PERIOD - 1).div_euclid(PERIOD);
        Some((first + after).clamp(first, end))
    }
}

fn keyed_fields() -> Fields {
    let field = |name, data| Field::new(name, data, false);
    Fields::intern([
        field("start", DataType::Int64),
        field("end", DataType::Int64),
        field("x", DataType::Float64),
        field("key", DataType::Int64),
    ])
}

fn block(rows: &[KeyedRow], next: i64) -> SourceEvent {
    let whole = |of: fn(&KeyedRow) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let numbers = Float64Array::from_iter_values(rows.iter().map(|row| row.2));
    let columns = vec![
        whole(|row| row.0),
        whole(|row| row.1),
        Arc::new(numbers),
        whole(|row| row.3),
    ];
    let batch = RecordBatch::try_new(keyed_fields().schema().clone(), columns).unwrap();
    let covers = rows[0].0..rows[rows.len() - 1].1;
    SourceEvent::Item(Rows::new(batch, covers, next).into())
}

impl Recording for History {
    fn port(&self) -> PortType {
        PortType::Rows {
            fields: keyed_fields(),
            stream: Some(self.stream),
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let mut events = Vec::new();
        let mut cuts = self.cuts.iter().cycle();
        for (nth, run) in self.runs.iter().enumerate() {
            let origin = RangeOrigin::at(run.first);
            let why = (nth > 0).then(|| Break::ClockStep {
                old: RunId(nth as u32 - 1),
                new: RunId(nth as u32),
            });
            if nth > 0 && self.rewinds {
                events.push(SourceEvent::Rewind);
            }
            events.push(SourceEvent::RangeStart { origin, why });
            let mut rows = &run.rows[..];
            while !rows.is_empty() {
                let &(size, lag) = cuts.next().unwrap();
                let (now, rest) = rows.split_at(size.min(rows.len()));
                rows = rest;
                let end = self
                    .end(nth)
                    .min(now[now.len() - 1].1.max(now[now.len() - 1].0));
                let next = rest.first().map_or(end, |row| row.0);
                events.push(block(now, next.min(now[now.len() - 1].0)));
                if let Some(lag) = lag {
                    events.push(SourceEvent::ProgressMark(next - lag));
                }
            }
        }
        events.reverse();
        Ok(Box::new(Script(events)))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
    }
}

type Found = (i64, i64, Option<i64>, i64, i64, u64, u64);

fn found(rows: &[&KeyedRow], range: (i64, i64), time: Option<i64>, key: i64) -> Found {
    let sum = rows.iter().fold(0.0, |sum, row| sum + row.2);
    let (count, first) = (rows.len() as i64, rows[0].2);
    (
        range.0,
        range.1,
        time,
        key,
        count,
        sum.to_bits(),
        first.to_bits(),
    )
}

fn keys_in_order(rows: &[&KeyedRow]) -> Vec<i64> {
    let mut seen = HashSet::new();
    let keys = rows.iter().map(|row| row.3);
    keys.filter(|key| seen.insert(*key)).collect()
}

fn windows_by_loops(history: &History, every: i64, period: i64) -> Vec<Found> {
    let mut all = Vec::new();
    for (nth, run) in history.runs.iter().enumerate() {
        let axis = |index: i64| match history.clock.is_some() {
            true => run.zero + (index - run.first) * PERIOD,
            false => index,
        };
        let positions = || run.rows.iter().map(|row| axis(row.0));
        let (Some(least), Some(most)) = (positions().min(), positions().max()) else {
            continue;
        };
        for number in (least - period).div_euclid(every) - 1..=most.div_euclid(every) + 1 {
            let (begin, end) = (number * every, number * every + period);
            let inside = |index: i64| (begin..end).contains(&axis(index));
            let rows: Vec<_> = run.rows.iter().filter(|row| inside(row.0)).collect();
            if rows.is_empty() {
                continue;
            }
            // Sample by sample, from a row of the window.
            let mut range = (rows[0].0, rows[0].0);
            while range.0 > run.first && inside(range.0 - 1) {
                range.0 -= 1;
            }
            while range.1 < history.end(nth) && axis(range.1) < end {
                range.1 += 1;
            }
            for key in keys_in_order(&rows) {
                let rows: Vec<_> = rows.iter().copied().filter(|row| row.3 == key).collect();
                all.push(found(
                    &rows,
                    range,
                    history.clock.as_ref().map(|_| begin),
                    key,
                ));
            }
        }
    }
    all
}

fn sessions_by_loops(history: &History, gap: i64) -> Vec<Found> {
    let mut all = Vec::new();
    for run in &history.runs {
        let mut sessions: Vec<Vec<&KeyedRow>> = Vec::new();
        let end = |row: &KeyedRow| row.1.max(row.0);
        for row in &run.rows {
            let of_key = sessions.iter_mut().rfind(|one| one[0].3 == row.3);
            let goes_on = of_key.filter(|rows| {
                let last = rows.iter().map(|row| end(row)).max().unwrap();
                row.0 - last <= gap
            });
            match goes_on {
                Some(session) => session.push(row),
                None => sessions.push(vec![row]),
            }
        }
        all.extend(sessions.iter().map(|rows| {
            let start = rows[0].0;
            let last = rows.iter().map(|row| row.1).max().unwrap();
            let time = history.clock.as_ref().map(|clock| clock.time(start));
            found(rows, (start, last), time, rows[0].3)
        }));
    }
    all
}

fn results(table: &RecordBatch) -> Vec<Found> {
    let (start, end) = (ints(table, "start"), ints(table, "end"));
    let (key, count) = (ints(table, "key"), ints(table, "n"));
    let (sum, first) = (floats(table, "sum"), floats(table, "first"));
    let time = table.column_by_name("time");
    let time = time.map(|times| times.as_primitive::<TimestampNanosecondType>().values());
    let row = |at: usize| {
        let time = time.map(|times| times[at]);
        (
            start[at],
            end[at],
            time,
            key[at],
            count[at],
            sum[at].to_bits(),
            first[at].to_bits(),
        )
    };
    (0..table.num_rows()).map(row).collect()
}

fn grouped(plan: &Plan, params: &serde_json::Value) -> Result<Plan, PlanError> {
    let mut params = params.as_object().unwrap().clone();
    params.insert("keys".into(), json!(["key"]));
    let aggregates =
        json!({"n": "count", "sum": ["x", "sum"], "first": ["x", "first"], "mean": ["x", "mean"]});
    params.insert("aggregates".into(), aggregates);
    plan.then::<GroupBy>(params)
}

/// Several threads share the keys.
fn table_in_stages(plan: &Plan, seed: u64) -> RecordBatch {
    let (output, _) = super::keys::run_in_stages(plan, seed).unwrap();
    output.rows().unwrap().clone()
}

/// Distance to the next row's start, length, ten times the number, key.
type Step = (i64, i64, i64, i64);

fn runs() -> impl Strategy<Value = Vec<ClockRun>> {
    let row = (0i64..30, 0i64..25, -30i64..40, 0i64..3);
    let run = (
        prop::collection::vec(row, 0..40),
        -40_000_000_000i64..40_000_000_000,
        0i64..20,
    );
    prop::collection::vec(run, 1..4).prop_map(|runs| {
        let mut first = 5;
        let run = |(steps, zero, behind): (Vec<Step>, i64, i64)| {
            let mut start = first;
            let rows = steps.into_iter().map(|(step, len, x, key)| {
                start += step;
                // Eighths, so that the loops' sums are exact, too.
                (start, start + len, x as f64 / 8.0, key)
            });
            let run = ClockRun {
                first,
                zero,
                rows: rows.collect(),
            };
            let end = run.rows.iter().map(|row| row.1).max().unwrap_or(first);
            first = end + 1 + behind;
            run
        };
        runs.into_iter().map(run).collect()
    })
}

fn cuts() -> impl Strategy<Value = Vec<(usize, Option<i64>)>> {
    prop::collection::vec((1usize..9, prop::option::of(0i64..30)), 1..6)
}

fn history(runs: Vec<ClockRun>, civil: bool, cuts: Vec<(usize, Option<i64>)>) -> History {
    // Concurrent tests give their clocks to streams of their own.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("windows");
    let kind = if civil { "civil" } else { "index" };
    let timebase = 40 + 2 * test.len() as u32 + u32::from(civil);
    let starts = runs.iter().map(|run| (run.first, run.zero)).collect();
    History {
        runs,
        stream: stream(&format!("{test}/{kind}"), timebase, RATE as u64),
        clock: civil.then(|| Arc::new(ClockOfRuns(starts))),
        cuts,
        rewinds: false,
    }
}

fn length(samples: i64, civil: bool) -> serde_json::Value {
    match civil {
        true => json!(samples as f64 / RATE as f64),
        false => json!(format!("{samples} samples")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn windows_are_those_of_loops_however_rows_are_cut(
        runs in runs(), civil: bool, (every, period) in (1i64..200, prop::option::of(1i64..400)), first in cuts(), second in cuts(), rewinds: bool, seed: u64,
    ) {
        let mut params = json!({"every": length(every, civil)});
        if let Some(period) = period {
            params["period"] = length(period, civil);
        }
        let unit = if civil { PERIOD } else { 1 };
        let expected = |history: &History| windows_by_loops(history, every * unit, period.unwrap_or(every) * unit);
        for cuts in [first, second] {
            let mut history = history(runs.clone(), civil, cuts);
            history.rewinds = rewinds && civil;
            let plan = grouped(&Plan::scan(history.clone()), &params).unwrap();
            prop_assert_eq!(results(&table(&plan)), expected(&history));
            prop_assert_eq!(results(&table_in_stages(&plan, seed)), expected(&history));
        }
    }

    #[test]
    fn sessions_are_those_of_loops_however_rows_are_cut(
        runs in runs(), civil: bool, gap in 1i64..60, first in cuts(), second in cuts(), seed: u64,
    ) {
        for cuts in [first, second] {
            let history = history(runs.clone(), civil, cuts);
            let params = json!({"session": length(gap, civil)});
            let plan = grouped(&Plan::scan(history.clone()), &params).unwrap();
            let expected = sessions_by_loops(&history, gap);
            prop_assert_eq!(results(&table(&plan)), &expected[..]);
            prop_assert_eq!(results(&table_in_stages(&plan, seed)), expected);
        }
    }

    /// The join fails if a start lies before an earlier mark.
    #[test]
    fn what_joins_windows_finds_each_beside_the_rows_in_it(
        mut runs in runs(), every in 1i64..200, hop in 1i64..4, cuts in cuts(),
    ) {
        runs.truncate(1);
        let history = history(runs, false, cuts);
        let rows = Plan::scan(history.clone());
        let params = json!({"every": length(every, false), "period": length(every * hop, false)});
        let windows = grouped(&rows, &params).unwrap();
        let joined = table(&windows.join(&rows, None).unwrap());
        let windows = windows_by_loops(&history, every, every * hop);
        let beside: Vec<(i64, i64, i64)> = windows.iter().flat_map(|window| {
            let rows = history.runs[0].rows.iter();
            let overlaps = rows.filter(|row| row.0 < window.1 && window.0 < row.1);
            overlaps.map(|row| (window.0, window.3, row.0))
        }).collect();
        let found: Vec<_> = (0..joined.num_rows()).map(|at| {
            (ints(&joined, "start")[at], ints(&joined, "key")[at], ints(&joined, "start_right")[at])
        }).collect();
        prop_assert_eq!(found, beside);
    }
}

#[test]
fn a_row_may_be_in_thousands_of_windows() {
    let rows = (0..90)
        .map(|k| (5 + 40 * k, 45 + 40 * k, 0.125 * k as f64, k % 2))
        .collect();
    let run = ClockRun {
        first: 5,
        zero: 0,
        rows,
    };
    let history = history(vec![run], false, vec![(90, None)]);
    let params = json!({"every": "1 sample", "period": "2000 samples"});
    let plan = grouped(&Plan::scan(history.clone()), &params).unwrap();
    assert_eq!(results(&table(&plan)), windows_by_loops(&history, 1, 2000));
}

#[test]
fn a_window_is_emitted_when_progress_passes_its_end() {
    let row = |start| (start, start + 1, 1.0, 0);
    let run = ClockRun {
        first: 0,
        zero: 0,
        rows: vec![row(10), row(120), row(5)],
    };
    let history = history(vec![run], false, vec![(1, Some(0)), (1, None)]);
    let windows = grouped(&Plan::scan(history), &json!({"every": "100 samples"})).unwrap();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let each = windows.each(move |item| {
        if let Item::Rows(rows) = item {
            sees.lock().unwrap().extend(ints(rows.batch(), "start"));
        }
        Ok(())
    });
    let error = each.unwrap().collect().unwrap_err();
    assert!(error.to_string().contains("jumps back by"), "{error}");
    assert_eq!(*seen.lock().unwrap(), [0]);
}

#[test]
fn groups_of_windows_that_are_over_do_not_count_as_many() {
    let rows = (0..50).map(|k| (k * 10, k * 10 + 1, 0.5, k % 4)).collect();
    let run = ClockRun {
        first: 0,
        zero: 0,
        rows,
    };
    let collect = |most: u64, cuts| {
        let params = json!({"every": "40 samples", "most": most});
        let history = history(vec![run.clone()], false, cuts);
        grouped(&Plan::scan(history), &params).unwrap().collect()
    };
    for cuts in [vec![(1, Some(0))], vec![(50, None)]] {
        assert!(collect(4, cuts.clone()).is_ok());
        let error = collect(3, cuts).unwrap_err().to_string();
        assert!(error.contains("4 groups are more than most=3"), "{error}");
    }
}

#[test]
fn windows_are_refused_with_what_to_do() {
    let run = ClockRun {
        first: 0,
        zero: 0,
        rows: vec![],
    };
    let rows = Plan::scan(history(vec![run.clone()], false, vec![(1, None)]));
    let civil = Plan::scan(history(vec![run], true, vec![(1, None)]));
    let no_range = rows.select(&["x", "key"], []).unwrap();
    for (plan, params, parts) in [
        (
            &rows,
            json!({"every": 1.0, "session": 2.0}),
            ["either every=", "session="],
        ),
        (&rows, json!({"period": 1.0}), ["needs every=", "period="]),
        (
            &rows,
            json!({"every": 0.001}),
            ["every=0.001 s at 100 Hz", "at least one sample"],
        ),
        (
            &rows,
            json!({"every": "0 samples"}),
            ["every=0 samples", "at least one sample"],
        ),
        (
            &civil,
            json!({"every": "1h", "period": "9 samples"}),
            ["every and period", "both"],
        ),
        (
            &no_range,
            json!({"every": 1.0}),
            ["start and end", "select"],
        ),
        (&rows, json!({"every": "1d"}), ["every", "125ms"]),
    ] {
        let error = grouped(plan, &params).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let twice = rows.then::<GroupBy>(
        json!({"keys": ["start"], "every": 1.0})
            .as_object()
            .unwrap()
            .clone(),
    );
    assert!(twice.unwrap_err().to_string().contains("\"start\""));
}

#[test]
fn what_windows_print_reads_back() {
    let run = ClockRun {
        first: 0,
        zero: 0,
        rows: vec![],
    };
    let rows = Plan::scan(history(vec![run], false, vec![(1, None)]));
    let windows = grouped(&rows, &json!({"every": "1min", "period": 90.0})).unwrap();
    assert!(windows.to_string().contains("every=60"), "{windows}");
    assert!(matches!(windows.collect().unwrap(), PlanOutput::Rows(rows) if rows.num_rows() == 0));
}
