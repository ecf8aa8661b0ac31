//! Plans on hosts with caches: same bits as one thread, tasks near their data, no store reads on a second run.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use crate::common::loopback::{LoopbackHost, collect_on_hosts};
use isochrony_cache::{Cache, CacheOptions};
use isochrony_flow::{
    DispatchOptions, Plan, PlanOutput, Report, RunOptions, Stat, StoredRecording,
};
use isochrony_segment::DType;
use isochrony_store::shard_cache::{ShardCache, ShardCacheCounts};
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::Rate;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

const POLICIES: [&str; 5] = [
    "first-available",
    "first-cache-available",
    "max-cache-hit",
    "max-compute-util",
    "good-cache-compute",
];

fn policy(name: &str, max_wait_ms: u64) -> DispatchOptions {
    DispatchOptions {
        max_wait: max_wait_ms * 1_000_000,
        ..DispatchOptions::for_policy(name.parse().unwrap())
    }
}

fn options(task: u64) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    options.task = task;
    options
}

fn made(folder: &Path, stretches: &[(usize, i64)]) -> Store {
    let store = Store::open(folder.join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::F32, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    let mut value = 1u32;
    for (count, gap) in stretches {
        let samples: Vec<f32> = (0..*count)
            .map(|_| {
                value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (value >> 8) as f32 / 65_536.0
            })
            .collect();
        writer.append(&samples).unwrap();
        if *gap > 0 {
            writer.append_gap(*gap).unwrap();
        }
    }
    store.commit(true).unwrap();
    store
}

fn plan_of(store: &Store, window: u64) -> Plan {
    let recording = StoredRecording::new(store.path(), store.signal("p").unwrap());
    let windows = Plan::scan(recording).rewindow(window).unwrap();
    windows.stats([Stat::Mean, Stat::Max]).unwrap()
}

struct Hosts {
    folder: TempDir,
    store: Store,
}

impl Hosts {
    fn new(stretches: &[(usize, i64)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = made(folder.path(), stretches);
        Self { folder, store }
    }

    fn begin(&self, count: usize, quota: u64, window: u64) -> Vec<LoopbackHost> {
        let begin = |host: usize| {
            let folder = self.folder.path().join(format!("cache-{host}"));
            let mut options = CacheOptions::new(quota);
            options.piece_bytes = 64 << 10;
            let cache = Cache::open(folder, options).unwrap();
            let cache = Arc::new(ShardCache::new(cache, None).unwrap());
            let store = Store::open(self.store.path(), Mode::Read).unwrap();
            store.set_shard_cache(Some(cache.clone())).unwrap();
            (vec![plan_of(&store, window)], Some(cache))
        };
        (0..count).map(begin).collect()
    }

    fn run(
        &self,
        hosts: &[LoopbackHost],
        placement: DispatchOptions,
        (window, task, slots, lost): (u64, u64, usize, u64),
    ) -> (Vec<PlanOutput>, Report) {
        let plan = [plan_of(&self.store, window)];
        let ran = collect_on_hosts(&plan, hosts, Some(placement), options(task), slots, lost);
        let (output, report, _) = ran.unwrap();
        (output, report)
    }
}

fn counts(hosts: &[LoopbackHost]) -> ShardCacheCounts {
    let all = hosts.iter().filter_map(|(_, cache)| cache.as_ref());
    all.fold(ShardCacheCounts::default(), |sum, cache| {
        sum.and(cache.counts())
    })
}

/// Samples of a chunk of 64 KiB, and of a shard of 128 chunks.
const CHUNK: usize = 16_384;
const SHARD: usize = 128 * CHUNK;

#[test]
fn a_plan_that_runs_again_reads_nothing_from_the_store() {
    let hosts = Hosts::new(&[(5 * SHARD + 40 * CHUNK, 0)]);
    let total = (5 * SHARD as u64 + 40 * CHUNK as u64) * 4;
    let (one, _) = Plan::collect_all(&[plan_of(&hosts.store, 1024)], &options(0)).unwrap();
    let shape = (1024, CHUNK as u64 * 8, 4, 0);
    let mut begun = hosts.begin(2, 256 << 20, 1024);
    let (many, report) = hosts.run(&begun, policy("max-cache-hit", 60_000), shape);
    assert_eq!(many, one);
    let first = counts(&begun);
    assert!(
        first.storage_bytes >= total && first.storage_bytes < total + total / 20,
        "{first:?}"
    );
    let told = report.workers.iter().filter_map(|worker| worker.cache);
    let told = told.fold(ShardCacheCounts::default(), ShardCacheCounts::and);
    assert_eq!(told, first);
    // In the same processes, and in new ones, which cannot ask each other.
    for _ in 0..2 {
        let before = counts(&begun);
        let (many, _) = hosts.run(&begun, policy("max-cache-hit", 60_000), shape);
        assert_eq!(many, one);
        let read = counts(&begun).storage_bytes - before.storage_bytes;
        assert!(read * 20 <= total, "{read} of {total}");
        begun = hosts.begin(2, 256 << 20, 1024);
    }
}

#[test]
fn tasks_go_to_the_host_that_has_their_shards() {
    let hosts = Hosts::new(&[(4 * SHARD, 0)]);
    let (one, _) = Plan::collect_all(&[plan_of(&hosts.store, 1024)], &options(0)).unwrap();
    let shape = (1024, CHUNK as u64 * 16, 4, 0);
    let warm = hosts.begin(2, 256 << 20, 1024);
    hosts.run(
        &warm[1..],
        policy("max-cache-hit", 60_000),
        (1024, CHUNK as u64 * 16, 1, 0),
    );
    drop(warm);
    let begun = hosts.begin(2, 256 << 20, 1024);
    let (many, report) = hosts.run(&begun, policy("max-cache-hit", 60_000), shape);
    assert_eq!(many, one);
    assert_eq!(counts(&begun).storage_bytes, 0, "{:?}", report.workers);
    let idle = begun[0].1.as_ref().unwrap().counts();
    assert_eq!(idle, ShardCacheCounts::default());
}

#[test]
fn plans_have_the_bits_of_one_thread_whatever_caches_and_policies_there_are() {
    let given = (
        prop::collection::vec((1usize..3 * CHUNK, 0i64..40_000), 1..6),
        (1u64..2_000, 2_000u64..60_000),
        (1usize..4, 1usize..5, 0u64..6),
        (prop::sample::select(&POLICIES[..]), 0u64..20),
        prop::sample::select(&[400_000u64, 64 << 20][..]),
    );
    let on_slots = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(120));
    let ran = runner.run(
        &given,
        |(stretches, (window, task), (count, slots, lost), (name, wait), quota)| {
            let hosts = Hosts::new(&stretches);
            let (one, _) =
                Plan::collect_all(&[plan_of(&hosts.store, window)], &options(task)).unwrap();
            let lost = if lost == 1 { 0 } else { lost };
            let shape = (window, task, slots, lost);
            for _ in 0..2 {
                let begun = hosts.begin(count, quota, window);
                let (many, report) = hosts.run(&begun, policy(name, wait), shape);
                prop_assert_eq!(&many, &one);
                prop_assert_eq!(counts(&begun).rejected, 0);
                on_slots.set(on_slots.get() + u32::from(report.tasks.len() > 1));
            }
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(on_slots.get() > 60, "{}", on_slots.get());
}
