//! Gives each stage a home, threads that share a last-level cache, so that few bytes cross between caches. Pure.
//!
//! A thread takes ready stages of its home first.
//!
//! Stages are divided among NUMA nodes, then those of a node among its caches. An order of the stages is cut into a run
//! for each group so that most bytes stay inside runs, by dynamic programming (optimal for that order). Then stages are
//! moved or swapped while fewer bytes cross. The better of two orders counts: that of the plan, and one in which the
//! stage with the strongest link to those before it comes next, which keeps channels together. Each group gets its
//! share of the weight, up to the heaviest stage (see `divide`). `n` stages (at most 64) and `g` groups take `O(g n³)`
//! steps, and as many for each of at most `n` rounds of improvement; a few milliseconds.

use std::cmp::Reverse;

use isochrony_runtime::CpuLocation;

use super::stage_queue::StageSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
}

pub(super) struct StagesToPlace<'a> {
    /// Work of each stage, at least 1.
    pub(super) weights: &'a [u64],
    pub(super) transfers: &'a [Transfer],
    /// Executed only by the caller's thread, thread 0.
    pub(super) callers: StageSet,
}

impl StagesToPlace<'_> {
    /// Empty sets if all threads share a cache.
    pub(super) fn homes(&self, threads: &[CpuLocation]) -> Vec<StageSet> {
        let mut homes = vec![0; threads.len()];
        let (of_node, nodes) = groups(threads.iter().map(|one| one.node));
        let (_, caches) = groups(threads.iter().map(|one| (one.node, one.cache)));
        if caches.len() < 2 {
            return homes;
        }
        let all: Vec<usize> = (0..self.weights.len()).collect();
        let node_of_stage = self.divide(&all, &nodes, true);
        for node in 0..nodes.len() {
            let inside: Vec<usize> = (0..threads.len())
                .filter(|&at| of_node[at] == node)
                .collect();
            let (of_cache, caches) = groups(inside.iter().map(|&at| threads[at].cache));
            let stages = all.iter().copied();
            let stages: Vec<usize> = stages
                .filter(|&stage| node_of_stage[stage] == node)
                .collect();
            // The caller's is the first: groups are numbered by their first thread.
            let cache_of_stage = self.divide(&stages, &caches, node == 0);
            for (&thread, cache) in inside.iter().zip(of_cache) {
                let own = stages.iter().zip(&cache_of_stage);
                let own = own.filter(|&(_, &of)| of == cache);
                homes[thread] = own.fold(0, |set, (&stage, _)| set | 1 << stage);
            }
        }
        homes
    }

    /// Divides stages among groups of so many threads each; returns the group of each. The caller's are in group 0 if
    /// `with_caller`.
    ///
    /// A group's weight exceeds its share by at most half the heaviest stage where runs of the order allow it, else by
    /// at most the heaviest. That is always possible: fill one group after the other up to its share. Group 0 exceeds
    /// it only if the caller's own stages do.
    fn divide(&self, stages: &[usize], threads: &[usize], with_caller: bool) -> Vec<usize> {
        let mut best: Option<(u64, Vec<usize>)> = None;
        for order in [Order::Plan, Order::StrongestLink] {
            let mut division = Division::new(self, stages, threads, with_caller, order);
            let heaviest = division.weights.iter().copied().max().unwrap_or(0);
            if !division.divide_in_order(heaviest / 2) {
                division.divide_in_order(heaviest);
            }
            division.improve();
            let crossing = division.crossing();
            if best.as_ref().is_none_or(|&(least, _)| crossing < least) {
                best = Some((crossing, division.group_of));
            }
        }
        best.map_or_else(Vec::new, |(_, group_of)| group_of)
    }
}

fn groups<K: PartialEq>(keys: impl Iterator<Item = K>) -> (Vec<usize>, Vec<usize>) {
    let (mut of, mut known, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        let group = known.iter().position(|one| *one == key);
        let group = group.unwrap_or_else(|| {
            known.push(key);
            sizes.push(0);
            sizes.len() - 1
        });
        sizes[group] += 1;
        of.push(group);
    }
    (of, sizes)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// From the end of the plan.
    Plan,
    /// As a maximum spanning tree grows: next is the strongest link.
    StrongestLink,
}

