use isochrony_expr::Expr;
use isochrony_flow::{
    Contract, Inputs, Item, Next, OpError, Operator, OperatorFactory, OperatorProperties, Out,
    Parallelism, Plan, PlanError, Port, PortType, RunOptions, SharedFactory, SharedRecording, json,
    operator,
};

use crate::common::gapped::{named, options, recording, windows};

operator! {
    /// Emits everything at the end.
    pub struct Hold = "hold" (Inputs::Exactly(1)) {}
    state {
        held: Vec<Item>,
    }
}

impl Operator for Hold {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.held.push(item.take());
        Ok(Next::Consumed)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.held.iter_mut().try_for_each(|item| out.emit(0, item))
    }

    fn progress(&mut self, _: Port, _: i64) -> i64 {
        i64::MIN
    }
}

#[test]
fn a_fan_in_of_two_fronts_names_what_starves_it_by_the_numbers_of_the_plan() {
    let s = Expr::input();
    // Passing items stay in read memory.
    let passed = |segment| {
        let windows = Plan::scan_part(recording(), None, segment).rewindow(10);
        windows.unwrap().filter(&s.max().ge(0)).unwrap()
    };
    let held = passed(250).then::<Hold>(serde_json::Map::new()).unwrap();
    let zipped = passed(500).zip(&[held]).unwrap().output(1).unwrap();
    let mut options = options(2);
    options.memory = 50_000;
    let error = zipped.collect_with(&options).unwrap_err();
    assert_eq!(error.code(), "fan_in_starved");
    for part in [
        "zip (node 7",
        "filter (node 2) -> zip input 0",
        "hold (node 6) -> zip input 1",
    ] {
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

#[test]
fn explain_says_what_is_done_in_tasks_and_why_not_more() {
    let s = Expr::input();
    let spread = |plan: &Plan| {
        let text = plan.explain();
        let (_, behind) = text.split_once("on several workers\n").unwrap();
        behind.lines().next().unwrap().trim().to_owned()
    };
    let mapped = windows().map(&(&s + 1)).unwrap();
    assert_eq!(
        spread(&mapped.count().unwrap()),
        "scan -> rewindow -> count in order: it takes less time than passing its results"
    );
    let powers = mapped.power().unwrap();
    assert_eq!(
        spread(&powers.limit(4).unwrap()),
        "scan -> rewindow -> map -> power in tasks of up to 2097152 samples, then in order: limit remembers what came before"
    );
    let both = powers.zip(std::slice::from_ref(&mapped)).unwrap();
    assert_eq!(
        spread(&both.limit(4).unwrap()),
        "0 scan -> 1 rewindow -> 2 map, 2 -> 3 power, 3 and 2 -> 4 zip in tasks of up to 2097152 samples, then in order: limit remembers what came before"
    );
    let loud = mapped.filter(&s.max().gt(3)).unwrap();
    let limited = mapped.limit(9).unwrap();
    assert!(spread(&loud.zip(&[limited]).unwrap()).ends_with(
        "then in order: limit remembers what came before; zip has an input that is not computed in tasks of this scan"
    ));
    let scan = Plan::scan_shared(recording());
    let taps = named(&scan, "fir", json!({"taps": [1, 2, 1], "delay": "centred"}));
    let halved = named(
        &taps,
        "resample",
        json!({"down": 2, "attenuation_db": 20.0, "passband": 0.3}),
    );
    assert_eq!(
        spread(&halved.count().unwrap()),
        "scan -> fir -> resample -> count in tasks of up to 2097152 samples, read with 4 before and 5 after them, whose partial results are combined in order"
    );
    let low = named(&taps, "iir", json!({"band": "lowpass", "cutoff_hz": 100.0}));
    assert_eq!(
        spread(&low.count().unwrap()),
        "scan -> fir in tasks of up to 1398101 samples, read with 1 before and 1 after them, then in order: iir settles: in tasks it would be within 1e-9 of one pass; allow that by tolerance="
    );
    let long = named(
        &scan,
        "running_quantile",
        json!({"window": 100_000.0, "q": 0.5}),
    );
    let text = spread(&long.limit(4).unwrap());
    assert!(
        text.starts_with("scan in order: for running_quantile a task needs 199999999 samples around its portion and has memory for "),
        "{text}"
    );
    let kept = Plan::scan_shared(recording()).apply(
        isochrony_flow::Catalog::standard().get("rewindow").unwrap(),
        json!({"window": 10, "tail": "keep"})
            .as_object()
            .unwrap()
            .clone(),
        &[],
    );
    assert!(spread(&kept.unwrap()).ends_with("rewindow keeps a short last window"));
}

struct ThreadProbe;

impl OperatorFactory for ThreadProbe {
    fn name(&self) -> &'static str {
        "seen"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self))
    }

    fn parallelism(&self, _: &RunOptions<'_>) -> Parallelism {
        Parallelism::Workers("in the workers' threads".into())
    }
}

impl Operator for ThreadProbe {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let thread = std::thread::current();
        let worker = thread
            .name()
            .is_some_and(|name| name.starts_with("isochrony-"));
        WORKED.fetch_or(1 << u32::from(worker), std::sync::atomic::Ordering::SeqCst);
        Ok(Next::Forward)
    }
}

static WORKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[test]
fn one_worker_gives_the_bits_of_many_also_behind_factory_operators() {
    let scan = Plan::scan_part(recording(), None, 500);
    let low = |plan: &Plan| named(plan, "iir", json!({"band": "lowpass", "cutoff_hz": 50.0}));
    let seen = |plan: &Plan| {
        plan.apply_factory(SharedFactory::new(ThreadProbe), &[])
            .unwrap()
    };
    let (before, behind) = (low(&seen(&scan)), seen(&low(&scan)));
    let text = before.explain();
    assert!(
        text.contains("and one worker does not run its input in tasks"),
        "{text}"
    );
    let run = |plan: &Plan, workers| {
        WORKED.store(0, std::sync::atomic::Ordering::SeqCst);
        let mut options = options(workers);
        options.tolerance = 1e-9;
        let (gathered, report) = plan.collect_with(&options).unwrap();
        let worked = WORKED.load(std::sync::atomic::Ordering::SeqCst);
        (gathered, report.workers.len(), worked)
    };
    let (one, workers, worked) = run(&behind, 1);
    assert_eq!((workers, worked), (1, 1));
    let (many, workers, worked) = run(&behind, 3);
    assert_eq!((workers, worked), (3, 2));
    assert_eq!(one, many);
    let (one, workers, worked) = run(&before, 1);
    assert_eq!((workers, worked), (0, 1));
    let (many, _, worked) = run(&before, 3);
    assert_eq!(worked, 2);
    assert_eq!(one, many);
}

struct PassThrough;

impl OperatorFactory for PassThrough {
    fn name(&self) -> &'static str {
        "passed"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self))
    }

    fn parallelism(&self, _: &RunOptions<'_>) -> Parallelism {
        Parallelism::Workers("in the workers' threads".into())
    }
}

impl Operator for PassThrough {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}

/// The branches of factory operators give eight bytes per sample.
fn beside_held(scan: &Plan, showing: &Plan, branches: usize) -> Vec<Plan> {
    let s = Expr::input();
    let held = scan.map(&(&s * 2.5)).unwrap();
    let mut plans = vec![showing.clone()];
    for _ in 0..branches {
        let passed = held
            .apply_factory(SharedFactory::new(PassThrough), &[])
            .unwrap();
        plans.push(passed.count().unwrap());
        plans.push(passed);
    }
    plans
}

#[test]
fn neither_memory_nor_factory_operators_change_where_the_recording_is_cut() {
    let scan = Plan::scan_part(recording(), None, 500);
    let low = named(&scan, "iir", json!({"band": "lowpass", "cutoff_hz": 500.0}));
    let plans = beside_held(&scan, &low, 5);
    let run = |workers, memory, task| {
        let mut options = RunOptions::default();
        (options.workers, options.memory, options.tolerance) = (workers, memory, 1e-9);
        options.task = task;
        // Tasks of several cells: that moves no cut either.
        options.stages.shuffle = (workers > 1).then_some(memory);
        let (all, report) = Plan::collect_all(&plans, &options).unwrap();
        let tasks = report.tasks.into_iter();
        (all, tasks.map(|task| task.range).collect::<Vec<_>>())
    };
    let (expected, cuts) = run(1, isochrony_flow::DEFAULT_MEMORY, 64 << 10);
    let (other, others) = run(1, isochrony_flow::DEFAULT_MEMORY, 32 << 10);
    assert!(cuts.len() > 3 && others.len() > cuts.len());
    assert!(other[0] != expected[0]);
    for memory in [20, 21, 22, 23, 24, 26, 30].map(|bits| 1 << bits) {
        for workers in [1, 3] {
            let (got, theirs) = run(workers, memory, 64 << 10);
            let of = format!("{memory} bytes, {workers} workers");
            assert!(got == expected, "{of}");
            assert_eq!(theirs, cuts, "{of}");
        }
    }
}

#[test]
fn sums_are_the_same_wherever_the_recording_is_cut() {
    let scan = Plan::scan_part(recording(), None, 500);
    let tenths = scan.rewindow(10).unwrap().map(&(Expr::input() * 0.1));
    let rows = tenths.unwrap().stats([isochrony_flow::Stat::Mean]).unwrap();
    let sums = [
        ("sum", json!(["mean", "sum"])),
        ("std", json!(["mean", "std"])),
    ];
    let sums = rows.group_by(&[], sums).unwrap();
    let expected = sums.collect().unwrap();
    for (workers, task) in [(2, 64 << 10), (3, 32 << 10), (2, 5000)] {
        let mut options = RunOptions::default();
        (options.workers, options.task) = (workers, task);
        let (found, report) = sums.collect_with(&options).unwrap();
        assert!(report.tasks.len() > 3);
        assert_eq!(found, expected, "{workers} workers, tasks of {task} bytes");
    }
}

#[test]
fn a_factory_operator_with_too_much_output_stays_in_the_callers_thread() {
    let scan = Plan::scan_part(recording(), None, 500);
    let low = named(&scan, "iir", json!({"band": "lowpass", "cutoff_hz": 500.0}));
    let windows = low.rewindow(100).unwrap();
    let rows = windows.stats([isochrony_flow::Stat::Mean]).unwrap();
    let places = |branches| {
        let plans = beside_held(&scan, &rows, branches);
        let mut options = RunOptions::default();
        (options.workers, options.memory, options.tolerance) = (2, 4 << 20, 1e-9);
        options.task = 48 << 10;
        let (_, report) = Plan::collect_all(&plans, &options).unwrap();
        let called = |place: &&String| place.contains("in the caller's thread");
        let called = report.places.iter().filter(called).count();
        (report.places.len() - called, called)
    };
    // A task is 6144 samples of 8 bytes. Three branches fit the 24th part of the memory.
    assert_eq!(places(1), (1, 0));
    assert_eq!(places(2), (2, 0));
    assert_eq!(places(12), (2, 10));
}
