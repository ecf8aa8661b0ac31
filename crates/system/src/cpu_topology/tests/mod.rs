//! Trees of files as in sysfs.

mod topology;

use std::collections::BTreeSet;
use std::path::Path;

use tempfile::TempDir;

/// Package, node, numbers of last-level cache and core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuDescription {
    cpu: usize,
    package: usize,
    node: usize,
    cache: usize,
    core: usize,
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// In ranges, as Linux writes it.
fn list(cpus: impl Iterator<Item = usize>) -> String {
    let cpus: BTreeSet<usize> = cpus.collect();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = ranges.iter().map(|&(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",") + "\n"
}

fn scratch_folder() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).unwrap()
}

/// As `/sys/devices/system` of a machine with these CPUs.
fn tree(machine: &[CpuDescription]) -> TempDir {
    let root = scratch_folder();
    let with = |same: &dyn Fn(&CpuDescription) -> bool| {
        list(machine.iter().filter(|one| same(one)).map(|one| one.cpu))
    };
    write(&root.path().join("cpu/online"), &with(&|_| true));
    for own in machine {
        let folder = root.path().join(format!("cpu/cpu{}", own.cpu));
        let topology = folder.join("topology");
        write(
            &topology.join("physical_package_id"),
            &format!("{}\n", own.package),
        );
        write(&topology.join("core_id"), &format!("{}\n", own.core));
        let core = with(&|one| one.core == own.core);
        write(&topology.join("thread_siblings_list"), &core);
        let cache = with(&|one| one.cache == own.cache);
        let caches = [
            (1, "Data", &core),
            (1, "Instruction", &core),
            (2, "Unified", &core),
            (3, "Unified", &cache),
        ];
        for (index, (level, kind, shared)) in caches.into_iter().enumerate() {
            let folder = folder.join(format!("cache/index{index}"));
            write(&folder.join("level"), &format!("{level}\n"));
            write(&folder.join("type"), &format!("{kind}\n"));
            write(&folder.join("shared_cpu_list"), shared);
        }
        let node = with(&|one| one.node == own.node);
        write(
            &root.path().join(format!("node/node{}/cpulist", own.node)),
            &node,
        );
    }
    root
}

/// `packages` of `caches` of `cores` of `smt` siblings; a node per `caches_per_node`. Siblings have distant numbers, as
/// in Linux.
fn machine(
    packages: usize,
    caches: usize,
    caches_per_node: usize,
    cores: usize,
    smt: usize,
) -> Vec<CpuDescription> {
    let all = packages * caches * cores;
    let of = |cpu: usize| {
        let core = cpu % all;
        let cache = core / cores;
        CpuDescription {
            cpu,
            package: cache / caches,
            node: cache / caches_per_node,
            cache,
            core,
        }
    };
    (0..all * smt).map(of).collect()
}

fn hybrid() -> Vec<CpuDescription> {
    let of = |cpu: usize| {
        let core = if cpu < 8 { cpu / 2 } else { cpu - 4 };
        CpuDescription {
            cpu,
            package: 0,
            node: 0,
            cache: 0,
            core,
        }
    };
    (0..12).map(of).collect()
}
