//! Discrete-event simulator of a cluster, with the real dispatcher, index, eviction and provisioner.
//!
//! Not modelled: the receiving end of a link, failures, other users, and randomness.

mod engine;
mod fetch;
mod host;
mod rate;
mod workload;

pub use workload::Workload;

use crate::{DispatchOptions, EvictionPolicy, PlacementError, ProvisionOptions};

/// A cluster; rates in bytes per second, times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterModel {
    /// Initial hosts.
    pub hosts: usize,
    /// Concurrent tasks per host.
    pub slots: u32,
    /// Concurrently computing tasks per host; other slots fetch meanwhile.
    pub processors: u32,
    /// Cores shared by all tasks, if hosts are processes of one machine; None: separate processors.
    pub shared_cores: Option<f64>,
    /// Cache bytes per host.
    pub cache_bytes: u64,
    /// Disk rate per host, shared by its slots.
    pub disk_rate: f64,
    /// Rate at which a host serves peers.
    pub link_rate: f64,
    /// Maximum concurrent transfers from a host.
    pub max_transfers: usize,
    /// Storage rate, shared by all readers.
    pub storage_rate: f64,
    /// Maximum storage rate per reader.
    pub storage_reader_rate: f64,
    /// Nanoseconds until storage answers.
    pub storage_latency: u64,
    /// Nanoseconds of a message to scheduler, host or peer.
    pub network_latency: u64,
    /// Scheduler nanoseconds per decision, including sending it.
    pub decision_time: u64,
    /// Scheduler nanoseconds per end-of-task report.
    pub report_time: u64,
    /// Whether a host passes objects from storage on to waiting others.
    pub passes_on: bool,
    /// Whether hosts cache under [`Policy::FirstAvailable`](crate::Policy); in the paper each access goes to storage.
    pub always_caches: bool,
    /// Eviction policy.
    pub eviction: EvictionPolicy,
    /// Provisioning, and host start time in nanoseconds; None: fixed hosts.
    pub provision: Option<(ProvisionOptions, u64)>,
}

impl ClusterModel {
    /// The cluster of Raicu et al. (2008): two processors per host, GPFS with at most 3.4 Gb/s, a dispatcher of 3,800
    /// tasks/s.
    ///
    /// 61.7 Gb/s are 94 % of the ideal of 64 hosts, so a disk gives 128 MB/s; links are 1 Gb/s. A GPFS reader gets 48
    /// MB/s: 16 processors, each also computing, reach 3.4 Gb/s (section 5.3).
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

/// Amounts by input origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origins {
    /// Own cache, or a fetch by another slot.
    pub local: u64,
    /// Another host's cache.
    pub peer: u64,
    /// Storage.
    pub storage: u64,
}

/// Results of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SimulationReport {
    /// Tasks.
    pub tasks: u64,
    /// Seconds from the first admission to the last report.
    pub makespan_s: f64,
    /// Inputs by origin.
    pub inputs: Origins,
    /// Bytes by origin: local disks, peers, storage.
    pub bytes: Origins,
    /// Scheduler utilization.
    pub scheduler_busy: f64,
    /// Slot utilization.
    pub slots_busy: f64,
    /// Total host lifetime in seconds.
    pub host_seconds: f64,
    /// Maximum number of hosts.
    pub most_hosts: usize,
    /// Evicted objects.
    pub evicted: u64,
}

impl SimulationReport {
    /// Fraction of inputs not read from storage.
    pub fn hit_rate(&self) -> f64 {
        let hits = self.inputs.local + self.inputs.peer;
        hits as f64 / (hits + self.inputs.storage).max(1) as f64
    }

    /// Processor seconds per task, including waiting: ordinate of figures 8, 9 and 11.
    pub fn time_per_task_s(&self, slots: usize) -> f64 {
        self.makespan_s * slots as f64 / self.tasks.max(1) as f64
    }

    /// Gb/s read from all origins: ordinate of figure 12.
    pub fn throughput_gbps(&self) -> f64 {
        let bytes = self.bytes.local + self.bytes.peer + self.bytes.storage;
        bytes as f64 * 8.0 / 1e9 / self.makespan_s
    }
}

/// Runs a workload.
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
