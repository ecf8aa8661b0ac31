//! Configurations worth a trial, best first.

use crate::{Configuration, ConfigurationLimits};

use super::ControllerOptions;
use super::stage_costs::StageCosts;
use super::trial::Gain;

pub(super) struct Candidate {
    pub(super) configuration: Configuration,
    pub(super) kind: CandidateKind,
    /// The model's gain, also a loss; None where it says nothing.
    model_gain: Option<f64>,
    /// The same, corrected by earlier trials.
    pub(super) corrected_gain: Option<f64>,
    /// The same of a trusted model, if it is worth a change.
    pub(super) predicted_gain: Option<f64>,
    pub(super) reason: String,
    pub(super) alternatives: Vec<(Configuration, Option<f64>)>,
    /// Trials of it before this one, since the load last changed.
    pub(super) repeats: u8,
}

/// Predictions of one kind err alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CandidateKind {
    Threads,
    Replicas,
    Links,
    TaskSize,
    BatchSize,
    Back,
}

impl CandidateKind {
    /// Whether the model predicts gains of such changes.
    fn is_predicted(self) -> bool {
        matches!(self, Self::Threads | Self::Replicas)
    }
}

impl Candidate {
    /// An earlier configuration, of which the model says nothing.
    pub(super) fn back_to(configuration: Configuration, reason: &str) -> Self {
        Self {
            configuration,
            kind: CandidateKind::Back,
            model_gain: None,
            corrected_gain: None,
            predicted_gain: None,
            reason: reason.into(),
            alternatives: Vec::new(),
            repeats: 0,
        }
    }

    /// The model's gain, if it is so large that a trial without gain may be due to other programs on the machine.
    pub(super) fn large_gain(&self) -> Option<f64> {
        self.model_gain.filter(|&gain| gain >= LARGE_GAIN)
    }

    /// The corrected gain; None for losses and below `min_gain`.
    pub(super) fn promised_gain(&self, min_gain: f64) -> Option<f64> {
        self.corrected_gain
            .filter(|&gain| gain > 0.0 && gain >= min_gain)
    }

    #[cfg(test)]
    pub(super) fn with_gain(configuration: Configuration, gain: f64) -> Self {
        Self {
            corrected_gain: Some(gain),
            ..Self::back_to(configuration, "a test")
        }
    }
}

/// Measured over predicted gains, by kind.
#[derive(Default)]
pub(super) struct Corrections {
    threads: Correction,
    replicas: Correction,
}

#[derive(Clone, Copy)]
struct Correction(f64);

impl Default for Correction {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Corrections {
    /// A prediction weighs half as much as all before it.
    pub(super) fn learn(&mut self, candidate: &Candidate, gain: Gain) {
        let predicted = candidate.model_gain.map(f64::ln_1p);
        let Some(predicted) = predicted.filter(|&gain| gain > 0.0) else {
            return;
        };
        let part = (gain.mean.ln_1p() / predicted).clamp(0.0, 1.5);
        if let Some(correction) = self.of(candidate.kind) {
            correction.0 = (correction.0 + part) / 2.0;
        }
    }

    fn of(&mut self, kind: CandidateKind) -> Option<&mut Correction> {
        match kind {
            CandidateKind::Threads => Some(&mut self.threads),
            CandidateKind::Replicas => Some(&mut self.replicas),
            _ => None,
        }
    }

    fn corrected(&self, kind: CandidateKind, gain: f64) -> f64 {
        let part = match kind {
            CandidateKind::Threads => self.threads.0,
            CandidateKind::Replicas => self.replicas.0,
            _ => 1.0,
        };
        (part * gain.ln_1p()).exp_m1()
    }
}

/// Other programs take a whole core of few.
const LARGE_GAIN: f64 = 0.2;
/// Share of waiting time from which a larger link may help.
const MIN_OUTPUT_WAIT: f64 = 0.05;
/// Items that a link needs: the writer makes one while the reader consumes another. A single thread gains nothing.
const LINK_ITEMS: f64 = 2.0;
/// Between task sizes that are tried.
const TASK_FACTOR: u64 = 2;
/// Between numbers of tasks of a message: there are few steps to the most.
const BATCH_FACTOR: usize = 4;
/// A trial cannot tell sizes apart that are closer.
const MIN_TASK_FACTOR: f64 = 1.5;
/// Leaves replicas free in each stage, since service times vary.
const REPLICA_UTILIZATION: f64 = 0.9;

/// None if it is `kept`.
pub(super) fn model_optimum(
    costs: &StageCosts,
    kept: &Configuration,
    limits: &ConfigurationLimits,
    options: &ControllerOptions,
) -> Option<Candidate> {
    let mut proposals = Proposals {
        costs,
        kept,
        limits,
        cores: options.cores,
        latency_s: options.latency_s,
        corrections: &Corrections::default(),
        all: Vec::new(),
    };
    proposals.model_optimum();
    proposals.all.pop()
}

struct Proposals<'a> {
    costs: &'a StageCosts,
    kept: &'a Configuration,
    limits: &'a ConfigurationLimits,
    cores: usize,
    latency_s: Option<f64>,
    corrections: &'a Corrections,
    all: Vec<Candidate>,
}

