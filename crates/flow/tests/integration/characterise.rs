use isochrony_flow::{
    CharacteriseOptions, GeneratedRecording, Inputs, Item, Next, OpError, Operator,
    OperatorProperties, OperatorType, Out, Plan, PlanError, Port, PortType, RunOptions, Segments,
    json, operator,
};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_store::machine::{CheckedPrediction, MeasuredOperator, OperatorCosts, Quartiles};
use isochrony_time::{Rate, TimebaseId};

operator! {
    /// Takes a time proportional to its samples.
    struct Work = "work" (Inputs::Exactly(1)) {
        /// Nanoseconds per sample.
        ns: f64 = "number" {},
    }
    state {}
}

impl Operator for Work {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let end = cpu_time() + item.samples() as f64 * self.ns * 1e-9;
        while cpu_time() < end {
            std::hint::spin_loop();
        }
        Ok(Next::Forward)
    }
}

/// CPU time of this thread: other tests may load the machine.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

fn stream() -> StreamId {
    Stream::new("tone", TimebaseId(0), Rate::new(1000, 1).unwrap()).intern()
}

fn tone(samples: usize) -> Plan {
    let segment = SigSeg::from_slice(&vec![1.0f32; samples], 0, stream()).unwrap();
    Plan::scan(Segments::new([segment]).unwrap())
}

fn work(plan: &Plan, ns: f64) -> Plan {
    let serde_json::Value::Object(params) = json!({"ns": ns}) else {
        unreachable!()
    };
    plan.apply(&Work::DECLARATION, params, &[]).unwrap()
}

fn options() -> CharacteriseOptions {
    let mut options = CharacteriseOptions::default();
    options.samples = 1 << 16;
    options
}

fn known(plan: &Plan) -> OperatorCosts {
    let mut known = OperatorCosts::none();
    for cost in plan.characterise(&options()).unwrap() {
        known.note(MeasuredOperator {
            key: cost.key,
            seconds_per_sample: cost.seconds_per_sample,
        });
    }
    known
}

#[test]
fn each_operator_is_measured_by_itself() {
    let plan = work(&work(&tone(1 << 17), 60.0), 15.0);
    let costs = plan.characterise(&options()).unwrap();
    let [first, second] = &costs[..] else {
        panic!("{costs:?}");
    };
    for (cost, ns) in [(first, 60.0), (second, 15.0)] {
        let measured = 1e9 * cost.seconds_per_sample.median;
        assert!((measured / ns - 1.0).abs() < 0.15, "{measured} of {ns}");
        assert_eq!((cost.name, cost.samples), ("work", 1 << 17));
    }
    assert_ne!(first.key, second.key);
}

#[test]
fn costs_predict_the_throughput_of_one_thread() {
    let plan = work(&work(&tone(1 << 18), 20.0), 30.0);
    let prediction = plan.predict_throughput(1, &known(&plan)).unwrap();
    let before = cpu_time();
    plan.run_with(&RunOptions::default()).unwrap();
    let measured = f64::from(1 << 18) / (cpu_time() - before);
    assert!(
        (prediction.rate / measured - 1.0).abs() < 0.15,
        "{prediction:?} {measured}"
    );
    assert_eq!(prediction.bottleneck, "one thread (scan -> work -> work)");
}

#[test]
fn windows_and_rows_are_measured_for_each_sample_below_them() {
    let plan = tone(1 << 17).rewindow(256).unwrap().power().unwrap();
    let costs = plan.characterise(&options()).unwrap();
    let names: Vec<_> = costs.iter().map(|cost| cost.name).collect();
    assert_eq!(names, ["rewindow", "power"]);
    assert_eq!(costs[1].samples, 1 << 17);
    let ns = 1e9 * costs[1].seconds_per_sample.median;
    assert!((0.3..300.0).contains(&ns), "{ns}");
}

#[test]
fn several_threads_are_limited_by_the_part_that_works_in_order() {
    let plan = tone(1 << 17).rewindow(256).unwrap().power().unwrap();
    let known = known(&plan);
    let rates = [1, 2, 4].map(|workers| plan.predict_throughput(workers, &known).unwrap());
    assert!(rates[1].rate > 1.9 * rates[0].rate, "{rates:?}");
    assert!(rates[2].rate > 1.9 * rates[1].rate, "{rates:?}");
}

#[test]
fn operators_that_were_not_measured_are_named() {
    let plan = work(&tone(100), 5.0);
    let missing = plan
        .predict_throughput(2, &OperatorCosts::none())
        .unwrap_err();
    assert_eq!(missing, ["work"]);
    let other = plan.predict_throughput(2, &known(&work(&tone(1 << 16), 4.0)));
    assert_eq!(other.unwrap_err(), ["work"]);
}

#[test]
fn what_is_received_or_made_once_is_refused_with_a_remedy() {
    let made = GeneratedRecording::new(DType::F32, stream(), || Ok(Box::new(|| Ok(None))));
    let error = work(&Plan::scan(made), 1.0)
        .characterise(&options())
        .unwrap_err();
    assert_eq!(error.code(), "cannot_characterise");
    let text = error.to_string();
    assert!(
        text.starts_with("scan(tone) can be read only once"),
        "{text}"
    );
    assert!(text.ends_with("over a stored signal or an array"), "{text}");
}

#[test]
fn explain_says_what_is_missing() {
    // No settings folder, so these operators are not measured.
    let text = work(&tone(100), 7.0).explain();
    assert!(
        text.contains("no prediction of throughput: not measured: work;"),
        "{text}"
    );
}

#[test]
fn errors_of_predictions_are_parts_of_what_was_measured() {
    let mut known = OperatorCosts::none();
    known.check(CheckedPrediction {
        predicted: 90.0,
        measured: 100.0,
    });
    assert_eq!(
        known.prediction_error(),
        Some(Quartiles::exact(0.09999999999999998))
    );
}