struct Division {
    weights: Vec<u64>,
    bytes: Vec<Vec<u64>>,
    is_fixed: Vec<bool>,
    /// Stages that are not fixed, in the order of division.
    free: Vec<usize>,
    shares: Vec<u64>,
    limits: Vec<u64>,
    group_of: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Quality {
    inside: u64,
    /// Sum of squared weights by shares: least in proportion to shares.
    evenness: Reverse<u128>,
}

/// Keeps quotients of small integers apart.
const UNEVENNESS_SCALE: u128 = 1 << 20;

impl Division {
    fn new(
        plan: &StagesToPlace<'_>,
        stages: &[usize],
        threads: &[usize],
        with_caller: bool,
        order: Order,
    ) -> Self {
        let count = stages.len();
        let mut bytes = vec![vec![0u64; count]; count];
        let place = |stage: usize| stages.iter().position(|&one| one == stage);
        for one in plan.transfers {
            if let (Some(from), Some(to)) = (place(one.from), place(one.to)) {
                for (from, to) in [(from, to), (to, from)] {
                    bytes[from][to] = bytes[from][to].saturating_add(one.bytes);
                }
            }
        }
        let weights: Vec<u64> = stages.iter().map(|&stage| plan.weights[stage]).collect();
        let total: u64 = weights.iter().sum();
        let all = threads.iter().sum::<usize>().max(1) as u64;
        let share = |&threads: &usize| (total * threads as u64).div_ceil(all);
        let is_fixed = stages.iter();
        let is_fixed = is_fixed.map(|&stage| with_caller && plan.callers >> stage & 1 == 1);
        let mut division = Self {
            weights,
            bytes,
            is_fixed: is_fixed.collect(),
            free: Vec::new(),
            shares: threads.iter().map(share).collect(),
            limits: Vec::new(),
            group_of: vec![0; count],
        };
        division.free = match order {
            Order::Plan => (0..count)
                .rev()
                .filter(|&at| !division.is_fixed[at])
                .collect(),
            Order::StrongestLink => division.by_strongest_link(),
        };
        division
    }

    fn by_strongest_link(&self) -> Vec<usize> {
        let count = self.weights.len();
        let mut is_placed = self.is_fixed.clone();
        let mut order = Vec::with_capacity(count);
        let mut strongest: Vec<u64> = vec![0; count];
        let note = |strongest: &mut Vec<u64>, placed: usize| {
            let links = strongest.iter_mut().zip(&self.bytes[placed]);
            links.for_each(|(most, &bytes)| *most = (*most).max(bytes));
        };
        let fixed = (0..count).filter(|&at| self.is_fixed[at]);
        fixed.for_each(|at| note(&mut strongest, at));
        let next = |strongest: &[u64], is_placed: &[bool]| {
            let open = (0..count).filter(|&at| !is_placed[at]);
            open.max_by_key(|&at| (strongest[at], at))
        };
        while let Some(stage) = next(&strongest, &is_placed) {
            is_placed[stage] = true;
            order.push(stage);
            note(&mut strongest, stage);
        }
        order
    }

    fn crossing(&self) -> u64 {
        let count = self.weights.len();
        let pairs = (0..count).flat_map(|one| (0..one).map(move |other| (one, other)));
        let crossing = pairs.filter(|&(one, other)| self.group_of[one] != self.group_of[other]);
        let bytes = crossing.map(|(one, other)| self.bytes[one][other]);
        bytes.fold(0, u64::saturating_add)
    }

