//! Plans of very many operators, and huge parameters.

use std::time::{Duration, Instant};

use isochrony_expr::Expr;
use isochrony_flow::{CharacteriseOptions, Plan, RunError, RunOptions, Segments};
use isochrony_segment::{SigSeg, Stream};
use isochrony_store::machine::{MeasuredOperator, OperatorCosts, Quartiles};
use isochrony_time::{Rate, TimebaseId};
use serde_json::json;

fn scan() -> Plan {
    let stream = Stream::new("stn/p", TimebaseId(0), Rate::new(100, 1).unwrap()).intern();
    let samples: Vec<f64> = (0..64).map(f64::from).collect();
    let samples = SigSeg::from_slice(&samples, 0, stream).unwrap();
    Plan::scan(Segments::new([samples]).unwrap())
}

fn maps(many: usize) -> Plan {
    (0..many).fold(scan(), |plan, k| {
        plan.map(&(Expr::input() + k as i64)).unwrap()
    })
}

fn filters(many: usize) -> Plan {
    let windows = scan().rewindow(4).unwrap();
    (0..many).fold(windows, |plan, k| {
        plan.filter(&Expr::input().max().gt(-(k as i64))).unwrap()
    })
}

/// Windows are only counted: rewriting one pair brings the next together.
fn in_turn(many: usize) -> Plan {
    let windows = scan().rewindow(4).unwrap();
    let all = (0..many / 2).fold(windows, |plan, _| {
        let mapped = plan.map(&(Expr::input() + 1)).unwrap();
        mapped.filter(&Expr::input().max().gt(0)).unwrap()
    });
    all.count().unwrap()
}

fn merged(many: usize) -> Plan {
    let all: Vec<Plan> = (0..many).map(|_| scan().rewindow(4).unwrap()).collect();
    all[0].merge(&all[1..]).unwrap()
}

/// They take turns, so that other load slows both.
fn least_times(plans: [&Plan; 2]) -> [Duration; 2] {
    let mut least = [Duration::MAX; 2];
    for _ in 0..9 {
        for (least, plan) in least.iter_mut().zip(plans) {
            let begun = Instant::now();
            drop(plan.explain());
            *least = begun.elapsed().min(*least);
        }
    }
    least
}

#[test]
fn explaining_takes_time_in_proportion_to_the_operators_and_bounded_text() {
    for (name, made) in [
        ("maps", maps as fn(usize) -> Plan),
        ("filters", filters),
        ("in turn", in_turn),
        ("merged", merged),
    ] {
        let [few, many] = [made(500), made(4000)];
        let times = least_times([&few, &many]);
        // Eight times as many operators: 8 in proportion, 64 if quadratic. The addend covers clock resolution.
        let most = 24 * times[0] + Duration::from_millis(20);
        assert!(times[1] < most, "{name}: {times:?}");
        let text = many.explain();
        assert!(text.len() < 100_000, "{name}: {} bytes", text.len());
    }
}

/// Filters that no task computes, so that stages are compared.
fn low_passes(many: usize) -> Plan {
    let operator = *isochrony_flow::Catalog::standard().get("iir").unwrap();
    let params = json!({"band": "lowpass", "cutoff_hz": 10.0, "order": 2});
    let params = params.as_object().unwrap();
    (0..many).fold(scan(), |plan, _| {
        plan.apply(&operator, params.clone(), &[]).unwrap()
    })
}

#[test]
fn comparing_cuts_by_costs_takes_time_in_proportion_to_the_operators() {
    let plans = [low_passes(250), low_passes(2000)];
    let mut options = CharacteriseOptions::default();
    (options.samples, options.repeats) = (64, 1);
    let mut known = OperatorCosts::none();
    // The first filter reads samples of another type than those behind it.
    for cost in low_passes(3).characterise(&options).unwrap() {
        known.note(MeasuredOperator {
            key: cost.key,
            seconds_per_sample: Quartiles::exact(3e-9),
        });
    }
    let mut least = [Duration::MAX; 2];
    for _ in 0..5 {
        for (least, plan) in least.iter_mut().zip(&plans) {
            let begun = Instant::now();
            plan.predict_throughput(2, &known).unwrap();
            *least = begun.elapsed().min(*least);
        }
    }
    assert!(
        least[1] < 24 * least[0] + Duration::from_millis(20),
        "{least:?}"
    );
}

