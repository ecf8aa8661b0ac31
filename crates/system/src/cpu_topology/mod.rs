//! CPUs of a machine: which share a physical core, a last-level cache, a memory node.
//!
//! Read from Linux's sysfs. Where that is missing or malformed, as in many containers, a CPU is a core of its own, and
//! all of a package share a cache.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use self::list::{MAX_CPUS, parse_number, read_cpu_list, read_number, read_small};

mod list;
#[cfg(test)]
mod tests;

/// Folder entries examined.
const MAX_ENTRIES: usize = 2 * MAX_CPUS;
/// Caches examined per CPU; machines have 3 to 5.
const MAX_CACHES: usize = 16;

/// Where a CPU is. CPUs with an equal field share that part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuLocation {
    /// Package (socket), by the system's number.
    pub package: usize,
    /// NUMA node, by the system's number.
    pub node: usize,
    /// Last-level cache: the smallest number of a CPU that shares it.
    pub cache: usize,
    /// Physical core: the smallest number of its SMT siblings.
    pub core: usize,
}

/// The CPUs of a machine.
///
/// ```
/// use isochrony_system::cpu_topology::CpuTopology;
///
/// let machine = CpuTopology::of_machine();
/// let shares_core = |a, b| machine.location(a).core == machine.location(b).core;
/// assert!(shares_core(0, 0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuTopology {
    cpus: BTreeMap<usize, CpuLocation>,
}

struct RawCpu {
    package: usize,
    node: usize,
    cache: Option<usize>,
    core: Option<usize>,
    /// Die and core number, where there is no list.
    core_id: Option<(usize, usize)>,
}

impl CpuTopology {
    /// Reads a tree laid out as `/sys/devices/system`. Leaves out CPUs that are offline or numbered from 4096 on. Empty
    /// if unreadable.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let cpu_folder = root.join("cpu");
        let online = read_cpu_list(&cpu_folder.join("online"));
        let is_online = |cpu: &usize| online.as_ref().is_none_or(|online| online.contains(cpu));
        let node_of = read_nodes(&root.join("node"));
        let numbers = numbered_entries(&cpu_folder, "cpu").into_iter();
        let raw = numbers.filter(is_online).map(|cpu| {
            let folder = cpu_folder.join(format!("cpu{cpu}"));
            let node = node_of.get(&cpu).copied().unwrap_or(0);
            (cpu, RawCpu::read(&folder, cpu, node))
        });
        Self::of(&raw.collect())
    }

    fn of(raw: &BTreeMap<usize, RawCpu>) -> Self {
        // Ascending: the first CPU of each is the smallest.
        let (mut cores, mut caches) = (BTreeMap::new(), BTreeMap::new());
        for (&cpu, one) in raw {
            if let Some(id) = one.core_id {
                cores.entry((one.package, id)).or_insert(cpu);
            }
            caches.entry((one.package, one.node)).or_insert(cpu);
        }
        let location = |cpu: usize, one: &RawCpu| {
            let same_id = one.core_id.and_then(|id| cores.get(&(one.package, id)));
            CpuLocation {
                package: one.package,
                node: one.node,
                cache: one.cache.unwrap_or(caches[&(one.package, one.node)]),
                core: one.core.or(same_id.copied()).unwrap_or(cpu),
            }
        };
        let cpus = raw.iter().map(|(&cpu, one)| (cpu, location(cpu, one)));
        Self {
            cpus: cpus.collect(),
        }
    }

    /// Topology of this machine, read once: later CPUs count as not described.
    pub fn of_machine() -> &'static Self {
        static MACHINE: OnceLock<CpuTopology> = OnceLock::new();
        MACHINE.get_or_init(|| Self::read(Path::new("/sys/devices/system")))
    }

    /// Where a CPU is. If not described, a core of its own in node and package 0, on the cache of CPU 0.
    #[must_use]
    pub fn location(&self, cpu: usize) -> CpuLocation {
        self.cpus.get(&cpu).copied().unwrap_or(CpuLocation {
            package: 0,
            node: 0,
            cache: self.cpus.get(&0).map_or(0, |first| first.cache),
            core: cpu,
        })
    }

    /// Described CPUs, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = usize> {
        self.cpus.keys().copied()
    }
}

impl FromIterator<(usize, CpuLocation)> for CpuTopology {
    fn from_iter<I: IntoIterator<Item = (usize, CpuLocation)>>(cpus: I) -> Self {
        Self {
            cpus: cpus.into_iter().collect(),
        }
    }
}

impl RawCpu {
    fn read(folder: &Path, cpu: usize, node: usize) -> Self {
        let topology = folder.join("topology");
        let number = |name: &str| read_number(&topology.join(name));
        // Names since Linux 5.3, then the older ones.
        let siblings = ["core_cpus_list", "thread_siblings_list"].iter();
        let mut siblings = siblings.filter_map(|name| smallest_with(&topology.join(name), cpu));
        let die = number("die_id").unwrap_or(0);
        Self {
            // Virtual machines may write -1.
            package: number("physical_package_id").unwrap_or(0),
            node,
            cache: last_level_cache(&folder.join("cache"), cpu),
            core: siblings.next(),
            core_id: number("core_id").map(|core| (die, core)),
        }
    }
}

/// None if the list is invalid or lacks `cpu`.
fn smallest_with(path: &Path, cpu: usize) -> Option<usize> {
    let cpus = read_cpu_list(path).filter(|cpus| cpus.contains(&cpu))?;
    cpus.first().copied()
}

fn last_level_cache(folder: &Path, cpu: usize) -> Option<usize> {
    let mut last: Option<(usize, usize)> = None;
    for index in 0..MAX_CACHES {
        let folder = folder.join(format!("index{index}"));
        let kind = read_small(&folder.join("type"));
        if kind.is_some_and(|kind| kind.trim() == "Instruction") {
            continue;
        }
        let level = read_number(&folder.join("level"));
        let first = smallest_with(&folder.join("shared_cpu_list"), cpu);
        let cache = level.zip(first);
        if cache.is_some_and(|(level, _)| last.is_none_or(|(before, _)| level > before)) {
            last = cache;
        }
    }
    last.map(|(_, first)| first)
}

fn read_nodes(folder: &Path) -> BTreeMap<usize, usize> {
    let mut node_of = BTreeMap::new();
    for node in numbered_entries(folder, "node") {
        let cpus = read_cpu_list(&folder.join(format!("node{node}/cpulist")));
        for cpu in cpus.unwrap_or_default() {
            node_of.entry(cpu).or_insert(node);
        }
    }
    node_of
}

fn numbered_entries(folder: &Path, prefix: &str) -> BTreeSet<usize> {
    let Ok(entries) = folder.read_dir() else {
        return BTreeSet::new();
    };
    let names = entries.take(MAX_ENTRIES).filter_map(|entry| {
        let name = entry.ok()?.file_name();
        let digits = name.to_str()?.strip_prefix(prefix)?;
        parse_number(digits).filter(|&number| number < MAX_CPUS)
    });
    names.collect()
}
