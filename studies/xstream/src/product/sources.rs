//! Sources that push: batch by batch, or at an offered load.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use isochrony::Sample;
use isochrony::flow::{OpError, PortType, Recording, Source, SourceEvent};

use crate::data::SEGMENT;
use crate::memory::{Pool, stream};

/// When the sources of a run began.
#[derive(Clone, Default)]
pub struct Clock(Arc<OnceLock<Instant>>);

impl Clock {
    pub fn seconds(&self) -> f64 {
        self.0.get_or_init(Instant::now).elapsed().as_secs_f64()
    }
}

#[derive(Clone)]
enum Pace {
    /// A pause after so many samples.
    Batches(usize),
    /// So many samples a second.
    Load(f64, Clock),
}

/// A channel whose samples are copied into segments when pushed.
pub struct Pushed<T> {
    samples: Arc<[T]>,
    pace: Pace,
}

impl<T> Pushed<T> {
    pub fn in_batches(samples: Arc<[T]>, batch: usize) -> Self {
        let pace = Pace::Batches(batch);
        Self { samples, pace }
    }

    /// `load` samples a second, of a clock common to a run's sources.
    pub fn at_load(samples: Arc<[T]>, load: f64, clock: Clock) -> Self {
        let pace = Pace::Load(load, clock);
        Self { samples, pace }
    }
}

impl<T: Sample> Recording for Pushed<T> {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: T::DTYPE,
            stream: stream(),
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(Pass {
            samples: self.samples.clone(),
            pace: self.pace.clone(),
            at: 0,
            paused: 0,
            due: 0,
            pool: Pool::default(),
        }))
    }
}

struct Pass<T> {
    samples: Arc<[T]>,
    pace: Pace,
    at: usize,
    /// Where the last pause was.
    paused: usize,
    due: usize,
    pool: Pool,
}

impl<T: Sample> Source for Pass<T> {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let total = self.samples.len();
        if self.at == total {
            return Ok(SourceEvent::End);
        }
        let end = total.min(self.at + SEGMENT);
        match &self.pace {
            Pace::Batches(batch) => {
                if self.at > self.paused && self.at.is_multiple_of(*batch) {
                    self.paused = self.at;
                    return Ok(SourceEvent::Idle);
                }
            }
            Pace::Load(load, clock) => {
                // Reads the clock only when all arrived samples are taken.
                if end > self.due {
                    self.due = (clock.seconds() * load) as usize;
                }
                if end > self.due {
                    return Ok(SourceEvent::Idle);
                }
            }
        }
        let segment = self
            .pool
            .segment(self.at as i64, &self.samples[self.at..end], stream());
        self.at = end;
        Ok(SourceEvent::Item(segment.into()))
    }

    fn total(&self) -> Option<u64> {
        Some(self.samples.len() as u64)
    }
}