#[test]
fn all_of_a_long_chain_becomes_one_expression() {
    let plan = maps(600);
    let text = plan.explain();
    assert!(text.contains("more rewrites ..."), "{text}");
    let sum: f64 = (0..600).map(f64::from).sum();
    let values = plan.collect().unwrap().array().unwrap().to_vec::<f64>();
    let expected: Vec<f64> = (0..64).map(|k| f64::from(k) + sum).collect();
    assert_eq!(values, Some(expected));
    let mut options = RunOptions::default();
    options.optimise = false;
    let written = plan.collect_with(&options).unwrap().0;
    assert_eq!(written, plan.collect().unwrap());
}

#[test]
fn repeated_operators_are_counted_where_a_plan_is_explained() {
    let plan = (0..1000).fold(scan(), |plan, _| plan.passthrough().unwrap());
    let text = plan.explain();
    assert!(text.contains("passthrough (1000 times)"), "{text}");
    assert!(text.contains("1 to 1000 passthrough"), "{text}");
    assert!(text.len() < 2000, "{text}");
    assert_eq!(plan.to_string().matches("passthrough").count(), 1000);
}

#[test]
fn windows_that_no_machine_has_memory_for_are_refused_by_all_operators() {
    let windows = scan().rewindow(1 << 40).unwrap();
    let none = json!({});
    for (name, params) in [
        ("fft", &none),
        ("power", &none),
        ("welch", &json!({"nfft": 1_u64 << 39})),
        ("envelope", &none),
        ("rms", &none),
        ("zero_crossings", &none),
        ("haar", &json!({"levels": 3})),
        ("quantile", &json!({"at": 0.5})),
        ("taper", &none),
        ("detrend", &none),
    ] {
        let operator = *isochrony_flow::Catalog::standard().get(name).unwrap();
        let params = params.as_object().unwrap().clone();
        let error = windows.apply(&operator, params, &[]).unwrap_err();
        assert_eq!(error.code(), "too_large", "{name}: {error}");
        assert!(
            error.to_string().contains("window=1099511627776"),
            "{error}"
        );
    }
    for (name, params) in [
        ("xcorr", json!({"max_lag": 8})),
        ("gcc_phat", json!({"max_lag": 8})),
        ("delay", json!({"max_lag": 8})),
    ] {
        let operator = *isochrony_flow::Catalog::standard().get(name).unwrap();
        let params = params.as_object().unwrap().clone();
        let error = windows
            .apply(&operator, params, std::slice::from_ref(&windows))
            .unwrap_err();
        assert_eq!(error.code(), "too_large", "{name}: {error}");
    }
}

#[test]
fn what_a_loop_remembers_has_to_fit_into_memory() {
    let windows = scan().rewindow(1024).unwrap();
    let initial = json!(vec![0.0; 1024]);
    let looped = windows.feedback(
        1_000_000_000,
        initial,
        isochrony_segment::DType::F64,
        |x, _| Ok((x.clone(), x.clone())),
    );
    assert_eq!(looped.unwrap_err().code(), "too_large");
}

#[test]
fn tables_have_to_fit_into_the_memory_of_a_run() {
    let plan = scan()
        .rewindow(1 << 21)
        .unwrap()
        .power()
        .unwrap()
        .count()
        .unwrap();
    let mut options = RunOptions::default();
    options.optimise = false;
    options.memory = 100 << 20;
    let Err(RunError::Plan(error)) = plan.collect_with(&options) else {
        panic!("it ran");
    };
    let text = error.to_string();
    assert!(
        text.starts_with("power (node 2): window=2097152 needs 134217728 bytes"),
        "{text}"
    );
    assert!(text.ends_with("or raise memory="), "{text}");
    options.memory = 200 << 20;
    assert_eq!(plan.collect_with(&options).unwrap().0.count(), Some(0));
}

fn least_run_times(plans: [&Plan; 2]) -> [Duration; 2] {
    let mut least = [Duration::MAX; 2];
    for _ in 0..3 {
        for (least, plan) in least.iter_mut().zip(plans) {
            let begun = cpu_time();
            plan.run().unwrap();
            *least = (cpu_time() - begun).min(*least);
        }
    }
    least
}

/// CPU time of this thread, which runs the plans: other tests may load the machine.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn running_takes_time_in_proportion_to_the_operators() {
    for (name, made) in [
        ("maps", maps as fn(usize) -> Plan),
        ("filters", filters),
        ("in turn", in_turn),
        ("merged", merged),
    ] {
        let [few, many] = [made(250), made(2000)];
        let times = least_run_times([&few, &many]);
        let most = 24 * times[0] + Duration::from_millis(20);
        assert!(times[1] < most, "{name}: {times:?}");
    }
}
