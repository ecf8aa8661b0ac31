//! Rows against slow, obvious computations: loops over lists.

use std::ops::Range;
use std::sync::Arc;

use isochrony_expr::Expr;
use isochrony_flow::arrow::RecordBatch;
use isochrony_flow::arrow::array::cast::AsArray;
use isochrony_flow::arrow::array::types::{Float64Type, Int64Type};
use isochrony_flow::arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, TimestampNanosecondArray,
};
use isochrony_flow::arrow::schema::{DataType, Field};
use isochrony_flow::{
    Catalog, Cause, Clock, Fields, Live, OpError, Plan, PlanError, PortType, Pulled, Recording,
    Rows, RunOptions, SEGMENT, Segments, Source, Stat, json,
};
use isochrony_segment::{Calibration, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

fn stream(name: &str, timebase: u32, rate: u64) -> StreamId {
    let rate = Rate::new(rate, 1).unwrap();
    Stream::new(name, TimebaseId(timebase), rate)
        .with_calibration(Calibration::identity("kPa"))
        .intern()
}

fn table(plan: &Plan) -> RecordBatch {
    plan.collect().unwrap().rows().unwrap().clone()
}

fn ints(table: &RecordBatch, name: &str) -> Vec<i64> {
    let column = table.column_by_name(name).unwrap();
    column.as_primitive::<Int64Type>().values().to_vec()
}

fn floats(table: &RecordBatch, name: &str) -> Vec<f64> {
    let column = table.column_by_name(name).unwrap();
    column.as_primitive::<Float64Type>().values().to_vec()
}

fn names(table: &RecordBatch) -> Vec<String> {
    table
        .schema_ref()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect()
}

/// A row with a number, as tests write it.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    start: i64,
    end: i64,
    x: f64,
}

/// Rows in memory as a recording, in blocks of given sizes. Its clock, if it has one, is linear.
struct Given {
    rows: Vec<Row>,
    blocks: Vec<usize>,
    stream: StreamId,
    clock: Option<Arc<Linear>>,
}

/// Sample `i` is at `zero + i * period` ns; odd indices beyond `lost` have no time.
struct Linear {
    zero: i64,
    period: i64,
    lost: i64,
}

impl Clock for Linear {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        for (out, &index) in out.iter_mut().zip(indices) {
            *out = match index > self.lost {
                true => i64::MIN,
                false => self.zero + index * self.period,
            };
        }
        Ok(())
    }
}

fn fields() -> Fields {
    Fields::intern([
        Field::new("start", DataType::Int64, false),
        Field::new("end", DataType::Int64, false),
        Field::new("x", DataType::Float64, false),
    ])
}

impl Recording for Given {
    fn port(&self) -> PortType {
        PortType::Rows {
            fields: fields(),
            stream: Some(self.stream),
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let mut rows = &self.rows[..];
        let mut items = Vec::new();
        for block in self
            .blocks
            .iter()
            .copied()
            .chain(std::iter::repeat(usize::MAX))
        {
            let (now, rest) = rows.split_at(block.max(1).min(rows.len()));
            rows = rest;
            let (Some(first), Some(last)) = (now.first(), now.last()) else {
                break;
            };
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(
                    now.iter().map(|row| row.start),
                )),
                Arc::new(Int64Array::from_iter_values(now.iter().map(|row| row.end))),
                Arc::new(Float64Array::from_iter_values(now.iter().map(|row| row.x))),
            ];
            let batch = RecordBatch::try_new(fields().schema().clone(), columns).unwrap();
            let next = rest.first().map_or(last.end, |row| row.start);
            items.push(Pulled::Item(
                Rows::new(batch, first.start..last.end, next).into(),
            ));
        }
        items.reverse();
        Ok(Box::new(Script(items)))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
    }
}

struct Script(Vec<Pulled>);

impl Source for Script {
    fn pull(&mut self) -> Result<Pulled, OpError> {
        Ok(self.0.pop().unwrap_or(Pulled::End))
    }
}

fn given(rows: &[Row], blocks: &[usize], stream: StreamId) -> Plan {
    Plan::scan(Given {
        rows: rows.to_vec(),
        blocks: blocks.to_vec(),
        stream,
        clock: None,
    })
}

