//! Groups whose keys several threads share, in stages: the rows of one thread, and those of loops.

use std::cell::Cell;

use isochrony_flow::arrow::array::types::{
    Float32Type, Int8Type, TimestampNanosecondType, UInt16Type,
};
use isochrony_flow::arrow::array::{
    BooleanArray, Float32Array, Int8Array, TimestampNanosecondArray, UInt16Array,
};
use isochrony_flow::arrow::schema::TimeUnit;
use isochrony_flow::operators::GroupBy;
use isochrony_flow::{Control, PlanOutput, RangeOrigin, Report, RunError, StageReport};
use proptest::test_runner::TestRunner;

use super::*;

const CASES: u32 = 250;

/// Calls are divided however little there is to add; links, threads and replicas change at random.
pub(super) fn run_in_stages(plan: &Plan, seed: u64) -> Result<(PlanOutput, Report), RunError> {
    let mut options = RunOptions::default();
    options.workers = 2 + (seed % 4) as usize;
    options.stages.helpers_after_us = 0;
    options.stages.divided_us = 0;
    options.stages.link_bytes = 1 << (seed / 4 % 16);
    options.stages.shuffle = (!seed.is_multiple_of(3)).then_some(seed);
    plan.collect_with(&options)
}

/// Calls of which other threads computed parts.
pub(super) fn parts_of_others(report: &Report) -> u64 {
    let groups = |stage: &&StageReport| {
        let mut operators = stage.operators.iter();
        operators.any(|&at| report.operators[at].name == "group_by")
    };
    let stages = report.stages.iter().filter(groups);
    let others = stages.filter(|stage| stage.replica.is_some_and(|replica| replica > 0));
    others.map(|stage| stage.items).sum()
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    start: i64,
    end: i64,
    /// Number among the keys of a type; None: unknown.
    key: Option<usize>,
    /// In eighths, so that sums of loops are exact; None: unknown.
    x: Option<i32>,
}

/// Distinct keys of each type: how many, and what they are equal to. Of floats the first two are zeros, and the next
/// two NaNs.
fn distinct(kind: usize, key: usize) -> usize {
    match kind {
        0 | 1 => [0, 0, 2, 2].get(key).copied().unwrap_or(key),
        4 => key % 2,
        _ => key,
    }
}

fn key_column(kind: usize, rows: &[Row]) -> ArrayRef {
    let keys = rows.iter().map(|row| row.key);
    let float = |key: usize| match key {
        0 => 0.0,
        1 => -0.0,
        2 => f64::NAN,
        3 => f64::from_bits(f64::NAN.to_bits() ^ (1 << 63 | 1)),
        4 => f64::INFINITY,
        _ => key as f64 / 8.0 + 1.0,
    };
    match kind {
        0 => Arc::new(Float64Array::from_iter(keys.map(|key| key.map(float)))),
        1 => {
            let small = |key| float(key) as f32;
            Arc::new(Float32Array::from_iter(keys.map(|key| key.map(small))))
        }
        2 => {
            let small = |key: usize| key as i8 - 20;
            Arc::new(Int8Array::from_iter(keys.map(|key| key.map(small))))
        }
        3 => {
            let wide = |key: usize| (key * 1500) as u16;
            Arc::new(UInt16Array::from_iter(keys.map(|key| key.map(wide))))
        }
        4 => {
            let odd = |key: usize| key % 2 == 1;
            Arc::new(BooleanArray::from_iter(keys.map(|key| key.map(odd))))
        }
        5 => {
            let time = |key: usize| key as i64 * 1_000_000_007 - 5;
            let times = keys.map(|key| key.map(time));
            Arc::new(TimestampNanosecondArray::from_iter(times).with_timezone("UTC"))
        }
        _ => {
            let wide = |key: usize| (key as i64).wrapping_mul(i64::MAX / 64) - 7;
            Arc::new(Int64Array::from_iter(keys.map(|key| key.map(wide))))
        }
    }
}