/// Without a trusted model: steps around `kept`, in the order of their likeliest gains. `default`: of a run that is not
/// tuned; first among equals, since its parts are known to suit each other.
pub(super) fn candidates(
    costs: &StageCosts,
    kept: &Configuration,
    default: Option<&Configuration>,
    limits: &ConfigurationLimits,
    options: &ControllerOptions,
    corrections: &Corrections,
    trusts_model: bool,
) -> Vec<Candidate> {
    let mut proposals = Proposals {
        costs,
        kept,
        limits,
        cores: options.cores,
        latency_s: options.latency_s,
        corrections,
        all: Vec::new(),
    };
    if costs.keeps_up {
        proposals.fewer_threads();
        proposals.fewer_replicas();
        return proposals.all;
    }
    if let Some(default) = default {
        proposals.run_default(default);
    }
    match trusts_model {
        true => {
            proposals.model_optimum();
            proposals.one_more();
        }
        false => {
            proposals.more_threads();
            proposals.busiest_stage();
        }
    }
    // The model does not see these: likeliest gain first.
    proposals.most_replicas();
    proposals.links_of_few_items();
    proposals.links_that_block();
    proposals.batch_sizes();
    proposals.task_sizes();
    proposals.fewer_threads();
    proposals.all_links();
    let mut all = proposals.all;
    for candidate in &mut all {
        let gain = candidate.promised_gain(options.min_gain);
        candidate.predicted_gain = gain.filter(|_| trusts_model);
    }
    // Stable: candidates without a prediction keep their order.
    let gain = |one: &Candidate| one.predicted_gain.unwrap_or(0.0);
    all.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
    all
}