fn samples(samples: &[i16], piece: u64) -> Plan {
    let segment = SigSeg::from_slice(samples, 0, stream("rows/s", 0, 100)).unwrap();
    Plan::scan_part(Live::new(Segments::new([segment]).unwrap()), None, piece)
}

fn s() -> Expr {
    Expr::input()
}

fn r(name: &str) -> Expr {
    Expr::field(name)
}

#[test]
fn rows_of_windows_have_their_fields_and_print_and_save() {
    let plan = samples(&[1, 2, 3, 4, 5, 6, 7], SEGMENT)
        .rewindow(2)
        .unwrap();
    let plan = plan
        .rows([("energy", (&s() * &s()).sum()), ("wave", s() - s().mean())])
        .unwrap();
    let text = "scan(rows/s) -> rewindow(window=2) -> rows(fields={energy: (s * s).sum(), wave: s - s.mean()})";
    assert_eq!(plan.to_string(), text);
    assert_eq!(
        plan.port().to_string(),
        "rows[start int64, end int64, energy int64, wave 2 float64] of rows/s at 100 Hz in kPa"
    );
    let table = table(&plan);
    assert_eq!(names(&table), ["start", "end", "energy", "wave"]);
    assert_eq!(ints(&table, "start"), [0, 2, 4]);
    assert_eq!(ints(&table, "end"), [2, 4, 6]);
    assert_eq!(ints(&table, "energy"), [5, 25, 61]);
    let wave = table.column_by_name("wave").unwrap().as_fixed_size_list();
    let wave = wave.values().as_primitive::<Float64Type>();
    assert_eq!(wave.values()[..], [-0.5, 0.5, -0.5, 0.5, -0.5, 0.5]);
    // A plan of rows is saved and read back; what is in memory is not.
    let saved = json!({"isochrony_plan": 1, "nodes": [{"op": "scan", "of": {}},
        {"op": "rewindow", "params": {"window": 2}, "inputs": [[0, 0]]},
        {"op": "rows", "params": {"fields": {"energy": (&s() * &s()).sum(), "wave": s() - s().mean()}}, "inputs": [[1, 0]]}],
        "output": [2, 0]});
    let live =
        Segments::new([
            SigSeg::from_slice(&[1i16, 2, 3, 4, 5, 6, 7], 0, stream("rows/s", 0, 100)).unwrap(),
        ]);
    let live = Live::new(live.unwrap());
    let read = Plan::from_json(&saved, &Catalog::standard(), &|_| Ok(live.clone())).unwrap();
    assert_eq!(read.to_string(), text);
    assert_eq!(self::table(&read), table);
}

#[test]
fn fields_are_filtered_and_computed_as_numpy_would() {
    let rows: Vec<Row> = (0..10i64)
        .map(|k| Row {
            start: k * 4,
            end: k * 4 + 4,
            x: [0.5, f64::NAN, -2.0][k as usize % 3],
        })
        .collect();
    let plan = given(&rows, &[3, 1], stream("rows/g", 0, 100));
    let kept = plan.filter(&(r("x").gt(-1) & r("start").lt(30))).unwrap();
    assert_eq!(
        kept.to_string(),
        "scan(rows/g) -> filter(predicate=(r.x > -1) & (r.start < 30))"
    );
    assert_eq!(ints(&table(&kept), "start"), [0, 12, 24]);
    let made = kept.select(
        &["start"],
        [
            ("k", r("start").floordiv(4)),
            ("odd", (r("start") / 4 % 2).equal(1)),
        ],
    );
    let table = table(&made.unwrap());
    assert_eq!(names(&table), ["start", "k", "odd"]);
    assert_eq!(ints(&table, "k"), [0, 3, 6]);
    let odd: Vec<bool> = table
        .column_by_name("odd")
        .unwrap()
        .as_boolean()
        .values()
        .iter()
        .collect();
    assert_eq!(odd, [false, true, false]);
}

