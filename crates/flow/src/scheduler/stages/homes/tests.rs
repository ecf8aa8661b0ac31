//! Homes of stages on described machines.

use super::*;

fn machine(nodes: usize, caches: usize, cores: usize) -> Vec<CpuLocation> {
    let of = |core: usize| {
        let cache = core / cores;
        CpuLocation {
            package: 0,
            node: cache / caches,
            cache: cache * cores,
            core,
        }
    };
    (0..nodes * caches * cores).map(of).collect()
}

/// Two sockets, an AMD-like machine with two caches a node, eight chiplets.
fn machines() -> [Vec<CpuLocation>; 4] {
    [
        machine(2, 1, 2),
        machine(2, 1, 8),
        machine(2, 2, 4),
        machine(1, 8, 2),
    ]
}

struct TestPlan {
    weights: Vec<u64>,
    transfers: Vec<Transfer>,
}

impl TestPlan {
    fn stages(&self) -> StagesToPlace<'_> {
        StagesToPlace {
            weights: &self.weights,
            transfers: &self.transfers,
            callers: 1 << (self.weights.len() - 1),
        }
    }

    fn row(bytes: &[u64]) -> Self {
        let transfers = bytes.iter().enumerate();
        let transfers = transfers.map(|(from, &bytes)| Transfer {
            from,
            to: from + 1,
            bytes,
        });
        Self {
            weights: vec![1; bytes.len() + 1],
            transfers: transfers.collect(),
        }
    }

    /// Channels of three stages each, and one that gathers them. `turn`: stages of channels alternate in plan order.
    fn channels(count: usize, turn: bool) -> Self {
        let at = |channel: usize, step: usize| match turn {
            true => step * count + channel,
            false => channel * 3 + step,
        };
        let mut transfers = Vec::new();
        for channel in 0..count {
            for (step, bytes) in [(0, 8000), (1, 4000)] {
                transfers.push(Transfer {
                    from: at(channel, step),
                    to: at(channel, step + 1),
                    bytes,
                });
            }
            transfers.push(Transfer {
                from: at(channel, 2),
                to: 3 * count,
                bytes: 10,
            });
        }
        Self {
            weights: vec![64; 3 * count + 1],
            transfers,
        }
    }

    fn replicas(count: usize) -> Self {
        let last = count + 2;
        let mut weights = vec![64; last + 1];
        weights[1..=count].fill(64 * 3 / count as u64);
        let mut transfers = vec![Transfer {
            from: last - 1,
            to: last,
            bytes: 100,
        }];
        for replica in 1..=count {
            transfers.push(Transfer {
                from: 0,
                to: replica,
                bytes: 8000 / count as u64,
            });
            transfers.push(Transfer {
                from: replica,
                to: last - 1,
                bytes: 800 / count as u64,
            });
        }
        Self { weights, transfers }
    }

    fn all() -> Vec<Self> {
        vec![
            Self::row(&[8, 8, 4, 4, 1, 1, 2]),
            Self::row(&[100; 30]),
            Self::channels(4, false),
            Self::channels(8, true),
            Self::channels(16, true),
            Self::channels(20, false),
            Self::replicas(4),
            Self::replicas(15),
        ]
    }
}

fn cache_of(homes: &[StageSet], threads: &[CpuLocation], stages: usize) -> Vec<usize> {
    let of = |stage: usize| {
        let at_home = homes
            .iter()
            .zip(threads)
            .filter(|(home, _)| *home >> stage & 1 == 1);
        let caches: std::collections::BTreeSet<usize> = at_home.map(|(_, one)| one.cache).collect();
        assert_eq!(caches.len(), 1, "stage {stage}");
        *caches.first().unwrap()
    };
    (0..stages).map(of).collect()
}

fn crossing(transfers: &[Transfer], cache_of: &[usize]) -> u64 {
    let crossing = transfers
        .iter()
        .filter(|one| cache_of[one.from] != cache_of[one.to]);
    crossing.map(|one| one.bytes).sum()
}

fn random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*state >> 33) as usize
}

