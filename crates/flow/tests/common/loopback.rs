//! A cluster in this process: its slots are threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use isochrony_flow::{
    Cause, CauseCodec, DispatchOptions, Plan, PreparedTasks, RemoteSlot, RunOptions, RunnerContext,
    SlotError, TaskCluster, TaskRunner,
};
use isochrony_store::shard_cache::{ReportCursor, ShardCache};

pub(crate) struct Loopback {
    state: Arc<State>,
    placement: Option<DispatchOptions>,
    expected: usize,
    on_ask: Box<dyn Fn(bool) + Send + Sync>,
}

impl std::fmt::Debug for Loopback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.state)
    }
}

pub(crate) type LoopbackHost = (Vec<Plan>, Option<Arc<ShardCache>>);

struct State {
    slots: Mutex<VecDeque<Slot>>,
    joined: Condvar,
    hosts: Vec<(Arc<PreparedTasks>, Option<Arc<ShardCache>>)>,
    options: RunOptions<'static>,
    /// One call in this many loses its slot; 0: none.
    lost_one_in: u64,
    /// Of each message.
    delay: Duration,
    calls: AtomicU64,
    stopped: AtomicBool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} calls", self.calls.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
pub(crate) struct TextCauses;

impl CauseCodec for TextCauses {
    fn encode(&self, _: &Cause) -> Option<Vec<u8>> {
        None
    }

    fn decode(&self, _: &[u8]) -> Option<Cause> {
        None
    }
}

impl Loopback {
    pub(crate) fn new(
        hosts: &[LoopbackHost],
        placement: Option<DispatchOptions>,
        options: RunOptions<'static>,
        slots: usize,
        lost_one_in: u64,
    ) -> Self {
        Self::with_delay(
            hosts,
            placement,
            options,
            slots,
            lost_one_in,
            Duration::ZERO,
        )
    }