#[test]
fn what_is_unknown_passes_no_filter_and_stays_unknown() {
    let clock = Arc::new(Linear {
        zero: 1_000,
        period: 10,
        lost: 5,
    });
    let samples = [1i16; 12];
    let segment = SigSeg::from_slice(&samples, 0, stream("rows/clocked", 3, 100)).unwrap();
    let plan = Plan::scan(Clocked(Segments::new([segment]).unwrap(), clock));
    let plan = plan.rewindow(4).unwrap().stats([Stat::Mean]).unwrap();
    let whole = table(&plan);
    let times = whole.column_by_name("time").unwrap();
    let times: &TimestampNanosecondArray = times.as_primitive();
    assert_eq!(
        (times.value(0), times.value(1), times.is_null(2)),
        (1_000, 1_040, true)
    );
    assert_eq!(times.timezone(), Some("UTC"));
    let late = table(&plan.filter(&r("time").ge(0)).unwrap());
    assert_eq!(ints(&late, "start"), [0, 4]);
    let seconds = table(&plan.select(&["start"], [("us", r("time") / 1000)]).unwrap());
    let us = seconds.column_by_name("us").unwrap();
    assert_eq!((us.is_null(1), us.is_null(2)), (false, true));
    let groups = plan.group_by(
        &["time"],
        [("n", json!("count")), ("last", json!(["time", "last"]))],
    );
    let groups = table(&groups.unwrap());
    assert_eq!(ints(&groups, "n"), [1, 1, 1]);
    let last = groups.column_by_name("last").unwrap();
    assert_eq!(last.data_type(), times.data_type());
    assert_eq!((last.is_null(1), last.is_null(2)), (false, true));
}

/// Segments with a clock.
struct Clocked(Segments, Arc<Linear>);

impl Recording for Clocked {
    fn port(&self) -> PortType {
        self.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        self.0.open(range, segment)
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.1.clone())
    }
}

#[test]
fn errors_name_the_fields_there_are() {
    let plan = given(&[], &[], stream("rows/e", 0, 100));
    let windows = samples(&[1, 2], SEGMENT).rewindow(1).unwrap();
    let lists = windows.rows([("wave", s())]).unwrap();
    let cases: Vec<(PlanError, &str, &[&str])> = vec![
        (
            plan.filter(&r("y").gt(1)).unwrap_err(),
            "unknown_field",
            &["\"y\"", "start, end, x"],
        ),
        (
            plan.filter(&r("x")).unwrap_err(),
            "predicate",
            &["r.x: float64", "compare"],
        ),
        (
            plan.filter(&s().gt(1)).unwrap_err(),
            "not_of_rows",
            &["rows"],
        ),
        (
            windows.filter(&r("x").gt(1)).unwrap_err(),
            "field_of_samples",
            &["r.x", "samples"],
        ),
        (
            plan.select(&["y"], []).unwrap_err(),
            "unknown_field",
            &["select", "\"y\"", "start, end, x"],
        ),
        (
            plan.select(&[], []).unwrap_err(),
            "parameter",
            &["at least one of start, end, x"],
        ),
        (
            plan.select(&["x"], [("x", r("x"))]).unwrap_err(),
            "field_twice",
            &["\"x\"", "another name"],
        ),
        (
            lists.select(&[], [("m", r("wave") + 1)]).unwrap_err(),
            "list_field",
            &["\"wave\"", "list"],
        ),
        (
            windows
                .rows([("time", s().max()), ("start", s().max())])
                .unwrap_err(),
            "field_twice",
            &["\"start\""],
        ),
        (
            samples(&[1], 9).rows([]).unwrap_err(),
            "input_type",
            &["rewindow"],
        ),
        (
            windows.select(&["x"], []).unwrap_err(),
            "input_type",
            &["rows", "stats"],
        ),
        (
            plan.group_by(&["y"], []).unwrap_err(),
            "unknown_field",
            &["\"y\"", "start, end, x"],
        ),
        (
            plan.group_by(&["x"], [("m", json!(["x", "median"]))])
                .unwrap_err(),
            "parameter",
            &["median", "mean"],
        ),
        (
            plan.group_by(&["x"], [("x", json!("count"))]).unwrap_err(),
            "field_twice",
            &["\"x\""],
        ),
        (
            plan.group_by(&[], []).unwrap_err(),
            "parameter",
            &["start, end, x"],
        ),
        (
            plan.group_by(&["x"], [])
                .unwrap()
                .join(&plan, None)
                .unwrap_err(),
            "input_type",
            &["join", "start"],
        ),
        (
            plan.select(&["x"], [])
                .unwrap()
                .join(&plan, None)
                .unwrap_err(),
            "input_type",
            &["select"],
        ),
        (
            plan.join(&given(&[], &[], stream("rows/other", 5, 7)), None)
                .unwrap_err(),
            "inputs_differ",
            &["civil time", "start="],
        ),
    ];
    for (error, code, parts) in cases {
        assert_eq!(error.code(), code, "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{error} lacks {part:?}");
        }
    }
}

