//! Simulates one run of a cluster, with `NAME=VALUE` parameters and results. Each line of standard input has the
//! numbers of the objects that a task reads, in order of admission.
//!
//! ```text
//! seq 0 99 | cargo run --example simulate -- hosts=2 storage_rate=50e6 object_bytes=2097152 compute_s=0.004
//! ```
//!
//! Units are seconds and bytes per second; omitted parameters cost nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;

use isochrony_placement::simulation::{ClusterModel, Workload, simulate};
use isochrony_placement::{DispatchOptions, EvictionPolicy, ObjectId, Policy};

const NO_LIMIT: f64 = 1e15;

struct Arguments(BTreeMap<String, String>);

impl Arguments {
    fn take<T: std::str::FromStr>(&mut self, name: &str, default: T) -> Result<T, Box<dyn Error>>
    where
        T::Err: std::fmt::Display,
    {
        match self.0.remove(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|error| format!("{name}={text}: {error}").into()),
        }
    }

    fn nanoseconds(&mut self, name: &str) -> Result<u64, Box<dyn Error>> {
        Ok((self.take(name, 0.0_f64)? * 1e9).round() as u64)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = BTreeMap::new();
    for argument in std::env::args().skip(1) {
        let (name, value) = argument
            .split_once('=')
            .ok_or_else(|| format!("{argument}: write NAME=VALUE"))?;
        given.insert(name.to_owned(), value.to_owned());
    }
    let mut given = Arguments(given);
    let storage_rate = given.take("storage_rate", NO_LIMIT)?;
    let slots = given.take("slots", 1)?;
    let cluster = ClusterModel {
        hosts: given.take("hosts", 1)?,
        slots,
        processors: given.take("processors", slots)?,
        cache_bytes: given.take("cache_bytes", u64::MAX >> 1)?,
        disk_rate: given.take("disk_rate", NO_LIMIT)?,
        link_rate: given.take("link_rate", NO_LIMIT)?,
        max_transfers: given.take("max_transfers", 8)?,
        storage_rate,
        storage_reader_rate: given.take("storage_reader_rate", storage_rate)?,
        storage_latency: given.nanoseconds("storage_latency_s")?,
        network_latency: given.nanoseconds("network_latency_s")?,
        decision_time: given.nanoseconds("decision_s")?,
        report_time: given.nanoseconds("report_s")?,
        shared_cores: Some(given.take("shared_cores", NO_LIMIT)?),
        passes_on: given.take("passes_on", true)?,
        always_caches: given.take("always_caches", true)?,
        eviction: EvictionPolicy::Lru,
        provision: None,
    };
    let dispatch = DispatchOptions::for_policy(given.take("policy", Policy::GoodCacheCompute)?);
    let bytes = given.take("object_bytes", 1)?;
    let compute_time = given.nanoseconds("compute_s")?;
    if let Some(name) = given.0.keys().next() {
        return Err(format!("{name}: there is no such parameter").into());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let tasks: Result<Vec<_>, _> = text
        .split_whitespace()
        .map(|object| Ok::<_, std::num::ParseIntError>(vec![ObjectId(object.parse()?)]))
        .collect();
    let workload = Workload {
        tasks: tasks?,
        stored_bytes: bytes,
        cached_bytes: bytes,
        unpack_time: 0,
        compute_time,
        interval: 0,
    };
    let report = simulate(&cluster, dispatch, &workload)?;
    println!("tasks={}", report.tasks);
    println!("makespan_s={}", report.makespan_s);
    println!("storage_bytes={}", report.bytes.storage);
    println!("peer_bytes={}", report.bytes.peer);
    println!("local_bytes={}", report.bytes.local);
    println!("hit_rate={}", report.hit_rate());
    println!("slots_busy={}", report.slots_busy);
    println!("scheduler_busy={}", report.scheduler_busy);
    Ok(())
}
