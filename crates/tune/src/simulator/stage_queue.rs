//! Stages and replicas as queue entries.
//!
//! States and notices as in the real queue; see `docs/how_a_plan_runs.md`.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Input,
    Room,
}

impl Notice {
    fn bit(self) -> u8 {
        match self {
            Self::Input => 1,
            Self::Room => 2,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BurstOutcome {
    Ran,
    Idle,
    Full,
    Retired,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Ready,
    Running,
    Waiting(Notice),
    Retired,
    Ended,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PhaseTimes {
    pub(super) busy: f64,
    pub(super) input: f64,
    pub(super) output: f64,
    pub(super) core: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) stage: usize,
    pub(super) replica: usize,
    phase: Phase,
    since: f64,
    notices: u8,
}

pub(super) struct StageQueue {
    pub(super) entries: Vec<Entry>,
    pub(super) times: Vec<PhaseTimes>,
    ready: Vec<u64>,
}

impl StageQueue {
    pub(super) fn new(replicas: impl Iterator<Item = usize>) -> Self {
        let entry = |stage, replica| Entry {
            stage,
            replica,
            phase: Phase::Ready,
            since: 0.0,
            notices: 0,
        };
        let mut times = Vec::new();
        let mut entries = Vec::new();
        for (stage, count) in replicas.enumerate() {
            times.push(PhaseTimes::default());
            entries.extend((0..count).map(|replica| entry(stage, replica)));
        }
        let mut ready = vec![0; entries.len().div_ceil(64)];
        for at in 0..entries.len() {
            ready[at / 64] |= 1 << (at % 64);
        }
        Self {
            entries,
            times,
            ready,
        }
    }

    fn enter(&mut self, at: usize, phase: Phase, now: f64) {
        let entry = &mut self.entries[at];
        let times = &mut self.times[entry.stage];
        let spent = now - entry.since;
        match entry.phase {
            Phase::Ready => times.core += spent,
            Phase::Running => times.busy += spent,
            Phase::Waiting(Notice::Input) => times.input += spent,
            Phase::Waiting(Notice::Room) => times.output += spent,
            Phase::Retired | Phase::Ended => {}
        }
        (entry.phase, entry.since) = (phase, now);
        let bit = 1 << (at % 64);
        match phase {
            Phase::Ready => self.ready[at / 64] |= bit,
            _ => self.ready[at / 64] &= !bit,
        }
    }

    pub(super) fn count_times(&mut self, now: f64) {
        for at in 0..self.entries.len() {
            self.enter(at, self.entries[at].phase, now);
        }
    }

    /// Whether the entry waited for it, and is ready.
    pub(super) fn notify(&mut self, at: usize, notice: Notice, now: f64) -> bool {
        let entry = &mut self.entries[at];
        entry.notices |= notice.bit();
        let waited = entry.phase == Phase::Waiting(notice);
        if waited {
            self.enter(at, Phase::Ready, now);
        }
        waited
    }

    /// False if it executes a burst, or has retired or ended.
    pub(super) fn retire(&mut self, at: usize, now: f64) -> bool {
        let retires = matches!(self.entries[at].phase, Phase::Ready | Phase::Waiting(_));
        if retires {
            self.enter(at, Phase::Retired, now);
        }
        retires
    }

    pub(super) fn recall(&mut self, at: usize, now: f64) -> bool {
        let is_retired = self.entries[at].phase == Phase::Retired;
        if is_retired {
            self.enter(at, Phase::Ready, now);
        }
        is_retired
    }

    pub(super) fn take(&mut self, at: usize, now: f64) {
        self.entries[at].notices = 0;
        self.enter(at, Phase::Running, now);
    }

    /// Returns whether the entry is ready again. Notices during the burst are kept.
    pub(super) fn put_back(&mut self, at: usize, outcome: BurstOutcome, now: f64) -> bool {
        let wait = match outcome {
            BurstOutcome::Ran => None,
            BurstOutcome::Idle => Some(Notice::Input),
            BurstOutcome::Full => Some(Notice::Room),
            BurstOutcome::Retired => {
                self.enter(at, Phase::Retired, now);
                return false;
            }
            BurstOutcome::Ended => {
                self.enter(at, Phase::Ended, now);
                return false;
            }
        };
        match wait {
            Some(wait) if self.entries[at].notices & wait.bit() == 0 => {
                self.enter(at, Phase::Waiting(wait), now);
                false
            }
            _ => {
                self.enter(at, Phase::Ready, now);
                true
            }
        }
    }

    /// Ends entries without a burst.
    pub(super) fn end(&mut self, entries: Range<usize>, now: f64) {
        for at in entries {
            if self.entries[at].phase != Phase::Running {
                self.enter(at, Phase::Ended, now);
            }
        }
    }

    pub(super) fn last_ready_below(&self, end: usize) -> Option<usize> {
        let (words, rest) = (end / 64, end % 64);
        let partial = match rest {
            0 => 0,
            rest => self.ready[words] & (u64::MAX >> (64 - rest)),
        };
        let of_word = |at: usize, word: u64| (word != 0).then(|| at * 64 + word.ilog2() as usize);
        let whole = || {
            let mut words = self.ready[..words].iter().enumerate().rev();
            words.find_map(|(at, &word)| of_word(at, word))
        };
        of_word(words, partial).or_else(whole)
    }

    pub(super) fn is_ready(&self, at: usize) -> bool {
        self.entries[at].phase == Phase::Ready
    }

    pub(super) fn has_ready(&self) -> bool {
        self.ready.iter().any(|&word| word != 0)
    }
}
