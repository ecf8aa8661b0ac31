//! The event loop; the scheduler is a single-queue server.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::host::Host;
use super::rate::SharedRate;
use super::{ClusterModel, SimulationReport, Workload};
use crate::{
    Change, Decision, DispatchOptions, Dispatcher, HostId, ObjectId, PlacementError, Policy,
    Provisioner,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Arrives,
    ServerFree,
    /// A report is to be processed, or a task was passed over for long enough.
    Wakes,
    Started(u32),
    StorageAnswers(u32),
    /// A flow ends, unless flows have changed since the version.
    StorageEnds(u32),
    LinkEnds(HostId, u32),
    DiskEnds(HostId, u32),
    Fetched(u32),
    CoresEnd(u32),
    Computed(u32),
    Reported(u32),
    Provisions,
    HostStarts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Local,
    Peer(HostId),
    Storage,
}

pub(crate) struct Run {
    pub(crate) decision: Decision,
    pub(crate) at: usize,
    pub(crate) source: Source,
    pub(crate) pinned: Vec<ObjectId>,
    pub(crate) changes: Vec<Change>,
    pub(crate) delta: u64,
    begun: u64,
}

pub(crate) struct Engine<'a> {
    pub(crate) cluster: &'a ClusterModel,
    pub(crate) workload: &'a Workload,
    pub(crate) policy: Policy,
    pub(crate) now: u64,
    pub(crate) report: SimulationReport,
    dispatcher: Dispatcher,
    provisioner: Option<Provisioner>,
    hosts: Vec<Host>,
    starting: usize,
    runs: Vec<Option<Run>>,
    free_runs: Vec<u32>,
    storage: SharedRate,
    /// Nanoseconds of computing, if hosts share cores.
    cores: SharedRate,
    /// Objects to pass on, with waiting runs of other hosts.
    pub(crate) passed_on: BTreeMap<ObjectId, Vec<u32>>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next_event: u64,
    admitted: usize,
    ended: u64,
    reports: VecDeque<u32>,
    server_busy: bool,
    server_time: u64,
    slot_time: u64,
    slot_capacity: f64,
    wakes_at: u64,
}

const PROVISION_INTERVAL: u64 = 1_000_000_000;

impl<'a> Engine<'a> {
    pub(crate) fn new(
        cluster: &'a ClusterModel,
        dispatch: DispatchOptions,
        workload: &'a Workload,
    ) -> Result<Self, PlacementError> {
        let provisioner = match cluster.provision {
            Some((options, _)) => Some(Provisioner::new(options)?),
            None => None,
        };
        let mut engine = Self {
            cluster,
            workload,
            policy: dispatch.policy,
            now: 0,
            report: SimulationReport::default(),
            dispatcher: Dispatcher::new(dispatch)?,
            provisioner,
            hosts: Vec::new(),
            starting: 0,
            runs: Vec::new(),
            free_runs: Vec::new(),
            storage: SharedRate::new(cluster.storage_rate, cluster.storage_reader_rate),
            cores: SharedRate::new(cluster.shared_cores.unwrap_or(1.0) * 1e9, 1e9),
            passed_on: BTreeMap::new(),
            events: BinaryHeap::new(),
            next_event: 0,
            admitted: 0,
            ended: 0,
            reports: VecDeque::new(),
            server_busy: false,
            server_time: 0,
            slot_time: 0,
            slot_capacity: 0.0,
            wakes_at: u64::MAX,
        };
        for _ in 0..cluster.hosts {
            engine.add_host()?;
        }
        for &object in workload.tasks.iter().flatten() {
            engine.dispatcher.set_bytes(object, workload.cached_bytes);
        }
        engine.after(0, Event::Arrives);
        if engine.provisioner.is_some() {
            engine.after(0, Event::Provisions);
        }
        Ok(engine)
    }

    pub(crate) fn run(&mut self, run: u32) -> &mut Run {
        self.runs[run as usize].as_mut().expect("a run under way")
    }

