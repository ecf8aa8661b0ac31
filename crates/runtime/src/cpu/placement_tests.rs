//! Placements on described machines.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::{CpuLocation, CpuPlacement, CpuTopology};

/// CPUs and where they are.
type Described = (usize, CpuLocation);

/// `packages` of `caches` of `cores` of `smt` siblings; a node for every `caches_per_node`. Siblings have distant
/// numbers, as in Linux.
fn machine(
    packages: usize,
    caches: usize,
    caches_per_node: usize,
    cores: usize,
    smt: usize,
) -> Vec<Described> {
    let all = packages * caches * cores;
    let of = |cpu: usize| {
        let core = cpu % all;
        let cache = core / cores;
        let location = CpuLocation {
            package: cache / caches,
            node: cache / caches_per_node,
            cache: cache * cores,
            core,
        };
        (cpu, location)
    };
    (0..all * smt).map(of).collect()
}

/// Four cores with two siblings each, and four without, on one cache.
fn hybrid() -> Vec<Described> {
    let of = |cpu: usize| {
        let location = CpuLocation {
            package: 0,
            node: 0,
            cache: 0,
            core: if cpu < 8 { cpu / 2 * 2 } else { cpu },
        };
        (cpu, location)
    };
    (0..12).map(of).collect()
}

fn topology(machine: &[Described]) -> CpuTopology {
    machine.iter().copied().collect()
}

fn cpus(machine: &[Described], allowed: &[usize], current: usize, threads: usize) -> Vec<usize> {
    let placement = CpuPlacement::new(&topology(machine), allowed, current).unwrap();
    (0..threads).map(|thread| placement.cpu(thread)).collect()
}

fn all(machine: &[Described]) -> Vec<usize> {
    machine.iter().map(|&(cpu, _)| cpu).collect()
}

#[test]
fn the_caller_keeps_its_cpu_and_threads_wrap_around() {
    let two = machine(1, 1, 1, 2, 1);
    assert_eq!(cpus(&two, &[0, 1], 1, 5), [1, 0, 1, 0, 1]);
    let one = machine(1, 1, 1, 1, 1);
    assert_eq!(cpus(&one, &[0], 0, 3), [0, 0, 0]);
}

#[test]
fn every_core_comes_before_its_siblings() {
    // Siblings are 0 and 4, 1 and 5, ...
    let four = machine(1, 1, 1, 4, 2);
    assert_eq!(cpus(&four, &all(&four), 0, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
    // The caller is on the second sibling of core 2: the first one comes in its turn.
    assert_eq!(cpus(&four, &all(&four), 6, 8), [6, 0, 1, 3, 2, 4, 5, 7]);
}

#[test]
fn a_node_is_filled_before_the_other() {
    // Cores 0 to 7 on node 0, 8 to 15 on node 1; siblings from 16 on.
    let two = machine(2, 1, 1, 8, 2);
    let order = cpus(&two, &all(&two), 9, 32);
    assert_eq!(order[..8], [9, 8, 10, 11, 12, 13, 14, 15]);
    assert_eq!(order[8..16], [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(order[16..24], [25, 24, 26, 27, 28, 29, 30, 31]);
}

#[test]
fn neighbours_share_a_cache_then_a_node_then_a_package() {
    let many = machine(2, 4, 2, 2, 1);
    let order = cpus(&many, &all(&many), 10, 16);
    // Cache 5, cache 4 of the same node, the other node of the package, the other package.
    assert_eq!(
        order,
        [10, 11, 8, 9, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7]
    );
}

#[test]
fn hybrid_cores_with_and_without_siblings_come_before_second_siblings() {
    let mixed = hybrid();
    let order = cpus(&mixed, &all(&mixed), 0, 12);
    assert_eq!(order, [0, 2, 4, 6, 8, 9, 10, 11, 1, 3, 5, 7]);
}

#[test]
fn an_affinity_mask_that_cuts_through_cores_and_caches_is_kept() {
    let two = machine(2, 1, 1, 8, 2);
    // Core 3, the second sibling of core 4, one core of the other node. The caller's CPU is not allowed: its sibling
    // is.
    let order = cpus(&two, &[3, 19, 20, 8], 4, 4);
    assert_eq!(order, [20, 3, 8, 19]);
    // Neither it nor its sibling: what shares its cache.
    assert_eq!(cpus(&two, &[8, 7], 1, 2), [7, 8]);
}

#[test]
fn a_flat_topology_gives_the_cpus_in_order() {
    let flat = CpuTopology::default();
    let placement = CpuPlacement::new(&flat, &[2, 5, 9], 5).unwrap();
    let order: Vec<usize> = (0..4).map(|thread| placement.cpu(thread)).collect();
    assert_eq!(order, [5, 2, 9, 5]);
    assert!(CpuPlacement::new(&flat, &[], 0).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_mask_is_used_once_and_cores_before_siblings(
        (packages, nodes, caches, cores, smt) in (1..3usize, 1..3usize, 1..3usize, 1..4usize, 1..4usize),
        mask in any::<u128>(),
        current in 0..200usize,
    ) {
        let described = machine(packages, nodes * caches, caches, cores, smt);
        let topology = topology(&described);
        let allowed: Vec<usize> = all(&described).into_iter().filter(|cpu| mask >> (cpu % 128) & 1 == 1).collect();
        let Some(placement) = CpuPlacement::new(&topology, &allowed, current) else {
            prop_assert!(allowed.is_empty());
            return Ok(());
        };
        let order: Vec<usize> = (0..allowed.len()).map(|thread| placement.cpu(thread)).collect();
        prop_assert_eq!(&order.iter().copied().collect::<BTreeSet<_>>(), &allowed.iter().copied().collect());
        prop_assert!(!allowed.contains(&current) || order[0] == current);
        let cores: BTreeSet<usize> = allowed.iter().map(|&cpu| topology.location(cpu).core).collect();
        let first: BTreeSet<usize> = order[..cores.len()].iter().map(|&cpu| topology.location(cpu).core).collect();
        prop_assert_eq!(first, cores.clone());
        let first = &order[..cores.len()];
        for part in [|one: CpuLocation| one.node, |one: CpuLocation| one.cache] {
            let mut parts: Vec<usize> = first.iter().map(|&cpu| part(topology.location(cpu))).collect();
            parts.dedup();
            prop_assert_eq!(parts.len(), parts.iter().collect::<BTreeSet<_>>().len());
        }
    }
}
