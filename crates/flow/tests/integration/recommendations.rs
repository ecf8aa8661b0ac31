use std::hint::black_box;

use isochrony_flow::{
    Contract, GeneratedRecording, GivenSettings, Inputs, Item, Next, OpError, Operator,
    OperatorProperties, Out, Plan, PlanError, PlanOutput, Port, PortType, RunOptions, Segments,
    SharedRecording, Tuning, TuningMode, TuningReport, json, operator,
};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};

operator! {
    /// Passes samples on after some steps for each, and declares another cost.
    pub struct Steps = "steps" (Inputs::Exactly(1)) {
        /// Steps for a sample.
        steps: u64 = "integer" {},
        /// Declared cost in ns.
        declared: f64 = "number" {},
        /// Samples that it claims to need before each; 0: it must get all in order.
        before: u64 = "integer" {},
    }
    state {}
}

impl Operator for Steps {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let properties = OperatorProperties::new(inputs.iter().copied()).cost_ns(self.declared);
        Ok(properties.contract(match self.before {
            0 => Contract::Sequential,
            before => Contract::Overlap { before, after: 0 },
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let mut state = 1u64;
        for _ in 0..item.samples() * self.steps {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
        Ok(Next::Forward)
    }
}

fn steps(plan: Plan, steps: u64, declared: f64, before: u64) -> Plan {
    let params = json!({"steps": steps, "declared": declared, "before": before});
    plan.then::<Steps>(params.as_object().unwrap().clone())
        .unwrap()
}

fn stream() -> StreamId {
    Stream::new("made", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

fn generated(total: i64) -> Plan {
    const SEGMENT: i64 = 1 << 16;
    Plan::scan(GeneratedRecording::new(DType::I16, stream(), move || {
        let mut next = 0;
        Ok(Box::new(move || {
            let samples = [0_i16; SEGMENT as usize];
            let segment = (next < total).then(|| SigSeg::from_slice(&samples, next, stream()));
            next += SEGMENT;
            Ok(segment.transpose()?)
        }))
    }))
}

fn stored(total: usize) -> Plan {
    let segment = SigSeg::from_slice(&vec![0_i16; total], 0, stream()).unwrap();
    Plan::scan_shared(SharedRecording::new(Segments::new([segment]).unwrap()))
}

fn recommended(
    plan: &Plan,
    change: impl FnOnce(&mut RunOptions<'_>),
) -> (PlanOutput, TuningReport) {
    let tuning = Tuning::new(TuningMode::Recommend, true);
    let mut options = RunOptions::default();
    options.workers = 2;
    change(&mut options);
    options.tuning = Some(&tuning);
    let (output, _) = plan.collect_with(&options).unwrap();
    (output, tuning.report().unwrap())
}

/// Two operators that declare little share a stage, and take nearly all of the time.
fn badly_cut(total: i64) -> Plan {
    let plan = steps(steps(generated(total), 20, 0.01, 0), 20, 0.01, 0);
    steps(steps(plan, 1, 2.0, 0), 1, 2.0, 0)
}

#[test]
fn cuts_are_recommended_by_what_operators_took_and_can_be_applied() {
    let plan = badly_cut(8 << 20);
    let (expected, report) = recommended(&plan, |_| {});
    let [advice] = &report.advice[..] else {
        panic!("{report:?}")
    };
    assert!(advice.starts_with("cuts=["), "{advice}");
    assert!(report.predicted_gain.unwrap() > 0.1, "{advice}");
    let cuts = report.start.cuts.clone();
    assert_ne!(cuts[1], cuts[2], "{advice}");
    let configuration = report.configuration.unwrap();
    let given = GivenSettings {
        cuts: Some(cuts.clone()),
        ..GivenSettings::default()
    };
    let applying = Tuning::new(TuningMode::Apply(configuration), true).with_settings(given);
    let mut options = RunOptions::default();
    (options.workers, options.tuning) = (2, Some(&applying));
    let (output, again) = plan.collect_with(&options).unwrap();
    assert_eq!(output, expected);
    assert_eq!(applying.report().unwrap().start.cuts, cuts);
    let together = |stage: &isochrony_flow::StageReport| {
        stage.operators.contains(&1) && stage.operators.contains(&2)
    };
    assert!(!again.stages.iter().any(together));
}

#[test]
fn a_recommendation_says_why_it_has_no_cuts() {
    let advice = |total: i64, change: fn(&mut RunOptions<'_>)| {
        let (_, report) = recommended(&badly_cut(total), change);
        assert_eq!(report.advice.len(), 1);
        report.advice[0].clone()
    };
    let text = advice(8 << 20, |options| options.measure = false);
    assert!(text.contains("measure=False"), "{text}");
    let text = advice(1 << 17, |_| {});
    assert!(text.contains("too short to tell"), "{text}");
    let text = advice(8 << 20, |options| options.tolerance = 1e-9);
    assert!(text.contains("tolerance="), "{text}");
}

#[test]
fn a_task_size_is_recommended_where_tasks_compute_much_around_them() {
    let plan = steps(stored(24 << 20), 60, 20.0, 1 << 12);
    // A task has at least four times what it needs around it.
    let (_, report) = recommended(&plan, |options| options.task = 1 << 10);
    let [advice] = &report.advice[..] else {
        panic!("{report:?}")
    };
    assert!(advice.starts_with("task_bytes="), "{advice}");
    let stated = report.configuration.unwrap().task_bytes;
    assert!(stated >= 2 * 2 * 4 * (1 << 12), "{advice}");
    assert!(report.predicted_gain.unwrap() > 0.05, "{advice}");
}

#[test]
fn a_recommendation_says_why_it_has_no_task_size() {
    let (_, report) = recommended(&steps(stored(1 << 20), 1, 2.0, 1), |_| {});
    let text = &report.advice[0];
    assert!(
        text.contains("task size: nothing can be said: the run took"),
        "{text}"
    );
    assert_eq!(report.configuration.unwrap().task_bytes, 0);
    let (_, report) = recommended(&steps(stored(16 << 20), 30, 2.0, 1), |_| {});
    let text = &report.advice[0];
    assert!(text.starts_with("task size: as it is"), "{text}");
    assert!(text.contains("only in trials"), "{text}");
    assert_eq!(report.configuration.unwrap().task_bytes, 0);
}