impl Proposals<'_> {
    fn propose(&mut self, configuration: Configuration, kind: CandidateKind, reason: String) {
        let known = |one: &Candidate| one.configuration == configuration;
        if configuration == *self.kept || self.all.iter().any(known) {
            return;
        }
        let predict = |one: &Configuration| self.costs.predict(one, self.cores);
        let model_gain = predict(&configuration)
            .zip(predict(self.kept))
            .map(|(then, now)| then / now - 1.0)
            .filter(|_| kind.is_predicted());
        self.all.push(Candidate {
            configuration,
            kind,
            model_gain,
            corrected_gain: model_gain.map(|gain| self.corrections.corrected(kind, gain)),
            predicted_gain: None,
            reason,
            alternatives: Vec::new(),
            repeats: 0,
        });
    }

    fn run_default(&mut self, default: &Configuration) {
        let kind = if default.workers != self.kept.workers {
            CandidateKind::Threads
        } else if default.replicas != self.kept.replicas {
            CandidateKind::Replicas
        } else {
            CandidateKind::Links
        };
        let reason = "a run that is not tuned has it".into();
        self.propose(default.clone(), kind, reason);
    }

    fn model_optimum(&mut self) {
        let largest = Configuration {
            workers: self.limits.workers,
            replicas: self.limits.replicas.clone(),
            link_bytes: self.kept.link_bytes.clone(),
            task_bytes: self.kept.task_bytes,
            batch_tasks: self.kept.batch_tasks,
        };
        let Some(rate) = self.costs.predict(&largest, self.cores) else {
            return;
        };
        let mut best = largest;
        let threads = best.workers.min(self.cores.max(1));
        let reaches = |configuration: &Configuration| {
            let predicted = self.costs.predict(configuration, self.cores);
            predicted.is_some_and(|one| one >= 0.999 * rate)
        };
        // Bisection: predicted throughput rises with threads.
        let (mut least, mut most) = (self.limits.min_workers.min(threads), threads);
        while least < most {
            best.workers = least.midpoint(most);
            match reaches(&best) {
                true => most = best.workers,
                false => least = best.workers + 1,
            }
        }
        best.workers = least;
        let stages = self.costs.seconds_per_sample.iter();
        for ((replicas, seconds), &kept) in best
            .replicas
            .iter_mut()
            .zip(stages)
            .zip(&self.kept.replicas)
        {
            let needed = (rate * seconds / REPLICA_UTILIZATION).ceil();
            *replicas = (needed as usize).max(kept).clamp(1, *replicas);
        }
        let links = self.hold_items(&mut best, LINK_ITEMS);
        let reason = format!(
            "the model predicts {rate:.4e} samples/s{links}, the most within the limits, {} now",
            self.costs
                .predict(self.kept, self.cores)
                .map_or("none".into(), |rate| format!("{rate:.4e}"))
        );
        let kind = match best.workers == self.kept.workers {
            true => CandidateKind::Replicas,
            false => CandidateKind::Threads,
        };
        self.propose(best, kind, reason);
    }

    /// Twice as many first: there are few steps to the most.
    fn more_threads(&mut self) {
        let workers = self.kept.workers;
        let most = self.limits.workers.min(self.cores.max(1));
        for (more, reason) in [
            (most.min(2 * workers), "twice as many threads"),
            (workers + 1, "one more thread"),
        ] {
            if more > workers && more <= most {
                let mut configuration = Configuration {
                    workers: more,
                    ..self.kept.clone()
                };
                let links = self.hold_items(&mut configuration, LINK_ITEMS);
                self.propose(
                    configuration,
                    CandidateKind::Threads,
                    format!("{reason}{links}"),
                );
            }
        }
    }

    /// Of the stages that may have more replicas, the one whose replicas compute most.
    fn busiest_stage(&mut self) {
        let replicas = self.kept.replicas.iter().zip(&self.limits.replicas);
        let stages = self.costs.seconds_per_sample.iter().zip(replicas);
        let busiest = stages
            .enumerate()
            .filter(|(_, (_, (now, most)))| now < most)
            .map(|(stage, (seconds, (&now, _)))| (stage, seconds / now as f64))
            .max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((stage, _)) = busiest {
            let mut more = self.kept.clone();
            more.replicas[stage] += 1;
            let links = self.hold_items(&mut more, LINK_ITEMS);
            let reason = format!("stage {stage} computes most: one more replica{links}");
            self.propose(more, CandidateKind::Replicas, reason);
        }
    }

    fn one_more(&mut self) {
        let mut more = self.kept.clone();
        if more.workers < self.limits.workers {
            more.workers += 1;
            let wait = 100.0 * self.costs.core_wait;
            let links = self.hold_items(&mut more, LINK_ITEMS);
            let reason = match wait >= 1.0 {
                true => format!(
                    "stages wait for a thread, together {wait:.0} % of the time: one more thread{links}"
                ),
                false => format!("one more thread{links}"),
            };
            self.propose(more, CandidateKind::Threads, reason);
        }
        for stage in 0..self.kept.replicas.len() {
            let mut more = self.kept.clone();
            if more.replicas[stage] == self.limits.replicas[stage] {
                continue;
            }
            more.replicas[stage] += 1;
            let gains =
                self.costs.predict(&more, self.cores) > self.costs.predict(self.kept, self.cores);
            if gains {
                let links = self.hold_items(&mut more, LINK_ITEMS);
                let reason = format!("stage {stage} is always busy: one more replica{links}");
                self.propose(more, CandidateKind::Replicas, reason);
            }
        }
    }

    /// The model allows only what mean times need. Idle replicas cost little; varying times may need more.
    fn most_replicas(&mut self) {
        let mut most = Configuration {
            replicas: self.limits.replicas.clone(),
            ..self.kept.clone()
        };
        let links = self.hold_items(&mut most, LINK_ITEMS);
        let reason = format!("replicas that wait cost little: as many as there may be{links}");
        self.propose(most, CandidateKind::Replicas, reason);
    }

    fn links_of_few_items(&mut self) {
        for items in [LINK_ITEMS, 2.0 * LINK_ITEMS] {
            let mut larger = self.kept.clone();
            if !self.hold_items(&mut larger, items).is_empty() {
                let reason = format!("links of fewer than {items} items: larger ones");
                self.propose(larger, CandidateKind::Links, reason);
            }
        }
    }

    /// Returns the reason; empty if all links were large enough. Rounds up to a power of two: measured item sizes vary,
    /// and rejected configurations are compared by value.
    fn hold_items(&self, configuration: &mut Configuration, items: f64) -> &'static str {
        let mut words = "";
        let links = configuration.link_bytes.iter_mut().enumerate();
        for ((link, bytes), item_bytes) in links.zip(&self.costs.link_item_bytes) {
            let before = ((items - 1.0) * item_bytes) as u64;
            let rounded = before.saturating_add(1).checked_next_power_of_two();
            let needed = self.clamp(link, rounded.unwrap_or(u64::MAX));
            if needed > *bytes {
                *bytes = needed;
                words = " with larger links";
            }
        }
        words
    }

    fn links_that_block(&mut self) {
        for (link, carried) in self.costs.links.iter().enumerate() {
            let wait = self
                .costs
                .output_wait
                .get(carried.from)
                .copied()
                .unwrap_or(0.0);
            let Some(&bytes) = self
                .kept
                .link_bytes
                .get(link)
                .filter(|_| wait > MIN_OUTPUT_WAIT)
            else {
                continue;
            };
            let mut larger = self.kept.clone();
            larger.link_bytes[link] = self.clamp(link, bytes.saturating_mul(4));
            let reason = format!(
                "stage {} waits for room {:.0} % of the time: a larger link {link}",
                carried.from,
                100.0 * wait
            );
            self.propose(larger, CandidateKind::Links, reason);
        }
    }

    /// By factors that a trial can tell apart.
    fn task_sizes(&mut self) {
        let limits = self.limits.min_task_bytes..=self.limits.max_task_bytes;
        let clamp = |bytes: u64| bytes.clamp(*limits.start(), *limits.end());
        let now = self.kept.task_bytes;
        for (task_bytes, reason) in [
            (
                clamp(now.saturating_mul(TASK_FACTOR)),
                "larger tasks take less time for handing out and for what lies around them",
            ),
            (clamp(now / TASK_FACTOR), "smaller tasks stay in the cache"),
        ] {
            let (less, more) = (task_bytes.min(now), task_bytes.max(now));
            if (more as f64) < MIN_TASK_FACTOR * less as f64 {
                continue;
            }
            let other = Configuration {
                task_bytes,
                ..self.kept.clone()
            };
            self.propose(other, CandidateKind::TaskSize, reason.into());
        }
    }

    /// Of messages to slots of a cluster. Where their number is not stated, from the mean of what was sent.
    fn batch_sizes(&mut self) {
        let now = match self.kept.batch_tasks {
            0 => self.costs.batch_tasks.round() as usize,
            stated => stated,
        };
        if now == 0 {
            return;
        }
        for (batch_tasks, reason) in [
            (BATCH_FACTOR * now, "larger messages take fewer round trips"),
            (2 * now, "larger messages take fewer round trips"),
            (now / 2, "smaller messages spread tasks more evenly"),
        ] {
            let batch_tasks = batch_tasks.clamp(1, self.limits.max_batch_tasks.max(1));
            if batch_tasks != now {
                let other = Configuration {
                    batch_tasks,
                    ..self.kept.clone()
                };
                self.propose(other, CandidateKind::BatchSize, reason.into());
            }
        }
    }

    /// Up in large steps: what twice as large buffers gain is often too little to be measured.
    fn all_links(&mut self) {
        for (factor, what) in [
            (4.0, "larger buffers smooth bursts"),
            (0.5, "smaller buffers stay in the cache"),
        ] {
            let mut other = self.kept.clone();
            for (link, bytes) in other.link_bytes.iter_mut().enumerate() {
                *bytes = self.clamp(link, (*bytes as f64 * factor) as u64);
            }
            self.propose(other, CandidateKind::Links, what.into());
        }
    }

    /// Halves first: one thread fewer may change too little to be measured.
    fn fewer_threads(&mut self) {
        let workers = self.kept.workers;
        for (workers, reason) in [
            (workers / 2, "threads may hinder each other: half as many"),
            (workers - 1, "threads may hinder each other: one fewer"),
            (1, "threads may hinder each other: one alone"),
        ] {
            if workers >= self.limits.min_workers.max(1) {
                let fewer = Configuration {
                    workers,
                    ..self.kept.clone()
                };
                self.propose(fewer, CandidateKind::Threads, reason.into());
            }
        }
    }

    fn fewer_replicas(&mut self) {
        for stage in 0..self.kept.replicas.len() {
            let mut fewer = self.kept.clone();
            if fewer.replicas[stage] > 1 {
                fewer.replicas[stage] -= 1;
                let reason = format!("stage {stage} keeps up with fewer replicas");
                self.propose(fewer, CandidateKind::Replicas, reason);
            }
        }
    }

    /// Within the limits. With a limit of latency a link grows only as far as what it holds passes within its share of
    /// the latency.
    fn clamp(&self, link: usize, bytes: u64) -> u64 {
        let bytes = bytes.clamp(self.limits.min_link_bytes, self.limits.max_link_bytes);
        let now = self.kept.link_bytes.get(link).copied().unwrap_or(bytes);
        let rate = self.costs.link_bytes_per_s.get(link);
        match self.latency_s.zip(rate) {
            Some((latency_s, rate)) if bytes > now => {
                let share_s = latency_s / self.kept.link_bytes.len() as f64;
                bytes.min((share_s * rate) as u64).max(now)
            }
            _ => bytes,
        }
    }
}