    pub(crate) fn host(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[host.0 as usize]
    }

    pub(crate) fn after(&mut self, nanoseconds: u64, event: Event) {
        self.at(self.now + nanoseconds, event);
    }

    fn at(&mut self, time: u64, event: Event) {
        self.events.push(Reverse((time, self.next_event, event)));
        self.next_event += 1;
    }

    pub(crate) fn watch_disk(&mut self, host: HostId) {
        let disk = &self.hosts[host.0 as usize].disk;
        if let Some(end) = disk.next_end() {
            self.at(end, Event::DiskEnds(host, disk.version));
        }
    }

    pub(crate) fn watch_link(&mut self, host: HostId) {
        let link = &self.hosts[host.0 as usize].link;
        if let Some(end) = link.next_end() {
            self.at(end, Event::LinkEnds(host, link.version));
        }
    }

    fn watch_storage(&mut self) {
        if let Some(end) = self.storage.next_end() {
            self.at(end, Event::StorageEnds(self.storage.version));
        }
    }

    fn watch_cores(&mut self) {
        if let Some(end) = self.cores.next_end() {
            self.at(end, Event::CoresEnd(self.cores.version));
        }
    }

    pub(crate) fn begin_computing(&mut self, run: u32) {
        let spent = self.workload.compute_time;
        if self.cluster.shared_cores.is_some() {
            self.cores.add(self.now, spent, run);
            self.watch_cores();
        } else {
            self.after(spent, Event::Computed(run));
        }
    }

