use super::*;

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

/// Start and end, as far as known.
type Time = (Option<i64>, Option<i64>);

fn joined(table: &RecordBatch) -> Vec<(Option<Row>, Option<Row>)> {
    let side = |suffix: &str, k: usize| {
        let column = |name: &str| table.column_by_name(&format!("{name}{suffix}")).unwrap();
        let missing = ["start", "end", "x"].map(|name| column(name).is_null(k));
        assert!(missing.iter().all(|one| *one == missing[0]));
        (!missing[0]).then(|| Row {
            start: column("start").as_primitive::<Int64Type>().value(k),
            end: column("end").as_primitive::<Int64Type>().value(k),
            x: column("x").as_primitive::<Float64Type>().value(k),
        })
    };
    (0..table.num_rows())
        .map(|k| (side("", k), side("_right", k)))
        .collect()
}

/// `times`: of rows, in common whole units; None: unknown, or only the start known.
fn naive_join(
    how: &str,
    (left, right): (&[Row], &[Row]),
    times: [&dyn Fn(&Row) -> Time; 2],
    tolerance: Option<i64>,
) -> Vec<(Option<Row>, Option<Row>)> {
    // Rows of unknown time follow the previous one.
    let places = |rows: &[Row], time: &dyn Fn(&Row) -> Time| {
        let mut place = i64::MIN;
        let next = |row| {
            place = time(row).0.unwrap_or(place);
            place
        };
        rows.iter().map(next).collect::<Vec<_>>()
    };
    let [of_left, of_right] = times;
    let mut all = Vec::new();
    let mut matched = vec![false; right.len()];
    for (a, place) in left.iter().zip(places(left, of_left)) {
        let mut near: Vec<(i64, usize)> = Vec::new();
        for (nth, b) in right.iter().enumerate() {
            let ((Some(one), Some(one_end)), (Some(other), Some(other_end))) =
                (of_left(a), of_right(b))
            else {
                continue;
            };
            let away = (one - other).abs();
            let matches = match tolerance {
                None => one < other_end && other < one_end,
                Some(tolerance) => away <= tolerance,
            };
            near.extend(matches.then_some((away, nth)));
        }
        if tolerance.is_some() {
            // The first of equals, which begins earlier.
            near = near
                .into_iter()
                .min_by_key(|&(away, _)| away)
                .into_iter()
                .collect();
        }
        if near.is_empty() && how != "inner" {
            all.push(((place, 0), (Some(a.clone()), None)));
        }
        for (_, nth) in near {
            matched[nth] = true;
            all.push(((place, 0), (Some(a.clone()), Some(right[nth].clone()))));
        }
    }
    for (nth, place) in places(right, of_right).into_iter().enumerate() {
        if how == "outer" && !matched[nth] {
            all.push(((place, 1), (None, Some(right[nth].clone()))));
        }
    }
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, pair)| pair).collect()
}

pub(crate) fn join(left: &Plan, right: &Plan, how: &str, tolerance: Option<f64>) -> Plan {
    let params = json!({"how": how, "tolerance": tolerance});
    let join = Catalog::standard();
    let join = join.get("join").unwrap();
    left.apply(
        join,
        params.as_object().unwrap().clone(),
        std::slice::from_ref(right),
    )
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn joins_that_keep_rows_without_a_match_are_those_of_two_nested_loops(
        left in a_table(60),
        right in a_table(60),
        blocks in prop::collection::vec(1usize..20, 0..9),
        others in prop::collection::vec(1usize..20, 0..9),
        how in prop::sample::select(vec!["inner", "left", "outer"]),
        tolerance in prop::option::of(0i64..30),
    ) {
        let id = stream("rows/outer", 0, 10);
        let seconds = tolerance.map(|tolerance| tolerance as f64 / 10.0 + 0.01);
        let plan = join(&given(&left, &blocks, id), &given(&right, &others, id), how, seconds);
        let time = |row: &Row| (Some(row.start), Some(row.end));
        let want = naive_join(how, (&left, &right), [&time, &time], tolerance);
        prop_assert_eq!(joined(&table(&plan)), want);
    }

    #[test]
    fn rows_without_a_match_keep_their_place_in_civil_time(
        left in a_table(60),
        right in a_table(60),
        blocks in prop::collection::vec(1usize..20, 0..9),
        others in prop::collection::vec(1usize..20, 0..9),
        zero in -200i64..200,
        lost in [prop_oneof![Just(i64::MAX), 0i64..400], prop_oneof![Just(i64::MAX), 0i64..400]],
        how in prop::sample::select(vec!["left", "outer"]),
    ) {
        let side = |rows: &[Row], blocks: &[usize], id, rate: u64, zero: i64, lost: i64| {
            let period = 1_000_000_000 / rate as i64;
            Plan::scan(RowRecording {
                rows: rows.to_vec(),
                blocks: blocks.to_vec(),
                stream: stream(if id == 21 { "outer/a" } else { "outer/b" }, id, rate),
                clock: Some(Arc::new(Linear { zero: zero * period, period, lost })),
            })
        };
        let a = side(&left, &blocks, 21, 10, 0, lost[0]);
        let b = side(&right, &others, 22, 20, zero, lost[1]);
        // In twentieths of a second.
        let time = |row: &Row, lost| {
            let last = (row.end - 1).max(row.start);
            ((row.start <= lost).then_some(row.start), (last <= lost).then_some(row.end))
        };
        let on_axis = |(start, end): Time, zero: i64, unit: i64| {
            let on = |index: i64| zero + unit * index;
            (start.map(on), end.map(on))
        };
        let of_left = |row: &Row| on_axis(time(row, lost[0]), 0, 2);
        let of_right = |row: &Row| on_axis(time(row, lost[1]), zero, 1);
        let want = naive_join(how, (&left, &right), [&of_left, &of_right], None);
        prop_assert_eq!(joined(&table(&join(&a, &b, how, None))), want);
    }

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
        let whole = table(&plan(SEGMENT_SAMPLES));
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
            Plan::scan(RowRecording {
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
