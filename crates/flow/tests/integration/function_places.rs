use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use isochrony_flow::{
    FunctionPlace, GivenSettings, Item, Next, OpError, Operator, OperatorFactory,
    OperatorProperties, Out, Parallelism, Plan, PlanError, PlanOutput, Port, PortType, RunOptions,
    Segments, SharedFactory, SharedRecording, Tuning, TuningMode, TuningReport,
};
use isochrony_segment::{SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};
use isochrony_tune::{Configuration, PlaceOutcome};

const SAMPLES: i64 = 400_000;
const SEGMENT: u64 = 1000;

fn scan() -> Plan {
    let stream = Stream::new("made", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern();
    let samples: Vec<i32> = (0..SAMPLES as i32).collect();
    let recording = Segments::new([SigSeg::from_slice(&samples, 0, stream).unwrap()]).unwrap();
    Plan::scan_part(SharedRecording::new(recording), None, SEGMENT)
}

/// A function that sleeps for a time in proportion to its samples, with or without the lock of all functions.
#[derive(Clone)]
struct Sleep {
    stated: FunctionPlace,
    is_placed: bool,
    ns_per_sample: u64,
    lock: Option<Arc<Mutex<()>>>,
    /// Ends with an error at this index.
    fails_at: Option<i64>,
    callers: Arc<Mutex<Vec<ThreadId>>>,
}

impl Sleep {
    fn new(stated: FunctionPlace, ns_per_sample: u64) -> Self {
        Self {
            stated,
            is_placed: false,
            ns_per_sample,
            lock: None,
            fails_at: None,
            callers: Arc::default(),
        }
    }

    fn with_lock(self) -> Self {
        Self {
            lock: Some(Arc::default()),
            ..self
        }
    }

    fn threads(&self) -> usize {
        let callers = self.callers.lock().unwrap();
        callers.iter().collect::<HashSet<_>>().len()
    }
}

impl OperatorFactory for Sleep {
    fn name(&self) -> &'static str {
        "sleep"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(self.clone()))
    }

    fn parallelism(&self, _: &RunOptions<'_>) -> Parallelism {
        match self.stated {
            FunctionPlace::Threads => Parallelism::Workers("in threads".into()),
            _ => Parallelism::CallingThread("cannot travel".into()),
        }
    }

    fn prefers_workers(&self) -> bool {
        self.stated == FunctionPlace::Threads
    }

    fn function_place(&self) -> Option<FunctionPlace> {
        Some(self.stated)
    }

    fn placed(&self, place: FunctionPlace) -> Option<SharedFactory> {
        Some(SharedFactory::new(Self {
            stated: place,
            is_placed: true,
            ..self.clone()
        }))
    }

    fn is_placed(&self) -> bool {
        self.is_placed
    }
}

impl Operator for Sleep {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).in_interpreter())
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let held = self.lock.as_ref().map(|lock| lock.lock().unwrap());
        let thread = std::thread::current().id();
        self.callers.lock().unwrap().push(thread);
        if self.ns_per_sample > 0 {
            std::thread::sleep(Duration::from_nanos(self.ns_per_sample * item.samples()));
        }
        drop(held);
        match (self.fails_at, item.range()) {
            (Some(at), Some(range)) if range.contains(&at) => {
                Err(isochrony_flow::OpErrorKind::Failed("as asked".into()).into())
            }
            _ => Ok(Next::Forward),
        }
    }
}

fn calling(function: &Sleep) -> Plan {
    let factory = SharedFactory::new(function.clone());
    scan().apply_factory(factory, &[]).unwrap()
}

fn tuned(plan: &Plan, tuning: &Tuning) -> (PlanOutput, TuningReport) {
    let mut options = RunOptions::default();
    (options.workers, options.tuning) = (2, Some(tuning));
    let (output, _) = plan.collect_with(&options).unwrap();
    (output, tuning.report().unwrap())
}