    pub(crate) fn run_all(&mut self) -> Result<(), PlacementError> {
        let tasks = self.workload.tasks.len() as u64;
        while self.ended < tasks {
            let Some(Reverse((time, _, event))) = self.events.pop() else {
                return Err(PlacementError::Stalled {
                    at_s: self.now as f64 / 1e9,
                    left: tasks - self.ended,
                    tasks,
                });
            };
            self.now = time;
            self.handle(event)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), PlacementError> {
        let now = self.now;
        match event {
            Event::Arrives => self.arrive(),
            Event::ServerFree => {
                self.server_busy = false;
                self.serve()?;
            }
            Event::Wakes => {
                self.wakes_at = u64::MAX;
                self.serve()?;
            }
            Event::Started(run) => self.next_input(run),
            Event::StorageAnswers(run) => {
                self.storage.add(now, self.workload.stored_bytes, run);
                self.watch_storage();
            }
            Event::StorageEnds(version) if version == self.storage.version => {
                let run = self.storage.end(now).expect("a flow");
                self.watch_storage();
                self.after(self.workload.unpack_time, Event::Fetched(run));
            }
            Event::LinkEnds(host, version) if version == self.host(host).link.version => {
                let run = self.host(host).link.end(now).expect("a flow");
                self.watch_link(host);
                self.peer_read(run);
            }
            Event::DiskEnds(host, version) if version == self.host(host).disk.version => {
                let run = self.host(host).disk.end(now).expect("a flow");
                self.watch_disk(host);
                self.local_read(run);
            }
            Event::CoresEnd(version) if version == self.cores.version => {
                let run = self.cores.end(now).expect("a flow");
                self.watch_cores();
                self.computed(run);
            }
            Event::CoresEnd(_)
            | Event::StorageEnds(_)
            | Event::LinkEnds(..)
            | Event::DiskEnds(..) => (),
            Event::Fetched(run) => self.fetched(run),
            Event::Computed(run) => self.computed(run),
            Event::Reported(run) => {
                self.reports.push_back(run);
                self.serve()?;
            }
            Event::Provisions => self.provision()?,
            Event::HostStarts => {
                self.starting -= 1;
                self.add_host()?;
                self.serve()?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self) {
        let all = self.workload.tasks.len();
        while self.admitted < all {
            let objects = &self.workload.tasks[self.admitted];
            self.dispatcher.admit(objects, self.now);
            self.admitted += 1;
            if self.workload.interval > 0 {
                break;
            }
        }
        if self.admitted < all {
            self.after(self.workload.interval, Event::Arrives);
        }
        self.after(0, Event::Wakes);
    }

    /// Reports first, since they free slots.
    fn serve(&mut self) -> Result<(), PlacementError> {
        if self.server_busy {
            return Ok(());
        }
        let spent = if let Some(run) = self.reports.pop_front() {
            self.take_report(run)?;
            self.cluster.report_time
        } else if let Some(decision) = self.dispatcher.next(self.now) {
            let spent = self.cluster.decision_time;
            let run = Run {
                decision,
                at: 0,
                source: Source::Local,
                pinned: Vec::new(),
                changes: Vec::new(),
                delta: 0,
                begun: self.now,
            };
            let slot = self.free_runs.pop().unwrap_or_else(|| {
                self.runs.push(None);
                (self.runs.len() - 1) as u32
            });
            self.runs[slot as usize] = Some(run);
            self.after(spent + self.cluster.network_latency, Event::Started(slot));
            spent
        } else {
            if let Some(deadline) = self.dispatcher.next_deadline()
                && deadline < self.wakes_at
            {
                self.wakes_at = deadline;
                self.at(deadline, Event::Wakes);
            }
            return Ok(());
        };
        self.server_busy = true;
        self.server_time += spent;
        self.after(spent, Event::ServerFree);
        Ok(())
    }

    fn take_report(&mut self, run: u32) -> Result<(), PlacementError> {
        let state = self.runs[run as usize].take().expect("a run that reported");
        self.free_runs.push(run);
        let host = state.decision.host;
        self.dispatcher
            .apply_delta(host, state.delta, &state.changes)?;
        self.dispatcher.finish(state.decision.task, self.now)?;
        self.ended += 1;
        self.slot_time += self.now - state.begun;
        if let Some(provisioner) = &mut self.provisioner {
            provisioner.note_task(self.now - state.begun);
        }
        Ok(())
    }

    fn add_host(&mut self) -> Result<(), PlacementError> {
        self.dispatcher.add_host(self.cluster.slots, self.now)?;
        self.hosts.push(Host::new(self.cluster, self.now));
        let there = self.hosts.iter().filter(|host| !host.removed).count();
        self.report.most_hosts = self.report.most_hosts.max(there);
        Ok(())
    }

    fn provision(&mut self) -> Result<(), PlacementError> {
        let (Some(provisioner), Some((_, start_time))) =
            (&self.provisioner, self.cluster.provision)
        else {
            return Ok(());
        };
        let plan = provisioner.plan(&self.dispatcher, self.starting, self.now);
        for _ in 0..plan.add {
            self.starting += 1;
            self.after(start_time, Event::HostStarts);
        }
        for host in plan.release {
            if self.host(host).link.len() == 0 {
                self.dispatcher.remove_host(host, self.now)?;
                self.end_host(host);
            }
        }
        self.after(PROVISION_INTERVAL, Event::Provisions);
        self.serve()
    }

    fn end_host(&mut self, host: HostId) {
        let (now, slots) = (self.now, f64::from(self.cluster.slots));
        let there = self.host(host);
        if !std::mem::replace(&mut there.removed, true) {
            let seconds = (now - there.started) as f64 / 1e9;
            self.report.host_seconds += seconds;
            self.slot_capacity += seconds * slots;
        }
    }

    pub(crate) fn finish(mut self) -> Result<SimulationReport, PlacementError> {
        self.run_all()?;
        for host in 0..self.hosts.len() {
            self.end_host(HostId(host as u32));
        }
        let seconds = self.now as f64 / 1e9;
        self.report.tasks = self.ended;
        self.report.makespan_s = seconds;
        self.report.scheduler_busy = self.server_time as f64 / 1e9 / seconds;
        self.report.slots_busy = self.slot_time as f64 / 1e9 / self.slot_capacity;
        Ok(self.report)
    }
}
