//! Each tasklet runs once, after its dependencies, within the budget.

use std::ops::Range;

use isochrony_tasklets::{
    Assignment, DependencyGraph, InputSpec, OrderPolicy, SerialOrder, SignalExtent, SignalSpec,
    TaskletError, TaskletScheduler, TaskletSpec,
};

mod random;

fn signals() -> Vec<SignalSpec> {
    let signal = |name: &str, scratch| SignalSpec {
        name: name.into(),
        scratch_sample_bytes: scratch,
    };
    vec![
        signal("a", None),
        signal("b", None),
        signal("sum", None),
        signal("scratch 0", Some(4)),
        signal("scratch 1", Some(2)),
    ]
}

fn extent(signal: usize, range: Range<i64>) -> SignalExtent {
    SignalExtent { signal, range }
}

fn stored(signal: usize, range: Range<i64>) -> InputSpec {
    InputSpec {
        extent: extent(signal, range),
        missing: vec![],
    }
}

fn written(signal: usize, range: Range<i64>) -> InputSpec {
    InputSpec {
        missing: vec![range.clone()],
        extent: extent(signal, range),
    }
}

fn spec(name: &str, inputs: Vec<InputSpec>, outputs: Vec<SignalExtent>) -> TaskletSpec {
    TaskletSpec {
        name: name.into(),
        inputs,
        outputs,
        ..TaskletSpec::default()
    }
}

fn fft_adder(parts: i64) -> Vec<TaskletSpec> {
    let mut specs = Vec::new();
    let range = |part: i64| part * 100..part * 100 + 100;
    for (signal, scratch) in [(0, 3), (1, 4)] {
        for part in 0..parts {
            let name = format!("fft {signal} {part}");
            specs.push(spec(
                &name,
                vec![stored(signal, range(part))],
                vec![extent(scratch, range(part))],
            ));
        }
    }
    for part in 0..parts {
        let inputs = vec![written(3, range(part)), written(4, range(part))];
        specs.push(spec(
            &format!("add {part}"),
            inputs,
            vec![extent(2, range(part))],
        ));
    }
    specs
}

fn refused(specs: &[TaskletSpec]) -> TaskletError {
    DependencyGraph::new(&signals(), specs).unwrap_err()
}

fn order(
    specs: &[TaskletSpec],
    how: OrderPolicy,
    budget: u64,
) -> Result<Vec<String>, TaskletError> {
    let graph = DependencyGraph::new(&signals(), specs)?;
    let serial = SerialOrder::new(&graph, &vec![false; specs.len()], how, budget)?;
    Ok(serial
        .tasklets
        .iter()
        .map(|at| graph.names[*at].clone())
        .collect())
}

#[test]
fn a_backward_scan_is_read_forward() {
    let specs: Vec<TaskletSpec> = (0..4)
        .rev()
        .map(|part| {
            spec(
                &part.to_string(),
                vec![stored(0, part * 10..part * 10 + 10)],
                vec![],
            )
        })
        .collect();
    assert_eq!(
        order(&specs, OrderPolicy::Disk, 0).unwrap(),
        ["0", "1", "2", "3"]
    );
    assert_eq!(
        order(&specs, OrderPolicy::Given, 0).unwrap(),
        ["3", "2", "1", "0"]
    );
}

#[test]
fn tasklets_are_ordered_by_disk_position_if_known_else_by_index() {
    let specs: Vec<TaskletSpec> = (0..4)
        .flat_map(|part| {
            [0, 1].map(|signal| {
                let range = part * 100..part * 100 + 100;
                let name = format!("{signal} {part}");
                spec(&name, vec![stored(signal, range)], vec![])
            })
        })
        .collect();
    let bytes = |signal: usize, index: i64| match (signal, index) {
        (1, _) => (1, 5000 + index),
        (_, 0..200) => (2, 9000 + index),
        (..) => (2, 1000 + index),
    };
    let names = |graph: &DependencyGraph| {
        let kept = vec![false; graph.len()];
        let serial = SerialOrder::new(graph, &kept, OrderPolicy::Disk, 0).unwrap();
        let names = serial.tasklets.iter().map(|at| graph.names[*at].clone());
        names.collect::<Vec<_>>()
    };
    let mut graph = DependencyGraph::new(&signals(), &specs).unwrap();
    let by_index = ["0 0", "0 1", "0 2", "0 3", "1 0", "1 1", "1 2", "1 3"];
    assert_eq!(names(&graph), by_index);
    assert!(
        !graph.use_disk_positions(|signal, index| (index != 300).then(|| bytes(signal, index)))
    );
    assert_eq!(names(&graph), by_index);
    assert!(graph.use_disk_positions(|signal, index| Some(bytes(signal, index))));
    assert_eq!(
        names(&graph),
        ["1 0", "1 1", "1 2", "1 3", "0 2", "0 3", "0 0", "0 1"]
    );
}

#[test]
fn scratch_is_drained_before_more_of_it_is_written() {
    assert_eq!(
        order(&fft_adder(3), OrderPolicy::Disk, 600).unwrap(),
        [
            "fft 0 0", "fft 1 0", "add 0", "fft 0 1", "fft 1 1", "add 1", "fft 0 2", "fft 1 2",
            "add 2"
        ]
    );
    assert_eq!(
        order(&fft_adder(3), OrderPolicy::Disk, 2400).unwrap(),
        [
            "fft 0 0", "fft 0 1", "fft 1 0", "fft 1 1", "add 0", "add 1", "fft 0 2", "fft 1 2",
            "add 2"
        ]
    );
}