#[test]
fn a_function_that_does_not_hold_the_lock_is_called_in_threads() {
    let function = Sleep::new(FunctionPlace::Any, 1000);
    let plan = calling(&function);
    let expected = plan.collect().unwrap();
    let (output, report) = tuned(&plan, &Tuning::new(TuningMode::Change, true));
    assert_eq!(output, expected);
    assert_eq!(report.places[0].from, [FunctionPlace::Auto]);
    let (place, text) = chosen_places(&function, &TuningMode::Change, FunctionPlace::Threads);
    assert_eq!(place, FunctionPlace::Threads, "{text}");
    for part in [
        "before the start: sleep threads",
        "in one thread",
        "two at once",
        "inline",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(function.threads() > 2);
}

/// Places that the run chose in several attempts, since other programs may disturb the measurement of some milliseconds.
fn chosen_places(
    function: &Sleep,
    mode: &TuningMode,
    expected: FunctionPlace,
) -> (FunctionPlace, String) {
    let mut last = None;
    for _ in 0..8 {
        function.callers.lock().unwrap().clear();
        let (_, report) = tuned(&calling(function), &Tuning::new(mode.clone(), true));
        let decision = &report.places[0];
        assert_eq!(decision.outcome, PlaceOutcome::Chosen);
        assert_eq!(report.start.places, [decision.place]);
        last = Some((decision.place, decision.to_string()));
        if decision.place == expected {
            break;
        }
    }
    last.unwrap()
}

#[test]
fn a_function_that_holds_the_lock_and_cannot_travel_stays_in_the_callers_thread() {
    let function = Sleep::new(FunctionPlace::Any, 2000).with_lock();
    let (place, text) = chosen_places(&function, &TuningMode::Change, FunctionPlace::Inline);
    assert_eq!(place, FunctionPlace::Inline, "{text}");
}

#[test]
fn a_recommendation_measures_and_changes_nothing() {
    let function = Sleep::new(FunctionPlace::Any, 1000);
    let (place, text) = chosen_places(&function, &TuningMode::Recommend, FunctionPlace::Threads);
    assert_eq!(place, FunctionPlace::Threads, "{text}");
    let callers = function.callers.lock().unwrap();
    let own = std::thread::current().id();
    // One block in each task, and no other thread after the measurement.
    let after = &callers[callers.len() - 300..];
    assert!(after.iter().all(|caller| *caller == own));
}

#[test]
fn measurements_keep_to_their_share_of_the_run() {
    let function = Sleep::new(FunctionPlace::Any, 5000);
    tuned(&calling(&function), &Tuning::new(TuningMode::Change, true));
    let calls = function.callers.lock().unwrap().len() as i64;
    let blocks = SAMPLES / SEGMENT as i64;
    // Shorter blocks are counted as whole ones.
    assert!(calls - blocks < blocks / 10, "{calls} of {blocks}");
}

#[test]
fn a_place_that_the_user_states_is_neither_measured_nor_changed() {
    for stated in [
        FunctionPlace::Auto,
        FunctionPlace::Inline,
        FunctionPlace::Threads,
    ] {
        let function = Sleep::new(stated, 500);
        let (_, report) = tuned(&calling(&function), &Tuning::new(TuningMode::Change, true));
        assert_eq!(report.start.places, [stated]);
        assert!(report.places.is_empty());
    }
}

#[test]
fn a_short_run_is_not_measured_any_further() {
    let function = Sleep::new(FunctionPlace::Any, 0);
    let (_, report) = tuned(&calling(&function), &Tuning::new(TuningMode::Change, true));
    assert_eq!(report.places[0].outcome, PlaceOutcome::TooShort);
    assert_eq!(report.start.places, [FunctionPlace::Auto]);
    assert_eq!(function.threads(), 1);
}

#[test]
fn places_of_a_configuration_are_applied_and_others_refused() {
    let function = Sleep::new(FunctionPlace::Any, 200);
    let plan = calling(&function);
    let apply = |places: Vec<FunctionPlace>| {
        let configuration = Configuration {
            workers: 2,
            replicas: Vec::new(),
            link_bytes: Vec::new(),
            task_bytes: 0,
            batch_tasks: 0,
        };
        Tuning::new(TuningMode::Apply(configuration), true).with_settings(GivenSettings {
            places: Some(places),
            ..GivenSettings::default()
        })
    };
    for (place, is_elsewhere) in [
        (FunctionPlace::Inline, false),
        (FunctionPlace::Threads, true),
    ] {
        function.callers.lock().unwrap().clear();
        let (_, report) = tuned(&plan, &apply(vec![place]));
        assert_eq!(report.start.places, [place]);
        assert!(report.places.is_empty());
        let callers = function.callers.lock().unwrap();
        let own = std::thread::current().id();
        assert_eq!(callers.iter().any(|caller| *caller != own), is_elsewhere);
    }
    let tuning = apply(vec![FunctionPlace::Threads; 2]);
    let mut options = RunOptions::default();
    (options.workers, options.tuning) = (2, Some(&tuning));
    let error = plan.collect_with(&options).unwrap_err();
    assert_eq!(error.code(), "other_plan");
    assert!(
        error
            .to_string()
            .contains("2 Python functions and the plan has 1"),
        "{error}"
    );
}

#[test]
fn a_function_that_fails_in_the_measurement_gives_the_error_of_the_run() {
    let failing = |stated| Sleep {
        fails_at: Some(0),
        ..Sleep::new(stated, 1000)
    };
    let error = |stated, tuning: Option<&Tuning>| {
        let mut options = RunOptions::default();
        (options.workers, options.tuning) = (2, tuning);
        calling(&failing(stated))
            .collect_with(&options)
            .unwrap_err()
    };
    let tuning = Tuning::new(TuningMode::Change, true);
    let found = error(FunctionPlace::Any, Some(&tuning)).to_string();
    assert_eq!(found, error(FunctionPlace::Inline, None).to_string());
    assert!(found.contains("sleep (node 1, samples 0 to "), "{found}");
}

#[test]
fn what_cannot_be_read_twice_or_called_before_the_run_is_not_measured() {
    let function = Sleep::new(FunctionPlace::Any, 500);
    let behind = |plan: Plan| {
        let factory = SharedFactory::new(function.clone());
        plan.apply_factory(factory, &[]).unwrap()
    };
    let plans = [
        (behind(scan().each(|_| Ok(())).unwrap()), "it follows each"),
        (
            behind(scan().limit(200_000).unwrap()),
            "may end the run early",
        ),
    ];
    for (plan, why) in plans {
        let (_, report) = tuned(&plan, &Tuning::new(TuningMode::Change, true));
        let decision = &report.places[0];
        assert_eq!(decision.outcome, PlaceOutcome::NotMeasured);
        assert!(decision.reason.contains(why), "{decision}");
        assert_eq!(report.start.places, [FunctionPlace::Auto]);
    }
}