    /// Divides the order so that most bytes stay inside a group; of equals, weights are most even. False if a share
    /// must be exceeded by more than `slack`.
    fn divide_in_order(&mut self, slack: u64) -> bool {
        let free = &self.free;
        let fixed: Vec<usize> = (0..self.weights.len())
            .filter(|&at| self.is_fixed[at])
            .collect();
        let fixed_weight: u64 = fixed.iter().map(|&at| self.weights[at]).sum();
        self.limits = self.shares.iter().map(|share| share + slack).collect();
        // For the first stages of `free` in the groups so far: best quality, and start of its last group.
        let mut best: Vec<Vec<Option<(Quality, usize)>>> = vec![vec![None; free.len() + 1]];
        best[0][0] = Some((Quality::default(), 0));
        for group in 0..self.limits.len() {
            let mut next = vec![None; free.len() + 1];
            for begin in 0..=free.len() {
                let Some((before, _)) = best[group][begin] else {
                    continue;
                };
                let mut weight = if group == 0 { fixed_weight } else { 0 };
                let mut inside = before.inside;
                for end in begin..=free.len() {
                    if end > begin {
                        let stage = free[end - 1];
                        weight += self.weights[stage];
                        if weight > self.limits[group] {
                            break;
                        }
                        let with = free[begin..end].iter();
                        let with = with.chain(fixed.iter().filter(|_| group == 0));
                        let more = with.map(|&other| self.bytes[stage][other]);
                        inside = more.fold(inside, u64::saturating_add);
                    }
                    let share = u128::from(self.shares[group].max(1));
                    let unevenness = u128::from(weight).pow(2) * UNEVENNESS_SCALE / share;
                    let quality = Quality {
                        inside,
                        evenness: Reverse(before.evenness.0 + unevenness),
                    };
                    if next[end].is_none_or(|(found, _)| found < quality) {
                        next[end] = Some((quality, begin));
                    }
                }
            }
            best.push(next);
        }
        let mut end = free.len();
        if best[self.limits.len()][end].is_none() {
            return false;
        }
        for group in (0..self.limits.len()).rev() {
            let Some((_, begin)) = best[group + 1][end] else {
                return false;
            };
            free[begin..end]
                .iter()
                .for_each(|&stage| self.group_of[stage] = group);
            end = begin;
        }
        true
    }

    fn improve(&mut self) {
        let count = self.weights.len();
        let mut loads = vec![0u64; self.limits.len()];
        for (stage, &group) in self.group_of.iter().enumerate() {
            loads[group] += self.weights[stage];
        }
        // Terminates, since each change reduces the bytes.
        for _ in 0..count {
            let mut is_changed = false;
            for stage in (0..count).filter(|&stage| !self.is_fixed[stage]) {
                let from = self.group_of[stage];
                let own = self.weights[stage];
                let fits = |group: usize, load: u64| load <= self.limits[group];
                let moves = (0..loads.len()).filter(|&to| to != from && fits(to, loads[to] + own));
                let moves = moves.map(|to| (self.gain(stage, to), to, None));
                let swaps = (0..count).filter(|&other| {
                    let (to, weight) = (self.group_of[other], self.weights[other]);
                    to != from
                        && !self.is_fixed[other]
                        && fits(to, loads[to] + own - weight)
                        && fits(from, loads[from] + weight - own)
                });
                let swaps = swaps.map(|other| {
                    let to = self.group_of[other];
                    let both = self.gain(stage, to) + self.gain(other, from);
                    // What one passes to the other crosses before and after.
                    (
                        both - 2 * i128::from(self.bytes[stage][other]),
                        to,
                        Some(other),
                    )
                });
                let best = moves
                    .chain(swaps)
                    .max_by_key(|&(gain, to, other)| (gain, Reverse((to, other))));
                let Some((gain, to, other)) = best else {
                    continue;
                };
                if gain > 0 {
                    is_changed = true;
                    for (stage, to) in [(Some(stage), to), (other, from)] {
                        let Some(stage) = stage else {
                            continue;
                        };
                        loads[self.group_of[stage]] -= self.weights[stage];
                        loads[to] += self.weights[stage];
                        self.group_of[stage] = to;
                    }
                }
            }
            if !is_changed {
                return;
            }
        }
    }

    fn gain(&self, stage: usize, to: usize) -> i128 {
        let from = self.group_of[stage];
        let others = self.bytes[stage].iter().zip(&self.group_of);
        let gains = others.map(|(&bytes, &group)| match group {
            _ if group == to => i128::from(bytes),
            _ if group == from => -i128::from(bytes),
            _ => 0,
        });
        gains.sum()
    }
}

#[cfg(test)]
mod tests;