#[test]
fn too_many_groups_end_the_run_and_say_how_many() {
    let rows: Vec<Row> = (0..100)
        .map(|k| Row {
            start: k,
            end: k + 1,
            x: (k % 12) as f64,
        })
        .collect();
    let plan = given(&rows, &[], stream("rows/many", 0, 1));
    let params = json!({"keys": ["x"], "most": 11});
    let catalog = Catalog::standard();
    let plan = plan.apply(
        catalog.get("group_by").unwrap(),
        params.as_object().unwrap().clone(),
        &[],
    );
    let error = plan.unwrap().collect().unwrap_err();
    assert_eq!(error.code(), "too_many_groups");
    for part in ["group_by", "12 groups", "most=11", "coarser"] {
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

#[test]
fn a_join_that_goes_back_in_time_is_an_error() {
    let row = |start: i64| Row {
        start,
        end: start + 5,
        x: 0.0,
    };
    let back = given(
        &[row(10), row(20), row(0)],
        &[1, 1, 1],
        stream("rows/back", 0, 1),
    );
    let other = given(&[row(15)], &[], stream("rows/back", 0, 1));
    let error = back.join(&other, None).unwrap().collect().unwrap_err();
    assert_eq!(error.code(), "back_in_time");
    for part in ["join", "input 0", "index 0", "one run"] {
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

#[test]
fn rows_that_wait_in_a_join_count_to_the_runs_memory() {
    // One that lasts for ever keeps all rows of the other side waiting.
    let lasting = [Row {
        start: 0,
        end: 1 << 40,
        x: 0.0,
    }];
    let row = |start: i64| Row {
        start,
        end: start + 1,
        x: 1.0,
    };
    let many: Vec<Row> = (0..100_000).map(row).collect();
    let plan = given(&lasting, &[], stream("rows/kept", 0, 1))
        .join(
            &given(&many, &vec![1000; 100], stream("rows/kept", 0, 1)),
            None,
        )
        .unwrap();
    let mut options = RunOptions::default();
    let (gathered, report) = plan.collect_with(&options).unwrap();
    assert_eq!(gathered.rows().unwrap().num_rows(), 100_000);
    assert!(report.peak_bytes > 100_000 * 24, "{}", report.peak_bytes);
    options.memory = 1 << 20;
    let error = plan.collect_with(&options).unwrap_err();
    assert_eq!(error.code(), "memory_cap");
    for part in ["join", "1048576 bytes", "raise memory="] {
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

#[test]
fn a_sparse_side_of_a_join_holds_nothing_back() {
    // Of the right side nothing comes for long, and then all of it is beyond the left.
    let left: Vec<Row> = (0..200_000)
        .map(|k| Row {
            start: k,
            end: k + 1,
            x: 1.0,
        })
        .collect();
    let right = [Row {
        start: 150_000,
        end: 150_002,
        x: 2.0,
    }];
    let blocks = vec![64; 5000];
    let left = given(&left, &blocks, stream("rows/sparse", 0, 1));
    let right = given(&right, &[], stream("rows/sparse", 0, 1));
    let mut options = RunOptions::default();
    options.memory = 4 << 20;
    let (gathered, _) = left
        .join(&right, None)
        .unwrap()
        .collect_with(&options)
        .unwrap();
    assert_eq!(ints(gathered.rows().unwrap(), "start"), [150_000, 150_001]);
    let never = left.filter(&r("x").gt(5)).unwrap();
    for (a, b) in [(&left, &never), (&never, &left)] {
        let (gathered, _) = a.join(b, None).unwrap().collect_with(&options).unwrap();
        assert_eq!(gathered.rows().unwrap().num_rows(), 0);
    }
    let none = given(&[], &[], stream("rows/sparse", 0, 1));
    let (gathered, _) = left
        .join(&none, None)
        .unwrap()
        .collect_with(&options)
        .unwrap();
    assert_eq!(gathered.rows().unwrap().num_rows(), 0);
}

fn a_table(longest: i64) -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0i64..20, 0..longest, -3i64..4), 0..60).prop_map(|steps| {
        let mut start = 0;
        steps
            .into_iter()
            .map(|(step, len, x)| {
                start += step;
                Row {
                    start,
                    end: start + len,
                    x: x as f64 / 2.0,
                }
            })
            .collect()
    })
}

fn pairs(table: &RecordBatch) -> Vec<(i64, i64, f64, i64, i64, f64)> {
    let column = |name| ints(table, name);
    let (a, b, c, d) = (
        column("start"),
        column("end"),
        column("start_right"),
        column("end_right"),
    );
    let (x, y) = (floats(table, "x"), floats(table, "x_right"));
    (0..a.len())
        .map(|k| (a[k], b[k], x[k], c[k], d[k], y[k]))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Where segments and blocks are cut leaves no trace.
    #[test]
    fn any_chunking_gives_the_same_rows(
        x in prop::collection::vec(-100i16..100, 0..400),
        window in 1u64..20,
        hop in 1u64..20,
        piece in 1u64..100,
    ) {
        let plan = |piece| {
            let windows = samples(&x, piece).rewindow_every(window, hop).unwrap();
            let kept = windows.filter(&s().max().gt(10)).unwrap();
            let rows = kept.rows([("m", s().mean()), ("w", s() * 2), ("c", s().gt(0).count())]).unwrap();
            rows.filter(&(r("c").gt(1) | r("m").lt(0))).unwrap().select(&["start", "m", "w"], [("d", r("c") - r("m"))]).unwrap()
        };
        let whole = table(&plan(SEGMENT));
        prop_assert_eq!(&table(&plan(piece)), &whole);
        let (mut starts, mut differences) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at + window as usize <= x.len() {
            let one = &x[at..at + window as usize];
            let mean = one.iter().map(|&v| f64::from(v)).sum::<f64>() / window as f64;
            let count = one.iter().filter(|&&v| v > 0).count() as i64;
            if *one.iter().max().unwrap() > 10 && (count > 1 || mean < 0.0) {
                starts.push(at as i64);
                differences.push(count as f64 - mean);
            }
            at += hop as usize;
        }
        prop_assert_eq!(ints(&whole, "start"), starts);
        prop_assert_eq!(floats(&whole, "d"), differences);
    }

    #[test]
    fn groups_are_those_of_a_naive_map(
        rows in a_table(10),
        blocks in prop::collection::vec(1usize..20, 0..9),
        by_two in any::<bool>(),
    ) {
        let plan = given(&rows, &blocks, stream("rows/groups", 0, 1));
        let plan = plan.select(&["start", "x"], [("k", r("end").floordiv(32))]).unwrap();
        let keys: &[&str] = if by_two { &["x", "k"] } else { &["x"] };
        let all = ["sum", "min", "max", "mean", "std", "first", "last"];
        let mut aggregates = vec![("n", json!("count"))];
        aggregates.extend(all.map(|how| (how, json!(["start", how]))));
        aggregates.push(("fsum", json!(["x", "sum"])));
        let table = table(&plan.group_by(keys, aggregates).unwrap());
        let mut groups: Vec<((f64, i64), Vec<&Row>)> = Vec::new();
        for row in &rows {
            let key = (row.x, if by_two { row.end / 32 } else { 0 });
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        prop_assert_eq!(table.num_rows(), groups.len());
        for (at, ((x, k), group)) in groups.iter().enumerate() {
            prop_assert_eq!(floats(&table, "x")[at], *x);
            if by_two {
                prop_assert_eq!(ints(&table, "k")[at], *k);
            }
            let starts: Vec<i64> = group.iter().map(|row| row.start).collect();
            let n = starts.len() as f64;
            prop_assert_eq!(ints(&table, "n")[at], starts.len() as i64);
            prop_assert_eq!(ints(&table, "sum")[at], starts.iter().sum::<i64>());
            prop_assert_eq!(ints(&table, "min")[at], *starts.iter().min().unwrap());
            prop_assert_eq!(ints(&table, "max")[at], *starts.iter().max().unwrap());
            prop_assert_eq!(ints(&table, "first")[at], starts[0]);
            prop_assert_eq!(ints(&table, "last")[at], starts[starts.len() - 1]);
            prop_assert_eq!(floats(&table, "fsum")[at], x * n);
            let mean = starts.iter().sum::<i64>() as f64 / n;
            let var = starts.iter().map(|&s| (s as f64 - mean).powi(2)).sum::<f64>() / n;
            prop_assert!((floats(&table, "mean")[at] - mean).abs() < 1e-9 * (1.0 + mean.abs()));
            prop_assert!((floats(&table, "std")[at] - var.sqrt()).abs() < 1e-9 * (1.0 + var));
        }
    }

    #[test]
    fn overlaps_are_those_of_two_nested_loops(
        left in a_table(60),
        right in a_table(60),
        blocks in prop::collection::vec(1usize..20, 0..9),
        others in prop::collection::vec(1usize..20, 0..9),
    ) {
        let id = stream("rows/join", 0, 1);
        let plan = given(&left, &blocks, id).join(&given(&right, &others, id), None).unwrap();
        let mut want = Vec::new();
        for a in &left {
            for b in &right {
                if a.start < b.end && b.start < a.end {
                    want.push((a.start, a.end, a.x, b.start, b.end, b.x));
                }
            }
        }
        prop_assert_eq!(pairs(&table(&plan)), want);
    }

    #[test]
    fn the_nearest_is_that_of_two_nested_loops(
        left in a_table(9),
        right in a_table(9),
        blocks in prop::collection::vec(1usize..20, 0..9),
        others in prop::collection::vec(1usize..20, 0..9),
        tolerance in 0i64..30,
    ) {
        // Ten indices a second.
        let id = stream("rows/near", 0, 10);
        let seconds = tolerance as f64 / 10.0;
        let plan = given(&left, &blocks, id).join(&given(&right, &others, id), Some(seconds + 0.01));
        let mut want = Vec::new();
        for a in &left {
            let near = right.iter().filter(|b| (a.start - b.start).abs() <= tolerance);
            // The first of equals, which begins earlier.
            if let Some(b) = near.min_by_key(|b| (a.start - b.start).abs()) {
                want.push((a.start, a.end, a.x, b.start, b.end, b.x));
            }
        }
        prop_assert_eq!(pairs(&table(&plan.unwrap())), want);
    }

    /// Two clocks of different rates and zeros; from some index on the right one's times are not known.
    #[test]
    fn rows_of_different_timebases_meet_by_civil_time(
        left in a_table(60),
        right in a_table(60),
        blocks in prop::collection::vec(1usize..20, 0..9),
        others in prop::collection::vec(1usize..20, 0..9),
        zero in -200i64..200,
        lost in prop_oneof![Just(i64::MAX), 0i64..400],
    ) {
        let side = |rows: &[Row], blocks: &[usize], name, id, rate: u64, zero: i64, lost: i64| {
            let period = 1_000_000_000 / rate as i64;
            Plan::scan(Given {
                rows: rows.to_vec(),
                blocks: blocks.to_vec(),
                stream: stream(name, id, rate),
                clock: Some(Arc::new(Linear { zero: zero * period, period, lost })),
            })
        };
        let a = side(&left, &blocks, "rows/civil/a", 11, 10, 0, i64::MAX);
        let b = side(&right, &others, "rows/civil/b", 12, 20, zero, lost);
        let plan = a.join(&b, None).unwrap();
        // In twentieths of a second.
        let mut want = Vec::new();
        for a in &left {
            for b in right.iter().filter(|b| (b.end - 1).max(b.start) <= lost) {
                let (from, to) = (zero + b.start, zero + b.end);
                if 2 * a.start < to && from < 2 * a.end {
                    want.push((a.start, a.end, a.x, b.start, b.end, b.x));
                }
            }
        }
        prop_assert_eq!(pairs(&table(&plan)), want);
    }
}
