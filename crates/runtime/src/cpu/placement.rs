//! Chooses a CPU for each thread of an execution.

use std::collections::BTreeMap;

use isochrony_system::affinity::{CpuSet, current_cpu};

use super::{CpuLocation, CpuTopology};

/// A CPU for each thread of an execution; the caller's is thread 0 and keeps its CPU.
///
/// Physical cores are given first, then SMT siblings. Consecutive threads share a last-level cache where they can, then
/// a NUMA node, then a package. With more threads than CPUs, the order repeats.
#[derive(Debug, Clone)]
pub struct CpuPlacement {
    /// Distinct, and not empty.
    cpus: Vec<(usize, CpuLocation)>,
    pub(super) allowed: CpuSet,
}

impl CpuPlacement {
    /// For threads that the current one starts, on its allowed CPUs. None where the system does not tell them, as with
    /// more than 1024.
    #[must_use]
    pub fn of_current_thread() -> Option<Self> {
        let allowed: Vec<usize> = CpuSet::of_current_thread()?.cpus().collect();
        Self::new(CpuTopology::of_machine(), &allowed, current_cpu())
    }

    /// For a caller that runs on `current`, on the allowed CPUs. None if there are none.
    #[must_use]
    pub fn new(machine: &CpuTopology, allowed: &[usize], current: usize) -> Option<Self> {
        let order = placement_order(machine, allowed, current);
        let set: CpuSet = order.iter().copied().collect();
        let cpus = order.into_iter().map(|cpu| (cpu, machine.location(cpu)));
        let cpus: Vec<_> = cpus.collect();
        (!cpus.is_empty()).then_some(Self { cpus, allowed: set })
    }

    /// The CPU of a thread.
    #[must_use]
    pub fn cpu(&self, thread: usize) -> usize {
        self.cpus[thread % self.cpus.len()].0
    }

    /// Where the CPU of a thread is.
    #[must_use]
    pub fn location(&self, thread: usize) -> CpuLocation {
        self.cpus[thread % self.cpus.len()].1
    }
}

/// The order of [`CpuPlacement`]. The first is `current` or, if not allowed, the CPU that shares most with it.
fn placement_order(machine: &CpuTopology, allowed: &[usize], current: usize) -> Vec<usize> {
    let here = machine.location(current);
    let distance = |cpu: usize| {
        let there = machine.location(cpu);
        (
            cpu != current,
            there.core != here.core,
            there.cache != here.cache,
            there.node != here.node,
            there.package != here.package,
        )
    };
    let Some(&first) = allowed.iter().min_by_key(|&&cpu| (distance(cpu), cpu)) else {
        return Vec::new();
    };
    let home = machine.location(first);
    let mut order: Vec<usize> = allowed.to_vec();
    order.sort_by_key(|&cpu| {
        let there = machine.location(cpu);
        let near_node = (there.node != home.node, there.package != home.package);
        let node = (near_node, there.package, there.node);
        let cache = (there.cache != home.cache, there.cache);
        let core = (there.core != home.core, there.core);
        (node, cache, core, cpu != first, cpu)
    });
    order.dedup();
    // The first CPU of each core, then the second ones, and so on.
    let mut siblings_before: BTreeMap<usize, usize> = BTreeMap::new();
    let ranked = order.into_iter().map(|cpu| {
        let count = siblings_before
            .entry(machine.location(cpu).core)
            .or_insert(0);
        *count += 1;
        (*count, cpu)
    });
    let mut ranked: Vec<(usize, usize)> = ranked.collect();
    ranked.sort_by_key(|&(rank, _)| rank);
    ranked.into_iter().map(|(_, cpu)| cpu).collect()
}
