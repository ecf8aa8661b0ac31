//! The controller on a cluster whose throughput is a formula.

use isochrony_tune::controller::StageCosts;
use isochrony_tune::{
    Configuration, ConfigurationLimits, Controller, Outcome, StageWindow, TuningMode,
    TuningSession, Window,
};

use super::formula_plan::options;

const MOST_TASKS: usize = 32;
const SAMPLES: f64 = 1000.0;

/// Each slot has two messages under way: one is computed while the other travels.
struct FormulaCluster {
    slots: usize,
    travel_s: f64,
    task_s: f64,
    /// Tasks of a message where none are stated.
    own_batch: usize,
    /// Share of the throughput of a slot that each other one costs.
    contention: f64,
    /// Most tasks a second that the client takes.
    client: f64,
    noise: f64,
    random: fastrand::Rng,
}

impl FormulaCluster {
    fn new(slots: usize, seed: u64) -> Self {
        Self {
            slots,
            travel_s: 0.05,
            task_s: 0.001,
            own_batch: 4,
            contention: 0.0,
            client: f64::INFINITY,
            noise: 0.03,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn batch(&self, configuration: &Configuration) -> f64 {
        match configuration.batch_tasks {
            0 => self.own_batch as f64,
            stated => stated as f64,
        }
    }

    /// Tasks a second.
    fn rate(&self, configuration: &Configuration) -> f64 {
        let slots = configuration.workers.min(self.slots) as f64;
        let batch = self.batch(configuration);
        let in_flight = 2.0 * batch / (self.travel_s + batch * self.task_s);
        let slot = in_flight.min(1.0 / self.task_s) / (1.0 + self.contention * (slots - 1.0));
        (slots * slot).min(self.client)
    }

    fn window(&mut self, configuration: &Configuration) -> Window {
        let elapsed_s = 0.2;
        let normal = (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0;
        let tasks = self.rate(configuration) * (self.noise * normal).exp() * elapsed_s;
        Window {
            elapsed_s,
            delivered: tasks * SAMPLES,
            stages: vec![StageWindow {
                items: tasks,
                busy_s: tasks * self.task_s,
                ..StageWindow::default()
            }],
            messages: tasks / self.batch(configuration),
            ..Window::default()
        }
    }
}

fn start(workers: usize, slots: usize, batch_tasks: usize) -> Configuration {
    Configuration {
        workers,
        replicas: vec![slots],
        link_bytes: Vec::new(),
        task_bytes: 0,
        batch_tasks,
    }
}

fn limits(slots: usize) -> ConfigurationLimits {
    ConfigurationLimits {
        min_workers: 1,
        workers: slots,
        replicas: vec![slots],
        min_link_bytes: 1,
        max_link_bytes: u64::MAX,
        min_task_bytes: 0,
        max_task_bytes: 0,
        max_batch_tasks: MOST_TASKS,
    }
}

fn controller(start: Configuration, slots: usize) -> Controller {
    Controller::new(start, limits(slots), options(usize::MAX)).unwrap()
}

fn settle(controller: &mut Controller, cluster: &mut FormulaCluster) {
    controller.set_slots(cluster.slots, 1);
    for _ in 0..2000 {
        let configuration = controller.configuration().clone();
        controller.observe(&cluster.window(&configuration), None);
        if controller.is_settled() {
            return;
        }
    }
    panic!("not settled: {:#?}", controller.decisions());
}

#[test]
fn a_single_slot_with_a_task_a_message_becomes_all_slots_with_large_messages() {
    for seed in 0..20 {
        let mut cluster = FormulaCluster::new(8, seed);
        let mut controller = controller(start(1, 8, 1), 8);
        settle(&mut controller, &mut cluster);
        let part = cluster.rate(controller.kept()) / cluster.rate(&start(8, 8, MOST_TASKS));
        assert!(
            part > 0.95,
            "seed {seed}: {part} of the best: {}",
            controller.kept()
        );
        let gains = controller.decisions().iter();
        let mut gains = gains.filter(|one| one.outcome == Outcome::Kept);
        assert!(gains.all(|one| one.gain.unwrap().low.unwrap() > 0.0));
    }
}

/// Else the cluster would retire the slots that are tried next.
#[test]
fn slots_are_not_enough_because_more_than_before_were_better() {
    for seed in 0..20 {
        let mut cluster = FormulaCluster::new(8, seed);
        let mut controller = controller(start(1, 8, 1), 8);
        controller.set_slots(8, 1);
        let mut changes = 0;
        for _ in 0..300 {
            let configuration = controller.configuration().clone();
            let before = controller.kept().clone();
            controller.observe(&cluster.window(&configuration), None);
            changes += usize::from(before != *controller.kept());
            assert_eq!(controller.enough_slots(), None, "{}", controller.kept());
        }
        assert!(changes > 1);
    }
}

/// A run that is not tuned uses all that there are.
#[test]
fn slots_that_join_are_part_of_the_default() {
    let mut cluster = FormulaCluster::new(4, 1);
    let first = start(4, 4, 0);
    let mut controller = controller(first.clone(), 4).with_default(first);
    settle(&mut controller, &mut cluster);
    cluster.slots = 6;
    settle(&mut controller, &mut cluster);
    assert_eq!(controller.kept().workers, 6);
    let tried = controller.decisions().iter();
    let mut tried = tried.filter(|one| one.reason.contains("not tuned"));
    assert!(tried.all(|one| one.to.workers != 4));
}

#[test]
fn an_unstated_batch_is_compared_with_multiples_of_its_mean() {
    for seed in 0..20 {
        let mut cluster = FormulaCluster::new(4, seed);
        let mut controller = controller(start(4, 4, 0), 4);
        settle(&mut controller, &mut cluster);
        assert_eq!(*controller.kept(), start(4, 4, MOST_TASKS));
        let tried = controller.decisions().iter().map(|one| one.to.batch_tasks);
        assert!(tried.clone().all(|tasks| tasks <= MOST_TASKS));
        assert_eq!(tried.min(), Some(16), "four times the mean of 4");
    }
    let mut cluster = FormulaCluster::new(4, 1);
    let costs = StageCosts::of(&[cluster.window(&start(4, 4, 0))]).unwrap();
    assert!((costs.batch_tasks - 4.0).abs() < 1e-9);
}

#[test]
fn what_does_not_gain_is_left() {
    for seed in 0..20 {
        // Computing hides all travelling, and the client takes no more.
        let mut cluster = FormulaCluster::new(6, seed);
        (cluster.travel_s, cluster.client, cluster.noise) = (0.001, 2500.0, 0.003);
        let mut controller = controller(start(6, 6, 0), 6);
        settle(&mut controller, &mut cluster);
        assert_eq!(*controller.kept(), start(6, 6, 0));
        assert_eq!(controller.enough_slots(), None);
    }
}

#[test]
fn all_slots_follow_those_that_leave_and_join() {
    let mut cluster = FormulaCluster::new(8, 1);
    let mut controller = controller(start(8, 8, MOST_TASKS), 8);
    settle(&mut controller, &mut cluster);
    for slots in [5, 9] {
        cluster.slots = slots;
        settle(&mut controller, &mut cluster);
        assert_eq!(*controller.kept(), start(slots, slots, MOST_TASKS));
    }
    let changes = controller.decisions().iter();
    let changes = changes.filter(|one| one.outcome == Outcome::LoadChanged);
    let changes: Vec<&str> = changes.map(|one| &*one.reason).collect();
    assert_eq!(
        changes,
        [
            "the cluster has 5 slots, 8 before",
            "the cluster has 9 slots, 5 before"
        ]
    );
}

/// Caches of a cluster's hosts hold data that would be read again.
#[test]
fn slots_that_must_all_be_used_are_never_fewer() {
    let mut cluster = FormulaCluster::new(4, 1);
    (cluster.contention, cluster.travel_s) = (2.0, 0.0);
    let all = ConfigurationLimits {
        min_workers: 4,
        ..limits(4)
    };
    let mut controller =
        Controller::new(start(4, 4, MOST_TASKS), all, options(usize::MAX)).unwrap();
    for slots in [4, 3, 1, 4] {
        cluster.slots = slots;
        controller.set_slots(slots, slots);
        for _ in 0..300 {
            let configuration = controller.configuration().clone();
            assert_eq!(configuration.workers, slots);
            controller.observe(&cluster.window(&configuration), None);
        }
        assert_eq!(controller.enough_slots(), None);
    }
    assert!(
        controller
            .decisions()
            .iter()
            .all(|one| one.to.workers == one.to.replicas[0])
    );
}

#[test]
fn a_slot_that_leaves_ends_a_trial() {
    let mut cluster = FormulaCluster::new(8, 1);
    let mut controller = controller(start(4, 8, MOST_TASKS), 8);
    while controller.configuration().workers == 4 {
        let configuration = controller.configuration().clone();
        controller.observe(&cluster.window(&configuration), None);
    }
    controller.set_slots(3, 1);
    assert_eq!(*controller.configuration(), start(3, 3, MOST_TASKS));
    // Four were chosen, as soon as there are four.
    controller.set_slots(6, 1);
    assert_eq!(*controller.configuration(), start(4, 6, MOST_TASKS));
}

#[test]
fn fewer_slots_are_kept_where_more_are_slower_until_the_load_changes() {
    let mut cluster = FormulaCluster::new(8, 1);
    cluster.contention = 2.0;
    cluster.travel_s = 0.0;
    let mut controller = controller(start(8, 8, MOST_TASKS), 8);
    settle(&mut controller, &mut cluster);
    let used = controller.kept().workers;
    assert!(used < 4, "{}", controller.kept());
    assert_eq!(controller.enough_slots(), Some(used));
    // The cluster retires some, and has more again.
    for slots in [4, 8] {
        cluster.slots = slots;
        settle(&mut controller, &mut cluster);
        assert_eq!(controller.kept().workers, used);
    }
    cluster.task_s *= 4.0;
    while controller.enough_slots().is_some() {
        let configuration = controller.configuration().clone();
        controller.observe(&cluster.window(&configuration), None);
    }
    let last = controller.decisions().iter().rev();
    let mut last = last.filter(|one| one.outcome == Outcome::LoadChanged);
    assert!(last.next().unwrap().reason.contains("throughput"));
}

#[test]
fn configurations_fit_clusters_of_other_sizes() {
    let own = start(4, 4, 0);
    let without_replicas = |workers| Configuration {
        replicas: Vec::new(),
        ..start(workers, 4, 8)
    };
    for (stated, fitted) in [
        (start(2, 2, 8), start(4, 4, 8)),
        (start(9, 9, 100), start(4, 4, MOST_TASKS)),
        (start(6, 9, 8), start(4, 4, 8)),
        (start(3, 9, 8), start(3, 4, 8)),
        (without_replicas(9), start(4, 4, 8)),
        (without_replicas(3), start(3, 4, 8)),
    ] {
        assert_eq!(stated.fitted_to(&own, &limits(4)), fitted, "{stated}");
    }
    let of_stages = Configuration {
        replicas: vec![2, 2],
        ..start(2, 2, 8)
    };
    let fitted = of_stages.fitted_to(&own, &limits(4));
    assert_eq!(
        limits(4).check(&fitted, 0).unwrap_err().code(),
        "other_plan"
    );
    // On one machine numbers of threads must be legal.
    let machine = ConfigurationLimits {
        max_batch_tasks: 0,
        ..limits(4)
    };
    for refused in [start(9, 9, 0), start(2, 4, 8)] {
        let fitted = refused.fitted_to(&own, &machine);
        assert_eq!(fitted, refused);
        assert_eq!(machine.check(&fitted, 0).unwrap_err().code(), "parameter");
    }
}

#[test]
fn a_given_number_of_slots_is_enough() {
    let session =
        |mode| TuningSession::new(mode, start(4, 4, 0), limits(4), options(usize::MAX)).unwrap();
    assert_eq!(
        session(TuningMode::Apply(start(2, 4, 0))).enough_slots(),
        Some(2)
    );
    assert_eq!(
        session(TuningMode::Apply(start(4, 4, 0))).enough_slots(),
        None
    );
    // Trials may want more.
    let from = TuningMode::ChangeFrom(start(2, 4, 0));
    assert_eq!(session(from).enough_slots(), None);
    let mut measured = session(TuningMode::Measure);
    measured.set_slots(6, 1);
    measured.observe(&FormulaCluster::new(6, 1).window(&start(6, 6, 0)), None);
    assert_eq!(measured.report().configuration, Some(start(6, 6, 0)));
    assert!(measured.report().decisions.is_empty());
}