#[test]
fn a_budget_that_cannot_be_met_is_refused_before_the_run() {
    let error = order(&fft_adder(3), OrderPolicy::Disk, 599).unwrap_err();
    assert_eq!(error.code(), "scratch_too_small");
    assert_eq!(
        error.to_string(),
        "scratch=599 bytes are too few: when tasklet \"fft 1 0\" runs, 600 bytes of scratch are in use, even with one tasklet at a time; give scratch=600 or more, or make the tasklets smaller"
    );
    let given = order(&fft_adder(3), OrderPolicy::Given, 1000)
        .unwrap_err()
        .to_string();
    assert!(
        given.contains("1800 bytes of scratch are in use")
            && given.contains("by disk position frees scratch early"),
        "{given}"
    );
}

#[test]
fn tasklets_in_a_cycle_are_named() {
    let mut specs = vec![
        spec("a", vec![written(3, 0..10)], vec![extent(4, 0..10)]),
        spec("b", vec![written(4, 0..10)], vec![extent(3, 0..10)]),
        spec("c", vec![written(3, 0..10)], vec![]),
    ];
    let error = refused(&specs);
    assert_eq!(error.code(), "tasklet_cycle");
    assert!(
        error.to_string().contains("\"a\" needs \"b\" needs \"a\""),
        "{error}"
    );
    specs.truncate(1);
    specs[0].inputs = vec![written(4, 5..6)];
    assert!(refused(&specs).to_string().contains("\"a\" needs \"a\""));
}

#[test]
fn two_writers_no_writer_and_unknown_names_are_errors_with_samples() {
    let two = [
        spec("a", vec![], vec![extent(2, 0..10)]),
        spec("b", vec![], vec![extent(2, 9..12)]),
    ];
    let error = refused(&two);
    assert_eq!(
        (error.code(), error.to_string().contains("9..10 of sum")),
        ("two_writers", true),
        "{error}"
    );
    let none = [
        spec("a", vec![], vec![extent(3, 0..10)]),
        spec("b", vec![written(3, 5..15)], vec![]),
    ];
    let error = refused(&none);
    assert_eq!(
        (
            error.code(),
            error.to_string().contains("10..15 of scratch 0")
        ),
        ("nobody_writes", true),
        "{error}"
    );
    let mut after = vec![spec("a", vec![], vec![])];
    after[0].after = vec!["b".into()];
    assert_eq!(refused(&after).code(), "unknown_tasklet");
    assert_eq!(
        refused(&[spec("a", vec![], vec![]), spec("a", vec![], vec![])]).code(),
        "duplicate_name"
    );
}

#[test]
fn a_long_chain_and_a_wide_sum_need_little_stack_and_time() {
    const LONG: usize = 100_000;
    let mut specs: Vec<TaskletSpec> = (0..LONG as i64)
        .map(|at| spec(&at.to_string(), vec![], vec![extent(3, at..at + 1)]))
        .collect();
    for (at, spec) in specs.iter_mut().enumerate().skip(1) {
        spec.after = vec![(at - 1).to_string()];
    }
    specs.push(spec("sum", vec![written(3, 0..LONG as i64)], vec![]));
    let names = order(&specs, OrderPolicy::Disk, 1 << 30).unwrap();
    assert_eq!(names.last().unwrap(), "sum");
    assert_eq!(
        names[..LONG],
        (0..LONG).map(|at| at.to_string()).collect::<Vec<_>>()
    );
}

#[test]
fn a_slow_first_tasklet_does_not_delay_others() {
    let mut specs = vec![spec("slow", vec![stored(0, 0..1)], vec![])];
    specs.extend(fft_adder(50));
    let graph = DependencyGraph::new(&signals(), &specs).unwrap();
    let serial =
        SerialOrder::new(&graph, &vec![false; specs.len()], OrderPolicy::Disk, 1200).unwrap();
    let mut scheduler = TaskletScheduler::new(graph, serial, 1200);
    let slow = scheduler.assign();
    assert_eq!(slow, Assignment::Run(0));
    for _ in 1..specs.len() {
        let Assignment::Run(tasklet) = scheduler.assign() else {
            panic!("held up")
        };
        scheduler.complete(tasklet);
    }
    assert_eq!(scheduler.assign(), Assignment::Wait);
    scheduler.complete(0);
    assert_eq!(scheduler.assign(), Assignment::Finished);
}

#[test]
fn exclusive_tasklets_leave_workers_to_others() {
    let mut specs: Vec<TaskletSpec> = (0..5)
        .map(|at| spec(&at.to_string(), vec![stored(0, at..at + 1)], vec![]))
        .collect();
    for at in [0, 1, 4] {
        specs[at].exclusive = true;
    }
    let graph = DependencyGraph::new(&signals(), &specs).unwrap();
    let serial = SerialOrder::new(&graph, &[false; 5], OrderPolicy::Disk, 0).unwrap();
    let mut scheduler = TaskletScheduler::new(graph, serial, 0);
    let begun: Vec<Assignment> = (0..4).map(|_| scheduler.assign()).collect();
    let expected = [
        Assignment::Run(0),
        Assignment::Run(2),
        Assignment::Run(3),
        Assignment::Wait,
    ];
    assert_eq!(begun, expected);
    // A non-exclusive one does not let an exclusive one start; a failed one does.
    scheduler.complete(2);
    assert_eq!(scheduler.assign(), Assignment::Wait);
    scheduler.fail(0);
    assert_eq!(
        (scheduler.assign(), scheduler.assign()),
        (Assignment::Run(1), Assignment::Wait)
    );
    scheduler.complete(1);
    assert_eq!(
        (scheduler.assign(), scheduler.assign()),
        (Assignment::Run(4), Assignment::Wait)
    );
    scheduler.complete(3);
    scheduler.complete(4);
    assert_eq!(scheduler.assign(), Assignment::Finished);
}
