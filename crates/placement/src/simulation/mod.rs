//! Discrete-event simulator of a cluster, driven by the same dispatcher, index, eviction and provisioner as a real one.
//!
//! What is modelled: a central scheduler that serves reports and decisions one after another; hosts with slots, processors
//! for some or all of them, a disk whose rate their slots share, and a cache of bounded bytes; links from host to host, of which a source serves some
//! transfers at a time; and one storage system whose rate all readers share, each of them up to a rate of its own. What
//! is not: the receiving end of a link, failures, other users, and anything that varies by chance.

mod engine;
mod fetch;
mod host;
mod rate;
mod workload;

pub use workload::Workload;

use crate::{DispatchOptions, EvictionPolicy, PlacementError, ProvisionOptions};

/// A cluster: bytes a second, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterModel {
    /// Hosts at the start.
    pub hosts: usize,
    /// Tasks that each host has at a time.
    pub slots: u32,
    /// Tasks of a host that compute at a time; those of further slots get their inputs meanwhile.
    pub processors: u32,
    /// Cores that the tasks of all hosts share, of which each takes one at most, where hosts are processes of one
    /// machine; none if each processor is one of its own.
    pub shared_cores: Option<f64>,
    /// Bytes of each host's cache.
    pub cache_bytes: u64,
    /// Rate of each host's disk, which its slots share.
    pub disk_rate: f64,
    /// Rate at which a host serves its cache to peers.
    pub link_rate: f64,
    /// Most transfers that a host serves at a time.
    pub max_transfers: usize,
    /// Rate of storage, which all readers share.
    pub storage_rate: f64,
    /// Most that one reader gets of it.
    pub storage_reader_rate: f64,
    /// Nanoseconds until storage begins to answer.
    pub storage_latency: u64,
    /// Nanoseconds of a message between scheduler and host, and of a request to a peer.
    pub network_latency: u64,
    /// Nanoseconds that the scheduler spends on a decision, sending it included.
    pub decision_time: u64,
    /// Nanoseconds that the scheduler spends on the report of a task's end.
    pub report_time: u64,
    /// Whether a host that fetches an object from storage passes it on to those that want it meanwhile, instead of
    /// each reading it from storage.
    pub passes_on: bool,
    /// Whether hosts keep what they read and look there first under [`Policy::FirstAvailable`](crate::Policy), too;
    /// in the paper each access is then one of storage.
    pub always_caches: bool,
    /// How caches evict.
    pub eviction: EvictionPolicy,
    /// How hosts are added and released, and nanoseconds that a host takes to start; none if there are always as many.
    pub provision: Option<(ProvisionOptions, u64)>,
}

impl ClusterModel {
    /// The cluster of Raicu et al. (2008): two processors a host, GPFS that tops out at 3.4 Gb/s, a dispatcher of
    /// 3,800 tasks/s.
    ///
    /// From the text: 61.7 Gb/s are 94 % of the ideal of 64 hosts, so a disk gives 128 MB/s; links are 1 Gb/s. What
    /// one reader gets of GPFS is 48 MB/s: its 3.4 Gb/s are reached at 16 processors (section 5.3), each of which also
    /// computes.
    pub fn data_diffusion_2008(hosts: usize) -> Self {
        Self {
            hosts,
            slots: 2,
            processors: 2,
            shared_cores: None,
            cache_bytes: 50_000_000_000,
            disk_rate: 128e6,
            link_rate: 125e6,
            max_transfers: 4,
            storage_rate: 425e6,
            storage_reader_rate: 48e6,
            storage_latency: 5_000_000,
            network_latency: 1_500_000,
            decision_time: 200_000,
            report_time: 63_000,
            passes_on: false,
            always_caches: false,
            eviction: EvictionPolicy::Lru,
            provision: None,
        }
    }

    fn check(&self) -> Result<(), PlacementError> {
        let rates = [
            ("disk_rate", self.disk_rate),
            ("link_rate", self.link_rate),
            ("storage_rate", self.storage_rate),
            ("storage_reader_rate", self.storage_reader_rate),
            ("shared_cores", self.shared_cores.unwrap_or(1.0)),
        ];
        for (parameter, rate) in rates {
            if !(rate.is_finite() && rate > 0.0) {
                return Err(PlacementError::Parameter {
                    parameter,
                    got: rate.to_string(),
                    allowed: "finite and above 0",
                });
            }
        }
        if self.processors == 0 {
            return Err(PlacementError::Parameter {
                parameter: "processors",
                got: "0".into(),
                allowed: "at least 1",
            });
        }
        Ok(())
    }
}

/// Numbers by where an input came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origins {
    /// The host's own cache, or the fetch of another of its slots.
    pub local: u64,
    /// Another host's cache.
    pub peer: u64,
    /// Storage.
    pub storage: u64,
}

/// What a simulated run came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SimulationReport {
    /// Tasks.
    pub tasks: u64,
    /// Seconds from the first admission to the last report.
    pub makespan_s: f64,
    /// Inputs by origin.
    pub inputs: Origins,
    /// Bytes moved by origin: read from local disks, from peers, from storage.
    pub bytes: Origins,
    /// Share of the time that the scheduler was at work.
    pub scheduler_busy: f64,
    /// Share of the time that slots had a task.
    pub slots_busy: f64,
    /// Seconds that hosts were there, all together.
    pub host_seconds: f64,
    /// Most hosts at a time.
    pub most_hosts: usize,
    /// Objects that caches evicted.
    pub evicted: u64,
}

impl SimulationReport {
    /// Share of inputs that needed no read from storage.
    pub fn hit_rate(&self) -> f64 {
        let hits = self.inputs.local + self.inputs.peer;
        hits as f64 / (hits + self.inputs.storage).max(1) as f64
    }

    /// Seconds that a processor spends on a task, waiting included: the ordinate of the paper's figures 8, 9 and 11.
    pub fn time_per_task_s(&self, slots: usize) -> f64 {
        self.makespan_s * slots as f64 / self.tasks.max(1) as f64
    }

    /// Bits read in a second from all origins: the ordinate of the paper's figure 12, in Gb/s.
    pub fn throughput_gbps(&self) -> f64 {
        let bytes = self.bytes.local + self.bytes.peer + self.bytes.storage;
        bytes as f64 * 8.0 / 1e9 / self.makespan_s
    }
}

/// Runs a workload on a cluster, with all tasks admitted at the start or one by one as the workload says.
///
/// ```
/// use isochrony_placement::DispatchOptions;
/// use isochrony_placement::simulation::{ClusterModel, Workload, simulate};
///
/// let cluster = ClusterModel::data_diffusion_2008(4);
/// let workload = Workload::stacking(Workload::shuffled(100, 10, 1), false);
/// let report = simulate(&cluster, DispatchOptions::default(), &workload)?;
/// assert_eq!(report.tasks, 1000);
/// assert!(report.hit_rate() > 0.8);
/// # Ok::<(), isochrony_placement::PlacementError>(())
/// ```
pub fn simulate(
    cluster: &ClusterModel,
    dispatch: DispatchOptions,
    workload: &Workload,
) -> Result<SimulationReport, PlacementError> {
    cluster.check()?;
    engine::Engine::new(cluster, dispatch, workload)?.finish()
}
