//! placement/decide: decisions per second of every policy in a large cluster; placement/lookup: of an object's holders.
//!
//! A step is a scheduler's work for a task: its predecessor ends, a host reports fetches and evictions, a task is
//! admitted, and a decision is made.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use isochrony_placement::{
    CacheIndex, Change, DispatchOptions, Dispatcher, HostId, Interner, ObjectId, Policy, TaskId,
};

use crate::measure::{Results, Times, turns};

struct Size {
    hosts: u32,
    objects: u32,
    waiting: usize,
    /// Steps of a round.
    steps: usize,
    rounds: usize,
}

#[derive(Clone, Copy)]
enum Access {
    /// One object in nine of ten tasks, else two, all objects alike.
    Uniform,
    /// One object by Zipf's law, exponent 1.
    Zipf,
    /// Two: any one, and one that every task reads, such as a calibration.
    Shared,
}

impl Access {
    const ALL: [Self; 3] = [Self::Uniform, Self::Zipf, Self::Shared];

    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::Shared => "shared",
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }
}

/// Task, host, and inputs with whether the host had them.
type RunningTask = (TaskId, HostId, Vec<(ObjectId, bool)>);

struct Cluster {
    dispatcher: Dispatcher,
    access: Access,
    objects: u32,
    random: Random,
    /// Content of each host, oldest first, and number of its next delta.
    caches: Vec<(VecDeque<ObjectId>, u64)>,
    running: Vec<RunningTask>,
    now: u64,
    inputs: u64,
    hits: u64,
}

const OBJECT: u64 = 2_000_000;

impl Cluster {
    fn new(policy: Policy, access: Access, size: &Size) -> Self {
        let options = DispatchOptions {
            window: size.waiting,
            ..DispatchOptions::for_policy(policy)
        };
        let mut dispatcher = Dispatcher::new(options).expect("options");
        let mut caches = Vec::new();
        for host in 0..size.hosts {
            let id = dispatcher.add_host(1, 0).expect("a host");
            let held = (host..size.objects).step_by(size.hosts as usize);
            let held: VecDeque<_> = held.map(ObjectId).collect();
            let added = |&object: &ObjectId| Change::Added {
                object,
                bytes: OBJECT + u64::from(object.0) % 1024,
            };
            let added: Vec<_> = held.iter().map(added).collect();
            dispatcher.apply_delta(id, 0, &added).expect("a delta");
            caches.push((held, 1));
        }
        let mut cluster = Self {
            dispatcher,
            access,
            objects: size.objects,
            random: Random(0x9e37_79b9_7f4a_7c15),
            caches,
            running: Vec::new(),
            now: 0,
            inputs: 0,
            hits: 0,
        };
        for _ in 0..size.waiting + size.hosts as usize {
            cluster.admit();
        }
        while cluster.decide() {}
        // The policy may let slots idle, but the steps need a task on each.
        cluster.now += 1 << 40;
        while cluster.decide() {}
        assert_eq!(cluster.running.len(), size.hosts as usize);
        cluster
    }

    fn object(&mut self) -> ObjectId {
        ObjectId(match self.access {
            Access::Zipf => {
                // The inverse of the continuous law.
                let u = (self.random.next() >> 11) as f64 / (1u64 << 53) as f64;
                let rank = f64::from(self.objects).powf(u) as u32 - 1;
                rank.min(self.objects - 1)
            }
            _ => self.random.below(self.objects),
        })
    }

    fn admit(&mut self) {
        let first = self.object();
        let second = match self.access {
            Access::Shared => Some(ObjectId(0)),
            Access::Uniform if self.random.below(10) == 0 => Some(self.object()),
            _ => None,
        };
        match second {
            Some(second) => self.dispatcher.admit(&[first, second], self.now),
            None => self.dispatcher.admit(&[first], self.now),
        };
    }

    fn decide(&mut self) -> bool {
        let Some(decision) = self.dispatcher.next(self.now) else {
            return false;
        };
        self.inputs += decision.inputs.len() as u64;
        self.hits += decision
            .inputs
            .iter()
            .filter(|input| input.is_local)
            .count() as u64;
        let inputs = decision
            .inputs
            .iter()
            .map(|input| (input.object, input.is_local));
        self.running
            .push((decision.task, decision.host, inputs.collect()));
        true
    }

    fn step(&mut self) {
        self.now += 10_000;
        let at = self.random.below(self.running.len() as u32) as usize;
        let (task, host, inputs) = self.running.swap_remove(at);
        let (held, delta) = &mut self.caches[host.0 as usize];
        let mut changes = [Change::Removed {
            object: ObjectId(0),
        }; 4];
        let mut count = 0;
        for (object, _) in inputs.into_iter().filter(|(_, local)| !local) {
            let bytes = OBJECT + u64::from(object.0) % 1024;
            changes[count] = Change::Added { object, bytes };
            held.push_back(object);
            let object = held.pop_front().expect("a cache that is not empty");
            changes[count + 1] = Change::Removed { object };
            count += 2;
        }
        self.dispatcher
            .apply_delta(host, *delta, &changes[..count])
            .expect("a delta");
        *delta += 1;
        self.dispatcher
            .finish(task, self.now)
            .expect("a running task");
        self.admit();
        self.decide();
    }

