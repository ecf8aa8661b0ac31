//! Streams that meet in stages: none piles up, and none waits for ever.

use super::*;

#[test]
fn a_slow_source_makes_no_other_one_pile_up() {
    let rate = Rate::new(2000, 1).unwrap();
    let source = |nth: i64, pause: Duration| {
        let stream = Stream::new(format!("slow/{nth}"), TimebaseId(0), rate).intern();
        let recording = GeneratedRecording::new(DType::F32, stream, move || {
            let mut next = 0;
            Ok(Box::new(move || {
                if next == 400_000 {
                    return Ok(None);
                }
                std::thread::sleep(pause);
                let samples: Vec<f32> = (next..next + 4000).map(|at| (at % 977) as f32).collect();
                let segment = SigSeg::from_slice(&samples, next, stream)?;
                next += 4000;
                Ok(Some(segment))
            }))
        });
        filters(Plan::scan(recording), 2)
    };
    let both = |pause| {
        let (fast, slow) = (source(0, Duration::ZERO), source(1, pause));
        let s = Expr::input();
        fast.map_with(&(&s - Expr::input_at(1)), &[slow])
            .unwrap()
            .rewindow(1000)
            .unwrap()
    };
    let (one, _) = run_all(&[both(Duration::ZERO)], 1).unwrap();
    let mut options = RunOptions::default();
    (options.workers, options.memory) = (2, 4 << 20);
    let plan = both(Duration::from_millis(2));
    let (got, report) = Plan::collect_all(&[plan], &options).unwrap();
    assert_eq!(got, one);
    assert!(stages(&report).len() > 2, "{report}");
}

#[test]
fn what_meets_beside_branches_of_one_source_does_not_pile_up() {
    let (rate, pause) = (Rate::new(2000, 1).unwrap(), Duration::from_millis(1));
    let source = |nth: i64, pause: Duration| {
        let stream = Stream::new(format!("beside/{nth}"), TimebaseId(0), rate).intern();
        Plan::scan(GeneratedRecording::new(DType::F32, stream, move || {
            let mut next = 0;
            Ok(Box::new(move || {
                if next == 4_000_000 {
                    return Ok(None);
                }
                std::thread::sleep(pause);
                let samples: Vec<f32> = (next..next + 8000).map(|at| (at % 977) as f32).collect();
                let segment = SigSeg::from_slice(&samples, next, stream)?;
                next += 8000;
                Ok(Some(segment))
            }))
        }))
    };
    let slow = filters(source(0, pause), 1);
    let fast = filters(source(1, Duration::ZERO), 1);
    let branch = filters(slow.clone(), 2).rewindow(1000).unwrap();
    let both = slow
        .map_with(&(Expr::input() - Expr::input_at(1)), &[fast])
        .unwrap();
    let plans = [both, branch];
    let mut options = RunOptions::default();
    options.memory = 4 << 20;
    Plan::run_all(&plans, &options).unwrap();
    options.workers = 2;
    Plan::run_all(&plans, &options).unwrap();
}

#[test]
fn what_does_not_fit_is_an_error_of_one_thread_too() {
    let made = Arc::default();
    for memory in [4u64 << 20, 5 << 20, 8 << 20] {
        for window in [100_000u64, 300_000, 500_000, 900_000] {
            let plan = filters(generated(0, 0..2_000_000, 5000, &made), 2);
            let plan = plan
                .rewindow(window)
                .unwrap()
                .map(&(Expr::input() * 2))
                .unwrap();
            let mut options = RunOptions::default();
            options.memory = memory;
            let one = plan.collect_with(&options);
            options.workers = 2;
            let many = plan.collect_with(&options);
            match (one, many) {
                (Ok((one, _)), Ok((many, _))) => assert_eq!(one, many),
                (Ok(_), Err(error)) => panic!("{memory}, {window}: {error}"),
                _ => {}
            }
        }
    }
}

/// Each stage has a filter that holds back the other source: each would wait for one source while the other had no
/// room.
#[test]
fn parts_that_combine_the_same_sources_do_not_wait_for_each_other() {
    let made = Arc::default();
    let source = |nth: i64| generated(nth, 0..40_000, 100, &made);
    let delayed = |plan: &Plan| {
        let params = json!({"taps": vec![0.5; 4001], "method": "direct", "delay": "centred"});
        named(plan, &("fir", params)).unwrap()
    };
    let difference = |one: &Plan, other: &Plan| {
        let both = one.map_with(
            &(Expr::input() - Expr::input_at(1)),
            std::slice::from_ref(other),
        );
        filters(both.unwrap(), 2)
    };
    let (a, b, c) = (source(0), source(1), source(2));
    let (late_a, late_b) = (delayed(&a), delayed(&b));
    let pairs = |a: &Plan, b: &Plan| [difference(a, b), difference(b, &c), difference(&c, a)];
    let mut options = RunOptions::default();
    options.workers = 3;
    options.stages.helpers_after_us = 0;
    options.stages.link_bytes = 1 << 10;
    for (plans, united) in [
        (vec![difference(&late_a, &b), difference(&a, &late_b)], true),
        (
            vec![
                difference(&late_a, &b),
                difference(&b, &c),
                difference(&c, &a),
            ],
            true,
        ),
        // All read the same, so they agree on which source lags.
        (pairs(&a, &b).to_vec(), false),
        (
            vec![difference(&late_a, &b), difference(&late_b, &c)],
            false,
        ),
    ] {
        let (one, _) = run_all(&plans, 1).unwrap();
        let (got, report) = Plan::collect_all(&plans, &options).unwrap();
        assert_eq!(got, one);
        let meets = |stage: &&StageReport| {
            let names = stage.operators.iter().map(|&at| report.operators[at].name);
            names.filter(|&name| name == "map").count() > 1
        };
        assert_eq!(
            stages(&report).iter().any(|stage| meets(&stage)),
            united,
            "{report}"
        );
        // The filters behind are cut in any case.
        assert!(stages(&report).len() > 4, "{report}");
    }
}