#[test]
fn fewer_bytes_cross_than_by_turns_or_at_random() {
    for threads in machines() {
        for plan in TestPlan::all() {
            let count = plan.weights.len();
            let threads = &threads[..threads.len().min(count)];
            let homes = plan.stages().homes(threads);
            if threads.iter().all(|one| one.cache == threads[0].cache) {
                continue;
            }
            let ours = crossing(&plan.transfers, &cache_of(&homes, threads, count));
            let (_, sizes) = groups(threads.iter().map(|one| one.cache));
            // The caller's stage is on cache 0 in any case.
            let in_turn = (0..count).map(|stage| (count - 1 - stage) % sizes.len());
            let mut drawn_caches: Vec<usize> = in_turn.collect();
            let in_turn = crossing(&plan.transfers, &drawn_caches);
            assert!(ours <= in_turn, "{ours} bytes cross, by turns {in_turn}");
            let mut state = 7;
            let mut drawn: Vec<u64> = Vec::new();
            for _ in 0..101 {
                for at in 1..count - 1 {
                    drawn_caches.swap(at, random(&mut state) % (at + 1));
                }
                drawn.push(crossing(&plan.transfers, &drawn_caches));
            }
            drawn.sort_unstable();
            println!(
                "{count} stages, {} threads: {ours} bytes cross; by turns {in_turn}, random median {}",
                threads.len(),
                drawn[50]
            );
            assert!(
                ours <= drawn[50],
                "{ours} bytes cross, at random {}",
                drawn[50]
            );
        }
    }
}

#[test]
fn channels_stay_on_one_cache_each() {
    for turn in [false, true] {
        for count in [4, 8, 16] {
            for threads in [machine(2, 1, 8), machine(2, 2, 4)] {
                let plan = TestPlan::channels(count, turn);
                let homes = plan.stages().homes(&threads);
                let cache_of = cache_of(&homes, &threads, plan.weights.len());
                let crosses = crossing(&plan.transfers, &cache_of);
                assert!(
                    crosses <= 10 * count as u64,
                    "{count} channels, {turn}: {crosses} bytes cross"
                );
            }
        }
    }
}

#[test]
fn a_row_is_cut_at_its_narrowest_links() {
    let plan = TestPlan::row(&[8, 8, 8, 1, 8, 8, 8]);
    let homes = plan.stages().homes(&machine(2, 1, 2));
    assert_eq!(homes, [0b1111_0000, 0b1111_0000, 0b0000_1111, 0b0000_1111]);
}

#[test]
fn nodes_are_divided_before_their_caches() {
    let plan = TestPlan::row(&[9, 5, 9, 1, 9, 5, 9]);
    let homes = plan.stages().homes(&machine(2, 2, 1));
    assert_eq!(homes, [0b1100_0000, 0b0011_0000, 0b0000_1100, 0b0000_0011]);
}

#[test]
fn stages_of_the_caller_are_at_home_with_it() {
    let mut plan = TestPlan::row(&[1, 100, 1, 1]);
    plan.weights = vec![1; 5];
    let stages = StagesToPlace {
        callers: 0b10001,
        ..plan.stages()
    };
    let homes = stages.homes(&machine(2, 1, 1));
    assert_eq!(homes[0] & 0b10001, 0b10001);
    assert_eq!(homes[0] | homes[1], 0b11111);
}

#[test]
fn on_one_cache_no_thread_prefers_anything() {
    let plan = TestPlan::channels(8, false);
    assert_eq!(plan.stages().homes(&machine(1, 1, 4)), [0; 4]);
    assert_eq!(plan.stages().homes(&machine(1, 1, 1)), [0]);
}

#[test]
fn equal_stages_that_pass_nothing_are_divided_evenly() {
    for stages in 2..40usize {
        let plan = TestPlan {
            weights: vec![64; stages],
            transfers: Vec::new(),
        };
        let homes = plan.stages().homes(&machine(1, 8, 1));
        let counts: Vec<u32> = homes.iter().map(|home| home.count_ones()).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 1, "{stages} stages: {counts:?}");
    }
}

