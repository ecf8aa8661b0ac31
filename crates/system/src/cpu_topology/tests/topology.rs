//! Topologies of described machines.

use std::path::Path;

use super::{CpuDescription, hybrid, machine, scratch_folder, tree, write};
use crate::cpu_topology::list::MAX_CPUS;
use crate::cpu_topology::{CpuLocation, CpuTopology};
use proptest::prelude::*;

fn expected(machine: &[CpuDescription]) -> Vec<(usize, CpuLocation)> {
    let first =
        |same: &dyn Fn(&CpuDescription) -> bool| machine.iter().find(|one| same(one)).unwrap().cpu;
    let of = |own: &CpuDescription| {
        let cache = first(&|one| one.cache == own.cache);
        let core = first(&|one| one.core == own.core);
        (
            own.cpu,
            CpuLocation {
                package: own.package,
                node: own.node,
                cache,
                core,
            },
        )
    };
    machine.iter().map(of).collect()
}

fn read(root: &Path) -> Vec<(usize, CpuLocation)> {
    let topology = CpuTopology::read(root);
    topology
        .cpus()
        .map(|cpu| (cpu, topology.location(cpu)))
        .collect()
}

#[test]
fn described_machines_are_read_as_described() {
    let machines = [
        machine(1, 1, 1, 2, 1),
        machine(1, 1, 1, 4, 2),
        machine(2, 1, 1, 8, 2),
        machine(1, 4, 2, 4, 2),
        machine(2, 4, 2, 4, 2),
        machine(1, 1, 1, 1, 1),
        hybrid(),
    ];
    for machine in machines {
        let root = tree(&machine);
        assert_eq!(read(root.path()), expected(&machine));
    }
}

#[test]
fn sparse_numbers_and_offline_cpus_are_left_out() {
    let mut some = machine(2, 1, 1, 4, 2);
    some.retain(|one| ![0, 3, 9].contains(&one.cpu));
    let root = tree(&some);
    // Offline: the folder stays, empty.
    std::fs::create_dir_all(root.path().join("cpu/cpu3")).unwrap();
    std::fs::create_dir_all(root.path().join("cpu/cpufreq")).unwrap();
    std::fs::create_dir_all(root.path().join("cpu/cpu99999")).unwrap();
    assert_eq!(read(root.path()), expected(&some));
    let unknown = CpuTopology::read(root.path()).location(3);
    assert_eq!((unknown.core, unknown.node, unknown.package), (3, 0, 0));
}

#[test]
fn newer_names_and_core_numbers_stand_in_for_lists_of_siblings() {
    let all = machine(2, 1, 1, 2, 2);
    let root = tree(&all);
    for one in &all {
        let topology = root.path().join(format!("cpu/cpu{}/topology", one.cpu));
        let siblings = topology.join("thread_siblings_list");
        match one.package {
            0 => std::fs::rename(&siblings, topology.join("core_cpus_list")).unwrap(),
            _ => std::fs::remove_file(&siblings).unwrap(),
        }
    }
    assert_eq!(read(root.path()), expected(&all));
}

#[test]
fn a_missing_tree_is_flat() {
    let root = scratch_folder();
    for path in [root.path().to_path_buf(), root.path().join("missing")] {
        let topology = CpuTopology::read(&path);
        assert_eq!(topology.cpus().count(), 0);
        for cpu in [0, 1, 5000] {
            let flat = CpuLocation {
                package: 0,
                node: 0,
                cache: 0,
                core: cpu,
            };
            assert_eq!(topology.location(cpu), flat);
        }
    }
}

#[test]
fn without_caches_all_of_a_package_and_node_share_one() {
    let all = machine(2, 1, 1, 4, 2);
    let root = tree(&all);
    for one in &all {
        std::fs::remove_dir_all(root.path().join(format!("cpu/cpu{}/cache", one.cpu))).unwrap();
    }
    assert_eq!(read(root.path()), expected(&all));
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_damage_gives_a_topology_of_no_more_cpus(
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..7usize), 1..40)
    ) {
        let all = machine(2, 1, 1, 2, 2);
        let root = tree(&all);
        let files = files(root.path());
        for (file, kind) in damage {
            let file = file.get(&files);
            let _ = std::fs::remove_file(file);
            let _ = std::fs::remove_dir(file);
            match kind {
                0 => {}
                1 => std::fs::write(file, "").unwrap(),
                2 => std::fs::write(file, "-1\n").unwrap(),
                3 => std::fs::write(file, "0-4294967295\n").unwrap(),
                4 => std::fs::write(file, b"\xff\0\xfe").unwrap(),
                5 => std::fs::write(file, vec![b'1'; 1 << 20]).unwrap(),
                _ => std::fs::create_dir(file).unwrap(),
            }
        }
        let topology = CpuTopology::read(root.path());
        prop_assert!(topology.cpus().all(|cpu| cpu < all.len()));
        let locations = topology.cpus().map(|cpu| topology.location(cpu));
        prop_assert!(locations.into_iter().all(|one| one.core < MAX_CPUS && one.cache < MAX_CPUS));
    }
}

#[test]
fn a_huge_tree_is_bounded() {
    let root = scratch_folder();
    let lists = "0-4095\n";
    for cpu in 0..64 {
        write(
            &root
                .path()
                .join(format!("cpu/cpu{cpu}/topology/thread_siblings_list")),
            lists,
        );
        write(
            &root
                .path()
                .join(format!("cpu/cpu{cpu}/cache/index0/shared_cpu_list")),
            lists,
        );
        write(&root.path().join(format!("node/node{cpu}/cpulist")), lists);
    }
    let topology = CpuTopology::read(root.path());
    assert_eq!(topology.cpus().count(), 64);
    assert!(
        topology
            .cpus()
            .all(|cpu| topology.location(cpu).core == 0 && topology.location(cpu).node == 0)
    );
}

#[test]
fn this_machine_can_be_read() {
    let machine = CpuTopology::of_machine();
    assert!(machine.cpus().all(|cpu| machine.location(cpu).core <= cpu));
}
