use super::*;

#[test]
fn rows_of_windows_have_their_fields_and_print_and_save() {
    let plan = samples(&[1, 2, 3, 4, 5, 6, 7], SEGMENT_SAMPLES)
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
    let saved = json!({"isochrony_plan": 1, "nodes": [{"op": "scan", "of": {}},
        {"op": "rewindow", "params": {"window": 2}, "inputs": [[0, 0]]},
        {"op": "rows", "params": {"fields": {"energy": (&s() * &s()).sum(), "wave": s() - s().mean()}}, "inputs": [[1, 0]]}],
        "output": [2, 0]});
    let live =
        Segments::new([
            SigSeg::from_slice(&[1i16, 2, 3, 4, 5, 6, 7], 0, stream("rows/s", 0, 100)).unwrap(),
        ]);
    let live = SharedRecording::new(live.unwrap());
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
    let plan = Plan::scan(ClockedSegments(Segments::new([segment]).unwrap(), clock));
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