fn optimum(plan: &TestPlan, groups: usize, limits: &[u64]) -> Option<u64> {
    let count = plan.weights.len();
    let mut best = None;
    for code in 0..groups.pow(count as u32 - 1) {
        let digit = |stage: usize| code / groups.pow(stage as u32) % groups;
        let of: Vec<usize> = (0..count - 1).map(digit).chain([0]).collect();
        let load = |group: usize| -> u64 {
            let own = (0..count).filter(|&stage| of[stage] == group);
            own.map(|stage| plan.weights[stage]).sum()
        };
        if (0..groups).all(|group| load(group) <= limits[group]) {
            let crosses = crossing(&plan.transfers, &of);
            best = Some(best.map_or(crosses, |best: u64| best.min(crosses)));
        }
    }
    best
}

fn drawn(state: &mut u64) -> TestPlan {
    let count = 2 + random(state) % 7;
    let bytes: Vec<u64> = (1..count).map(|_| 1 + random(state) as u64 % 99).collect();
    let mut plan = TestPlan::row(&bytes);
    plan.weights = (0..count).map(|_| 1 + random(state) as u64 % 8).collect();
    for _ in 0..random(state) % 8 {
        let (from, to) = (random(state) % count, random(state) % count);
        if from < to {
            let bytes = 1 + random(state) as u64 % 99;
            plan.transfers.push(Transfer { from, to, bytes });
        }
    }
    plan
}

#[test]
fn few_more_bytes_cross_than_at_best() {
    let (mut ours, mut least, mut state) = (0, 0, 3);
    for _ in 0..300 {
        let plan = drawn(&mut state);
        let groups = 2 + random(&mut state) % 2;
        let threads: Vec<usize> = (0..groups).map(|_| 1 + random(&mut state) % 3).collect();
        let all: Vec<usize> = (0..plan.weights.len()).collect();
        let stages = plan.stages();
        let of = stages.divide(&all, &threads, true);
        let mut division = Division::new(&stages, &all, &threads, true, Order::Plan);
        let heaviest = plan.weights.iter().copied().max().unwrap();
        if !division.divide_in_order(heaviest / 2) {
            assert!(division.divide_in_order(heaviest));
        }
        let in_order = crossing(&plan.transfers, &division.group_of);
        let got = crossing(&plan.transfers, &of);
        assert!(got <= in_order);
        for (group, &share) in division.shares.iter().enumerate() {
            let own = (0..all.len()).filter(|&stage| of[stage] == group);
            let load: u64 = own.map(|stage| plan.weights[stage]).sum();
            let own_of_caller = if group == 0 {
                *plan.weights.last().unwrap()
            } else {
                0
            };
            assert!(load <= (share + heaviest).max(own_of_caller));
        }
        assert_eq!(of[all.len() - 1], 0);
        ours += got;
        let mut limits = division.limits.clone();
        limits[0] = limits[0].max(*plan.weights.last().unwrap());
        least += optimum(&plan, groups, &limits).unwrap();
    }
    println!("{ours} bytes cross, at best {least}");
    assert!(
        ours * 10 <= least * 11,
        "{ours} bytes cross, at best {least}"
    );
}

#[test]
fn the_most_stages_and_caches_take_little_time() {
    let mut state = 1;
    let mut plan = TestPlan::row(&[5; 63]);
    for _ in 0..500 {
        let (from, to) = (random(&mut state) % 64, random(&mut state) % 64);
        if from < to {
            let bytes = random(&mut state) as u64 % 1000;
            plan.transfers.push(Transfer { from, to, bytes });
        }
    }
    let begun = std::time::Instant::now();
    let homes = plan.stages().homes(&machine(2, 16, 2));
    let elapsed = begun.elapsed();
    println!("{elapsed:?} for 64 stages and 32 caches");
    assert_eq!(homes.iter().fold(0, |all, home| all | home), u64::MAX);
    assert!(elapsed < std::time::Duration::from_secs(5), "{elapsed:?}");
}
