//! A slow dispatcher model: every decision examines every task and host.

use std::collections::{BTreeMap, BTreeSet};

use isochrony_placement::{DispatchOptions, Policy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Backlog,
    Waiting,
    Running(usize),
    Ended,
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) objects: BTreeSet<u32>,
    pub(crate) state: State,
    pub(crate) entered: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) total: u32,
    pub(crate) busy: u32,
    pub(crate) draining: bool,
    pub(crate) removed: bool,
    turn: u64,
}

impl Host {
    fn is_free(&self) -> bool {
        !self.removed && !self.draining && self.busy < self.total
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Copy {
    ready: bool,
    claims: u32,
}

pub(crate) struct Model {
    options: DispatchOptions,
    pub(crate) tasks: Vec<Task>,
    pub(crate) hosts: Vec<Host>,
    copies: BTreeMap<(u32, usize), Copy>,
    bytes: BTreeMap<u32, u64>,
    widespread: BTreeSet<u32>,
    oldest_since: u64,
    next_turn: u64,
    /// Peak pairs of a waiting group and a host with bytes of it.
    pub(crate) most_pairs: usize,
}

impl Model {
    pub(crate) fn new(options: DispatchOptions) -> Self {
        Self {
            options,
            tasks: Vec::new(),
            hosts: Vec::new(),
            copies: BTreeMap::new(),
            bytes: BTreeMap::new(),
            widespread: BTreeSet::new(),
            oldest_since: 0,
            next_turn: 0,
            most_pairs: 0,
        }
    }

    fn is_aware(&self) -> bool {
        !matches!(
            self.options.policy,
            Policy::FirstAvailable | Policy::FirstCacheAvailable
        )
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> {
        let tasks = self.tasks.iter().enumerate();
        tasks
            .filter(|(_, task)| task.state == State::Waiting)
            .map(|(at, _)| at)
    }

    pub(crate) fn count(&self, which: impl Fn(State) -> bool) -> usize {
        self.tasks.iter().filter(|task| which(task.state)).count()
    }

    fn turn(&mut self, host: usize) {
        if self.hosts[host].is_free() {
            self.hosts[host].turn = self.next_turn;
            self.next_turn += 1;
        }
    }

    pub(crate) fn add_host(&mut self, slots: u32) {
        self.hosts.push(Host {
            total: slots,
            busy: 0,
            draining: false,
            removed: false,
            turn: 0,
        });
        self.turn(self.hosts.len() - 1);
    }

    pub(crate) fn set_draining(&mut self, host: usize, draining: bool) {
        if self.hosts[host].draining != draining {
            self.hosts[host].draining = draining;
            self.turn(host);
        }
    }

    /// A host that becomes free goes to the end.
    pub(crate) fn set_slots(&mut self, host: usize, slots: u32) {
        let was_free = self.hosts[host].is_free();
        self.hosts[host].total = slots;
        if !was_free {
            self.turn(host);
        }
    }

    pub(crate) fn remove_host(&mut self, host: usize, now: u64) -> Vec<usize> {
        for object in 0..64 {
            if self.copies.remove(&(object, host)).is_some() {
                self.lost(object);
            }
        }
        self.hosts[host].removed = true;
        let tasks = 0..self.tasks.len();
        let lost: Vec<_> = tasks
            .filter(|&at| self.tasks[at].state == State::Running(host))
            .collect();
        for &task in &lost {
            self.wait(task, now);
        }
        lost
    }

    pub(crate) fn set_bytes(&mut self, object: u32, bytes: u64) {
        self.bytes.insert(object, bytes);
    }

    pub(crate) fn replicas(&self, object: u32) -> usize {
        self.copies.keys().filter(|(of, _)| *of == object).count()
    }

    pub(crate) fn is_ready(&self, object: u32, host: usize) -> bool {
        self.copies
            .get(&(object, host))
            .is_some_and(|copy| copy.ready)
    }

    fn lost(&mut self, object: u32) {
        if self.replicas(object) <= self.options.widespread / 2 {
            self.widespread.remove(&object);
        }
    }

    fn change(&mut self, object: u32, host: usize, change: impl Fn(&mut Copy)) {
        let had = self.copies.contains_key(&(object, host));
        let copy = self.copies.entry((object, host)).or_default();
        change(copy);
        let keeps = copy.ready || copy.claims > 0;
        if !keeps {
            self.copies.remove(&(object, host));
        }
        match (had, keeps) {
            (false, true) if self.replicas(object) > self.options.widespread => {
                self.widespread.insert(object);
            }
            (true, false) => self.lost(object),
            _ => (),
        }
    }

    pub(crate) fn report(&mut self, host: usize, object: u32, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.set_bytes(object, bytes);
        }
        self.change(object, host, |copy| copy.ready = bytes.is_some());
    }

    pub(crate) fn admit(&mut self, objects: &[u32], now: u64) {
        self.tasks.push(Task {
            objects: objects.iter().copied().collect(),
            state: State::Backlog,
            entered: 0,
        });
        self.fill(now);
    }

    fn fill(&mut self, now: u64) {
        while self.waiting().count() < self.options.window {
            let next = self
                .tasks
                .iter()
                .position(|task| task.state == State::Backlog);
            match next {
                Some(next) => self.wait(next, now),
                None => break,
            }
        }
    }

    fn wait(&mut self, task: usize, now: u64) {
        self.tasks[task].state = State::Waiting;
        self.tasks[task].entered = now;
        if self.waiting().next() == Some(task) {
            self.oldest_since = now;
        }
    }

    fn leave(&mut self, task: usize, now: u64) {
        if self.waiting().next() == Some(task) {
            self.oldest_since = now;
        }
    }

    pub(crate) fn stop(&mut self, task: usize, again: bool, now: u64) {
        let State::Running(host) = self.tasks[task].state else {
            panic!("not running")
        };
        if self.is_aware() {
            for object in self.tasks[task].objects.clone() {
                self.change(object, host, |copy| copy.claims -= 1);
            }
        }
        let was_free = self.hosts[host].is_free();
        self.hosts[host].busy -= 1;
        if !was_free {
            self.turn(host);
        }
        self.tasks[task].state = State::Ended;
        if again {
            self.wait(task, now);
        }
    }

    pub(crate) fn cancel(&mut self, task: usize, now: u64) {
        let waited = self.tasks[task].state == State::Waiting;
        if waited {
            self.leave(task, now);
        }
        self.tasks[task].state = State::Ended;
        if waited {
            self.fill(now);
        }
    }

    fn score(&self, task: usize, host: usize) -> u64 {
        let located = self.tasks[task]
            .objects
            .iter()
            .filter(|&&object| !self.widespread.contains(&object));
        let here = located.filter(|&&object| self.copies.contains_key(&(object, host)));
        here.map(|object| self.bytes.get(object).copied().unwrap_or(0).max(1))
            .sum()
    }

    fn most(&self, task: usize) -> u64 {
        let hosts = 0..self.hosts.len();
        hosts.map(|host| self.score(task, host)).max().unwrap_or(0)
    }

    /// `or` if no free host has bytes.
    fn best_free(&self, task: usize, or: usize) -> usize {
        let hosts = 0..self.hosts.len();
        let free = hosts.filter(|&host| self.hosts[host].is_free() && self.score(task, host) > 0);
        free.max_by_key(|&host| {
            (
                self.score(task, host),
                std::cmp::Reverse(self.hosts[host].turn),
            )
        })
        .unwrap_or(or)
    }

    fn choose(&self, host: usize, computes: bool) -> Option<(usize, usize)> {
        let best = self
            .waiting()
            .filter(|&task| {
                let score = self.score(task, host);
                score > 0 && (computes || score == self.most(task))
            })
            .max_by_key(|&task| (self.score(task, host), std::cmp::Reverse(task)));
        if let Some(task) = best {
            let other = self.best_free(task, host);
            let more = computes && self.score(task, other) > self.score(task, host);
            return Some((task, if more { other } else { host }));
        }
        if let Some(cold) = self.waiting().find(|&task| self.most(task) == 0) {
            return Some((cold, host));
        }
        if !computes {
            return None;
        }
        let task = self.waiting().find(|&task| {
            let mut objects = self.tasks[task].objects.iter();
            self.options.policy == Policy::MaxComputeUtil
                || objects.all(|&object| {
                    self.widespread.contains(&object)
                        || self.replicas(object) < self.options.max_replicas
                })
        })?;
        Some((task, self.best_free(task, host)))
    }

    pub(crate) fn next(&mut self, now: u64) -> Option<(usize, usize)> {
        self.note_pairs();
        let oldest = self.waiting().next()?;
        let hosts = 0..self.hosts.len();
        let mut free: Vec<_> = hosts.filter(|&host| self.hosts[host].is_free()).collect();
        free.sort_by_key(|&host| self.hosts[host].turn);
        let &first = free.first()?;
        if !self.is_aware() {
            return Some(self.assign(oldest, first, now));
        }
        if now - self.oldest_since >= self.options.max_wait {
            let host = self.best_free(oldest, first);
            return Some(self.assign(oldest, host, now));
        }
        let computes = match self.options.policy {
            Policy::MaxCacheHit => false,
            Policy::MaxComputeUtil => true,
            _ => {
                let open = || {
                    self.hosts
                        .iter()
                        .filter(|host| !host.removed && !host.draining)
                };
                let busy: u32 = open().map(|host| host.busy).sum();
                let total: u32 = open().map(|host| host.total).sum();
                f64::from(busy) < self.options.utilization * f64::from(total)
            }
        };
        if let Some((task, host)) = free.iter().find_map(|&host| self.choose(host, computes)) {
            return Some(self.assign(task, host, now));
        }
        if now - self.tasks[oldest].entered >= self.options.max_wait {
            let host = self.best_free(oldest, first);
            return Some(self.assign(oldest, host, now));
        }
        None
    }

    fn assign(&mut self, task: usize, host: usize, now: u64) -> (usize, usize) {
        self.leave(task, now);
        self.tasks[task].state = State::Running(host);
        if self.is_aware() {
            for object in self.tasks[task].objects.clone() {
                self.change(object, host, |copy| copy.claims += 1);
            }
        }
        self.hosts[host].busy += 1;
        self.turn(host);
        self.fill(now);
        (task, host)
    }

    pub(crate) fn note_pairs(&mut self) {
        let groups: BTreeSet<_> = self
            .waiting()
            .map(|task| &self.tasks[task].objects)
            .collect();
        let hosts = self.hosts.len();
        self.most_pairs = self.most_pairs.max(groups.len() * (2 * hosts + 2));
    }
}