    fn round(&mut self, size: &Size) {
        for _ in 0..size.steps {
            if self.running.is_empty() {
                self.now += 1 << 40;
                self.decide();
            }
            self.step();
        }
        let counts = self.dispatcher.counts();
        assert_eq!(counts.running, self.running.len());
        let all = size.waiting + size.hosts as usize;
        assert_eq!(counts.running + counts.window + counts.backlog, all);
    }
}

pub fn run(
    _dir: &Path,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let size = if quick {
        Size {
            hosts: 20,
            objects: 2000,
            waiting: 500,
            steps: 500,
            rounds: 2,
        }
    } else {
        Size {
            hosts: 1000,
            objects: 1_000_000,
            waiting: 100_000,
            steps: 100_000,
            rounds: 9,
        }
    };
    let mut rows = Vec::new();
    let mut met = true;
    for access in Access::ALL {
        let mut clusters = Policy::ALL.map(|policy| Cluster::new(policy, access, &size));
        for cluster in &mut clusters {
            (cluster.inputs, cluster.hits) = (0, 0);
        }
        let [a, b, c, d, e] = &mut clusters;
        let times = turns(
            size.rounds,
            [
                &mut || a.round(&size),
                &mut || b.round(&size),
                &mut || c.round(&size),
                &mut || d.round(&size),
                &mut || e.round(&size),
            ],
        );
        for ((policy, cluster), times) in Policy::ALL.into_iter().zip(&clusters).zip(&times) {
            let seconds = times.seconds();
            let rate = |seconds: f64| size.steps as f64 / seconds;
            let hits = cluster.hits as f64 / cluster.inputs as f64;
            let looks = !matches!(policy, Policy::FirstAvailable | Policy::FirstCacheAvailable);
            if looks && !quick && matches!(access, Access::Uniform) {
                // A hundred waiting tasks per host: each slot finds a hit.
                assert!(hits > 0.9, "{}: {hits}", policy.name());
            }
            met &= rate(seconds.median) >= 100_000.0;
            rows.push(vec![
                format!("{}, {}", policy.name(), access.name()),
                format!("{:.0}", rate(seconds.median)),
                format!("{:.0} to {:.0}", rate(seconds.high), rate(seconds.low)),
                format!("{:.1} %", 100.0 * hits),
                "3,800".into(),
            ]);
        }
    }
    results.table(
        "placement/decide",
        &format!(
            "Decisions a second, one thread: {} executors, {} objects, {} waiting tasks (paper: its whole dispatcher)",
            size.hosts, size.objects, size.waiting
        ),
        &["policy, access", "decisions/s", "quartiles", "inputs found local", "paper"],
        &rows,
        Some(("at least 100,000 decisions/s", met)),
    );
    lookups(&size, results);
    Ok(())
}

/// By name, beside the paper's hash table.
fn lookups(size: &Size, results: &mut Results) {
    let mut names: Interner<Arc<str>> = Interner::default();
    let mut index = CacheIndex::new(64);
    for _ in 0..size.hosts {
        index.add_host();
    }
    let mut all: Vec<Arc<str>> = Vec::new();
    for object in 0..size.objects {
        let name: Arc<str> = format!("archive/2010/station_{object:07}/pressure").into();
        all.push(name.clone());
        let object = names.intern(name);
        let host = HostId(object.0 % size.hosts);
        let added = Change::Added { object, bytes: 1 };
        let number = u64::from(object.0 / size.hosts);
        index.apply_delta(host, number, &[added]).expect("a delta");
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let asked: Vec<ObjectId> = (0..size.steps)
        .map(|_| ObjectId(random.below(size.objects)))
        .collect();
    let expected: u64 = asked.iter().map(|id| u64::from(id.0 % size.hosts)).sum();
    let first = |object| index.holders(object).next().expect("a holder");
    // Next to each other, unlike in the index.
    let asked_names: Vec<String> = asked
        .iter()
        .map(|id| all[id.0 as usize].to_string())
        .collect();
    let by_id = || -> u64 { asked.iter().map(|&id| u64::from(first(id).0)).sum() };
    let by_name = || -> u64 {
        let found = asked_names.iter().map(|name| {
            let object = names.get(&**name).expect("a known name");
            u64::from(first(object).0)
        });
        found.sum()
    };
    let [ids, named]: [Times; 2] = turns(
        size.rounds,
        [&mut || assert_eq!(by_id(), expected), &mut || {
            assert_eq!(by_name(), expected)
        }],
    );
    let rate = |times: &Times| size.steps as f64 / times.seconds().median;
    let row = |what: &str, times: &Times| {
        vec![
            what.to_string(),
            format!("{:.2} M", rate(times) / 1e6),
            "4.18 M".into(),
        ]
    };
    results.table(
        "placement/lookup",
        &format!(
            "Look-ups a second of an object's holders, {} objects",
            size.objects
        ),
        &["look-up", "look-ups/s", "paper"],
        &[row("by identifier", &ids), row("by name", &named)],
        Some(("more than 4.18 M look-ups/s", rate(&named) > 4.18e6)),
    );
}