const KINDS: usize = 7;

fn key_type(kind: usize) -> DataType {
    match kind {
        0 => DataType::Float64,
        1 => DataType::Float32,
        2 => DataType::Int8,
        3 => DataType::UInt16,
        4 => DataType::Boolean,
        5 => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        _ => DataType::Int64,
    }
}

struct KeyedRows {
    rows: Vec<Row>,
    kind: usize,
    blocks: Vec<usize>,
    stream: StreamId,
}

impl KeyedRows {
    fn fields(&self) -> Fields {
        Fields::intern([
            Field::new("start", DataType::Int64, false),
            Field::new("end", DataType::Int64, false),
            Field::new("key", key_type(self.kind), true),
            Field::new("x", DataType::Float64, true),
        ])
    }

    fn plan(rows: &[Row], kind: usize, blocks: &[usize]) -> Plan {
        Plan::scan(Self {
            rows: rows.to_vec(),
            kind,
            blocks: blocks.to_vec(),
            stream: stream("rows/keys", 300, 100),
        })
    }
}

impl Recording for KeyedRows {
    fn port(&self) -> PortType {
        PortType::Rows {
            fields: self.fields(),
            stream: Some(self.stream),
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let mut rows = &self.rows[..];
        let first = rows.first().map_or(0, |row| row.start);
        let origin = RangeOrigin::at(first);
        let mut events = vec![SourceEvent::RangeStart { origin, why: None }];
        let mut blocks = self.blocks.iter().cycle();
        while !rows.is_empty() {
            let size = blocks.next().copied().unwrap_or(1).clamp(1, rows.len());
            let (now, rest) = rows.split_at(size);
            rows = rest;
            let whole = |of: fn(&Row) -> i64| -> ArrayRef {
                Arc::new(Int64Array::from_iter_values(now.iter().map(of)))
            };
            let numbers = now.iter().map(|row| row.x.map(|x| f64::from(x) / 8.0));
            let columns = vec![
                whole(|row| row.start),
                whole(|row| row.end),
                key_column(self.kind, now),
                Arc::new(Float64Array::from_iter(numbers)),
            ];
            let batch = RecordBatch::try_new(self.fields().schema().clone(), columns)?;
            let last = now[now.len() - 1];
            let next = rest.first().map_or(last.end, |row| row.start);
            let covers = now[0].start..last.end;
            events.push(SourceEvent::Item(Rows::new(batch, covers, next).into()));
        }
        events.reverse();
        Ok(Box::new(Script(events)))
    }
}

fn grouped(rows: &Plan, params: serde_json::Value) -> Plan {
    let mut params = params.as_object().unwrap().clone();
    params.insert("keys".into(), json!(["key"]));
    let aggregates = json!({
        "n": "count", "known": ["x", "count"], "sum": ["x", "sum"], "mean": ["x", "mean"], "std": ["x", "std"],
        "least": ["x", "min"], "first": ["x", "first"], "last": ["x", "last"], "starts": ["start", "sum"],
    });
    params.insert("aggregates".into(), aggregates);
    rows.then::<GroupBy>(params).unwrap()
}

/// Start of the window, number of rows, sum and last value of each group, in the order of one thread.
type Found = (i64, i64, Option<f64>, Option<f64>);

fn by_loops(rows: &[Row], kind: usize, every: i64) -> Vec<Found> {
    let mut all = Vec::new();
    let mut windows: Vec<i64> = rows.iter().map(|row| row.start.div_euclid(every)).collect();
    windows.dedup();
    for window in windows {
        let inside = rows
            .iter()
            .filter(|row| row.start.div_euclid(every) == window);
        let inside: Vec<&Row> = inside.collect();
        let mut seen: Vec<Option<usize>> = Vec::new();
        for row in &inside {
            let key = row.key.map(|key| distinct(kind, key));
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let same = inside
                .iter()
                .filter(|other| other.key.map(|key| distinct(kind, key)) == key);
            let mut numbers = same
                .clone()
                .filter_map(|row| row.x)
                .map(|x| f64::from(x) / 8.0);
            all.push((
                (window * every).max(rows[0].start),
                same.count() as i64,
                Some(numbers.clone().sum()),
                numbers.next_back(),
            ));
        }
    }
    all
}

fn found(output: &PlanOutput) -> Vec<Found> {
    let table = output.rows().unwrap();
    let known = |name: &str| {
        let column = table.column_by_name(name).unwrap();
        let column = column.as_primitive::<Float64Type>();
        column.iter().collect::<Vec<_>>()
    };
    let (starts, counts) = (ints(table, "start"), ints(table, "n"));
    let (sums, last) = (known("sum"), known("last"));
    let rows = 0..table.num_rows();
    rows.map(|at| (starts[at], counts[at], sums[at], last[at]))
        .collect()
}

/// Of each column; NaN is a key.
fn bits(output: &PlanOutput) -> Vec<Vec<Option<u64>>> {
    let columns = output.rows().unwrap().columns().iter();
    let bits = columns.map(|column| match column.data_type() {
        DataType::Float64 => {
            let cells = column.as_primitive::<Float64Type>().iter();
            cells.map(|cell| cell.map(f64::to_bits)).collect()
        }
        DataType::Float32 => {
            let cells = column.as_primitive::<Float32Type>().iter();
            cells.map(|cell| cell.map(|x| x.to_bits().into())).collect()
        }
        DataType::Boolean => {
            let cells = column.as_boolean().iter();
            cells.map(|cell| cell.map(u64::from)).collect()
        }
        DataType::Int8 => {
            let cells = column.as_primitive::<Int8Type>().iter();
            cells.map(|cell| cell.map(|x| x as u64)).collect()
        }
        DataType::UInt16 => {
            let cells = column.as_primitive::<UInt16Type>().iter();
            cells.map(|cell| cell.map(u64::from)).collect()
        }
        DataType::Timestamp(..) => {
            let cells = column.as_primitive::<TimestampNanosecondType>().iter();
            cells.map(|cell| cell.map(|x| x as u64)).collect()
        }
        _ => {
            let cells = column.as_primitive::<Int64Type>().iter();
            cells.map(|cell| cell.map(|x| x as u64)).collect()
        }
    });
    bits.collect()
}

fn rows_of_keys(keys: usize) -> impl Strategy<Value = Vec<Row>> {
    let row = (
        0i64..4,
        0i64..6,
        prop::option::weighted(0.95, 0..keys),
        prop::option::weighted(0.9, -400i32..400),
    );
    prop::collection::vec(row, 1..900).prop_map(|steps| {
        let mut start: i64 = 3;
        let row = |(step, len, key, x)| {
            start += step;
            Row {
                start,
                end: start + len,
                key,
                x,
            }
        };
        steps.into_iter().map(row).collect()
    })
}

#[test]
fn keys_of_any_type_that_threads_share_give_the_rows_of_one_thread() {
    let given = (
        prop_oneof![rows_of_keys(3), rows_of_keys(40)],
        0..KINDS,
        prop::collection::vec(1usize..400, 1..5),
        (1i64..200, 1i64..300, 0usize..5),
        prop::option::of(1u64..40),
        any::<u64>(),
    );
    let (divided, with_replicas) = (Cell::new(0u64), Cell::new(0u32));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(rows, kind, blocks, (every, period, how), limit, seed)| {
            let samples = |length: i64| json!(format!("{length} samples"));
            let params = match how {
                0 | 1 => json!({"every": samples(every)}),
                2 => json!({"every": samples(every), "period": samples(period)}),
                3 => json!({"session": samples(1 + every % 5)}),
                _ => json!({}),
            };
            let plan = grouped(&KeyedRows::plan(&rows, kind, &blocks), params);
            let plan = match limit {
                Some(limit) => plan.limit(limit).unwrap(),
                None => plan,
            };
            let (expected, _) = plan.collect_with(&RunOptions::default()).unwrap();
            let (got, report) = run_in_stages(&plan, seed).unwrap();
            prop_assert_eq!(bits(&got), bits(&expected), "{}", plan.explain());
            if how < 2 {
                let mut all = by_loops(&rows, kind, every);
                all.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
                if !all.is_empty() {
                    prop_assert_eq!(found(&got), all);
                }
            }
            divided.set(divided.get() + parts_of_others(&report));
            let replicas = report.stages.iter().any(|stage| stage.replica == Some(1));
            with_replicas.set(with_replicas.get() + u32::from(replicas));
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    let (divided, with_replicas) = (divided.get(), with_replicas.get());
    assert!(divided > 0);
    assert!(with_replicas > CASES * 9 / 10, "{with_replicas} of {CASES}");
}

/// Keys in turn, many a window.
fn many_rows(count: i64, keys: usize) -> Vec<Row> {
    let row = |at: i64| {
        let random = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        Row {
            start: at,
            end: at + 1,
            key: Some(random as usize % keys),
            x: Some((random % 4001) as i32 - 2000),
        }
    };
    (0..count).map(row).collect()
}

#[test]
fn errors_come_at_the_row_of_one_thread_and_after_the_same_rows() {
    let mut rows = many_rows(6000, 60);
    let mut of_window = json!({"every": "500 samples", "most": 60});
    let cases = [
        // The 61st group at a time, and a row that goes back.
        {
            rows[4490].key = Some(62);
            (rows.clone(), of_window.clone())
        },
        {
            of_window["most"] = json!(1000);
            rows[4100].start = 3;
            (rows, of_window.clone())
        },
    ];
    for (rows, params) in cases {
        let seen = |workers: Option<u64>| {
            let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
            let sees = Arc::clone(&seen);
            let plan = grouped(&KeyedRows::plan(&rows, 6, &[700, 1024]), params.clone());
            let each = plan.each(move |item| {
                if let isochrony_flow::Item::Rows(rows) = item {
                    let batch = rows.batch();
                    sees.lock()
                        .unwrap()
                        .extend(ints(batch, "start").into_iter().zip(ints(batch, "starts")));
                }
                Ok(())
            });
            let error = match workers {
                None => each.unwrap().collect().unwrap_err(),
                Some(seed) => run_in_stages(&each.unwrap(), seed).unwrap_err(),
            };
            (error.to_string(), seen.lock().unwrap().clone())
        };
        let expected = seen(None);
        assert!(!expected.1.is_empty(), "{}", expected.0);
        for seed in 0..30 {
            assert_eq!(seen(Some(seed)), expected, "{seed}");
        }
    }
}

#[test]
fn little_memory_is_an_error_where_it_is_one_in_one_thread() {
    let rows = many_rows(40_000, 1 << 40);
    let plan = grouped(
        &KeyedRows::plan(&rows, 6, &[1000]),
        json!({"every": "20000 samples"}),
    );
    let mut outcomes = Vec::new();
    for mebibytes in [4, 6, 8, 12, 16, 24, 32, 64] {
        let run = |workers: usize| {
            let mut options = RunOptions::default();
            options.memory = mebibytes << 20;
            options.workers = workers;
            options.stages.helpers_after_us = 0;
            options.stages.divided_us = 0;
            plan.collect_with(&options)
        };
        let (one, several) = (run(1), run(3));
        outcomes.push(one.is_ok());
        match (one, several) {
            (Ok((one, _)), Ok((several, _))) => assert_eq!(one, several, "{mebibytes} MiB"),
            (Err(one), Err(several)) => {
                let text = several.to_string();
                assert!(one.to_string().contains("group_by"), "{one}");
                assert!(text.contains("group_by"), "{text}");
            }
            (one, several) => panic!("{mebibytes} MiB: {:?}, {:?}", one.err(), several.err()),
        }
    }
    assert!(
        outcomes.contains(&true) && outcomes.contains(&false),
        "{outcomes:?}"
    );
}

#[test]
fn explain_says_which_groups_replicas_share_and_why_not() {
    let rows = KeyedRows::plan(&many_rows(100, 5), 6, &[10]);
    let text = Plan::explain;
    let shared = text(&grouped(&rows, json!({"every": "10 samples"})));
    assert!(shared.contains("replicas by key of group_by"), "{shared}");
    assert!(!shared.contains("one replica of"), "{shared}");
    let of = |keys: serde_json::Value, aggregates: serde_json::Value| {
        let params = json!({"keys": keys, "aggregates": aggregates, "every": "10 samples"});
        text(
            &rows
                .then::<GroupBy>(params.as_object().unwrap().clone())
                .unwrap(),
        )
    };
    let without = of(json!([]), json!({"sum": ["x", "sum"]}));
    assert!(
        without.contains("one replica of group_by: it has no keys"),
        "{without}"
    );
    let cheap = of(json!(["key"]), json!({"n": "count", "least": ["x", "min"]}));
    let why = "one replica of group_by: finding a row's group takes longer than adding to it";
    assert!(cheap.contains(why), "{cheap}");
    let x: Vec<i16> = vec![1; 10_000];
    let smooth = |plan: Plan| {
        let params = json!({"band": "lowpass", "cutoff_hz": 10.0, "order": 4});
        let declaration = *Catalog::standard().get("iir").unwrap();
        plan.apply(&declaration, params.as_object().unwrap().clone(), &[])
            .unwrap()
    };
    let source = smooth(smooth(samples(&x, 100)));
    let few = source.rewindow(2000).unwrap().stats([Stat::Max]).unwrap();
    let params = json!({"keys": ["max"], "aggregates": {"mean": ["start", "mean"], "std": ["end", "std"]}, "every": 60.0});
    let few = text(
        &few.then::<GroupBy>(params.as_object().unwrap().clone())
            .unwrap(),
    );
    assert!(
        few.contains("one replica of group_by: it has few rows"),
        "{few}"
    );
}

#[test]
fn replicas_that_share_keys_are_set_while_the_plan_runs_and_work() {
    let rows = many_rows(400_000, 3000);
    let plan = grouped(
        &KeyedRows::plan(&rows, 6, &[1024]),
        json!({"every": "50000 samples"}),
    );
    let (expected, _) = plan.collect_with(&RunOptions::default()).unwrap();
    let control = Control::default();
    let mut options = RunOptions::default();
    options.workers = 3;
    options.control = Some(&control);
    options.stages.helpers_after_us = 0;
    std::thread::scope(|scope| {
        let changed = scope.spawn(|| {
            let (mut set, mut refused) = (0, None);
            let begun = std::time::Instant::now();
            while refused.is_none() || set < 20 {
                assert!(begun.elapsed().as_secs() < 60, "{set}");
                if control.set_replicas(1, 1 + set % 3).is_ok() {
                    set += 1;
                    refused = control.set_replicas(1, 4).err();
                } else if set > 0 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            (set, refused)
        });
        let (got, report) = plan.collect_with(&options).unwrap();
        assert_eq!(got, expected);
        let (set, refused) = changed.join().unwrap();
        assert!(set > 0);
        let refused = refused.unwrap().to_string();
        assert!(
            refused.contains("stage 1 cannot have 4 replicas"),
            "{refused}"
        );
        let of_stage = report.stages.iter().filter(|stage| stage.number == 1);
        let replicas: Vec<_> = of_stage.map(|stage| stage.replica).collect();
        assert_eq!(replicas.len(), 3);
        assert!(parts_of_others(&report) > 0);
    });
}
