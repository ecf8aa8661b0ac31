use super::*;

fn says(error: &dyn std::fmt::Display, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{text} lacks {part:?}");
    }
}

#[test]
fn errors_name_the_fields_there_are() {
    let plan = given(&[], &[], stream("rows/e", 0, 100));
    let windows = samples(&[1, 2], SEGMENT_SAMPLES).rewindow(1).unwrap();
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
        says(&error, parts);
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
    says(&error, &["group_by", "12 groups", "most=11", "coarser"]);
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
    says(&error, &["join", "input 0", "index 0", "one run"]);
}

#[test]
fn rows_that_wait_in_a_join_count_to_the_runs_memory() {
    // An endless row keeps all rows of the other side waiting.
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
    says(&error, &["join", "1048576 bytes", "raise memory="]);
}

#[test]
fn a_sparse_side_of_a_join_holds_nothing_back() {
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