    /// `delay`: how long a message travels to its slot and back.
    pub(crate) fn with_delay(
        hosts: &[LoopbackHost],
        placement: Option<DispatchOptions>,
        options: RunOptions<'static>,
        slots: usize,
        lost_one_in: u64,
        delay: Duration,
    ) -> Self {
        let prepared = |(plans, cache): &LoopbackHost| {
            let prepared = PreparedTasks::new(plans, true, &options).unwrap();
            (Arc::new(prepared), cache.clone())
        };
        let state = Arc::new(State {
            slots: Mutex::default(),
            joined: Condvar::new(),
            hosts: hosts.iter().map(prepared).collect(),
            options,
            lost_one_in,
            delay,
            calls: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        (0..slots).for_each(|number| state.join(number));
        Self {
            state,
            placement,
            expected: slots,
            on_ask: Box::new(|_| ()),
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::Relaxed)
    }
}

impl Drop for Loopback {
    /// Slots hold the state that holds them.
    fn drop(&mut self) {
        self.stop();
        self.state.slots.lock().unwrap().clear();
    }
}

impl State {
    fn join(self: &Arc<Self>, number: usize) {
        let state = Arc::clone(self);
        let (prepared, cache) = state.hosts[number % state.hosts.len()].clone();
        let context = RunnerContext {
            shared: None,
            causes: Arc::new(TextCauses),
            check: None,
            cache: cache.clone(),
        };
        let runner = TaskRunner::new(prepared, number, state.options, context).unwrap();
        let slot = Slot {
            name: format!("slot {number}"),
            cache,
            runner,
            sent: VecDeque::new(),
            state,
        };
        let mut slots = self.slots.lock().unwrap();
        if !self.stopped.load(Ordering::Relaxed) {
            slots.push_back(slot);
            self.joined.notify_one();
        }
    }
}

impl TaskCluster for Loopback {
    fn next_slot(&self, wait: Duration, _: bool) -> Result<Option<Box<dyn RemoteSlot>>, Cause> {
        let slots = self.state.slots.lock().unwrap();
        (self.on_ask)(slots.is_empty());
        let is_stopped = || self.state.stopped.load(Ordering::Relaxed);
        let joined = &self.state.joined;
        let (mut slots, _) = joined
            .wait_timeout_while(slots, wait, |slots| slots.is_empty() && !is_stopped())
            .unwrap();
        let slot = slots.pop_front();
        Ok(slot.map(|slot| Box::new(slot) as Box<dyn RemoteSlot>))
    }

    fn slots(&self) -> usize {
        self.expected
    }

    fn placement(&self) -> Option<DispatchOptions> {
        self.placement
    }

    fn stop(&self) {
        let _slots = self.state.slots.lock().unwrap();
        self.state.stopped.store(true, Ordering::Relaxed);
        self.state.joined.notify_all();
    }

    fn causes(&self) -> &dyn CauseCodec {
        &TextCauses
    }
}

struct Slot {
    name: String,
    cache: Option<Arc<ShardCache>>,
    runner: TaskRunner,
    sent: VecDeque<(Instant, Vec<u8>)>,
    state: Arc<State>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl RemoteSlot for Slot {
    fn name(&self) -> &str {
        &self.name
    }

    fn cache_report(&mut self) -> Option<Vec<u8>> {
        let cache = self.cache.as_ref()?;
        cache.report(&mut ReportCursor::default()).to_bytes().ok()
    }

    fn send(&mut self, batch: &[u8]) -> Result<(), SlotError> {
        self.sent.push_back((Instant::now(), batch.to_vec()));
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>, SlotError> {
        let (sent, batch) = self.sent.pop_front().expect("a batch that was sent");
        std::thread::sleep(self.state.delay.saturating_sub(sent.elapsed()));
        if self.state.stopped.load(Ordering::Relaxed) {
            return Err(SlotError::Stopped);
        }
        let call = self.state.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = self.runner.run(batch);
        if self.state.lost_one_in > 0 && call.is_multiple_of(self.state.lost_one_in) {
            self.state.join(100 + call as usize);
            return Err(SlotError::Lost);
        }
        answer.map_err(|error| SlotError::Failed(error.to_string().into()))
    }
}

/// Feeds stay here.
pub(crate) fn sent(plans: &[Plan]) -> Vec<Plan> {
    let (form, _) = Plan::to_sent_for_tasks(plans).unwrap();
    let no_recording = |_: &serde_json::Map<String, serde_json::Value>| unreachable!();
    Plan::several_from_json(&form, &isochrony_flow::Catalog::standard(), &no_recording).unwrap()
}

pub(crate) fn collect_on_loopback(
    plans: &[Plan],
    options: RunOptions<'static>,
    slots: usize,
    lost_one_in: u64,
) -> Result<(Vec<isochrony_flow::PlanOutput>, isochrony_flow::Report, u64), isochrony_flow::RunError>
{
    let host = (plans.to_vec(), None);
    collect_on_hosts(plans, &[host], None, options, slots, lost_one_in)
}

#[allow(dead_code)]
pub(crate) fn collect_feed_on_loopback(
    plans: &[Plan],
    there: &[Plan],
    on_ask: impl Fn(bool) + Send + Sync + 'static,
    options: RunOptions<'static>,
    slots: usize,
    lost_one_in: u64,
) -> Result<(Vec<isochrony_flow::PlanOutput>, isochrony_flow::Report, u64), isochrony_flow::RunError>
{
    let mut options = options;
    options.workers = 2;
    let host = (there.to_vec(), None);
    let mut cluster = Loopback::new(&[host], None, options, slots, lost_one_in);
    cluster.on_ask = Box::new(on_ask);
    collect_on(&cluster, plans, options)
}

pub(crate) fn collect_on_hosts(
    plans: &[Plan],
    hosts: &[LoopbackHost],
    placement: Option<DispatchOptions>,
    options: RunOptions<'static>,
    slots: usize,
    lost_one_in: u64,
) -> Result<(Vec<isochrony_flow::PlanOutput>, isochrony_flow::Report, u64), isochrony_flow::RunError>
{
    let mut options = options;
    options.workers = 2;
    let cluster = Loopback::new(hosts, placement, options, slots, lost_one_in);
    collect_on(&cluster, plans, options)
}

fn collect_on(
    cluster: &Loopback,
    plans: &[Plan],
    options: RunOptions<'static>,
) -> Result<(Vec<isochrony_flow::PlanOutput>, isochrony_flow::Report, u64), isochrony_flow::RunError>
{
    let mut here: RunOptions<'_> = options;
    here.cluster = Some(cluster);
    let (gathered, report) = Plan::collect_all(plans, &here)?;
    Ok((gathered, report, cluster.calls()))
}
