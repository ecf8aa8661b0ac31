use std::fmt;

use std::ops::Range;
use std::sync::Arc;

use super::piece_request::FOREIGN_SHARDS;
use super::{Fallback, PieceIter, SourceFiles};
use crate::source::{SampleSource, ShardFile};
use crate::strategy::Strategy;

/// The strategy of a signal, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Name of the signal.
    pub signal: String,
    /// The requested strategy.
    pub asked: Strategy,
    /// The strategy used; None if chunks are decoded.
    pub used: Option<Strategy>,
    /// Why the requested strategy is not used.
    pub why: Option<String>,
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            signal,
            asked,
            used,
            why,
        } = self;
        let why = why.as_deref().unwrap_or("no reason known");
        match used {
            Some(used) if used == asked => write!(f, "{signal}: {used}"),
            Some(used) => write!(f, "{signal}: {used} instead of {asked}: {why}"),
            None => write!(f, "{signal}: decoded, {asked} does not apply: {why}"),
        }
    }
}

impl Reading {
    /// Predicts how parts are read, without reading them.
    #[must_use]
    pub fn foresee(source: &Arc<dyn SampleSource>, parts: &[Range<i64>], asked: Strategy) -> Self {
        let mut reading = Self {
            signal: source.name().into(),
            asked,
            used: Some(asked),
            why: None,
        };
        if let Some(why) = source.why_decoded() {
            reading.used = None;
            reading.why = Some(why);
            return reading;
        }
        let Some(first) = PieceIter::new(source.clone(), parts.to_vec(), 1).next() else {
            return reading;
        };
        let mut files = SourceFiles::new(source);
        match files.spans(&first).next().map(|span| files.shard(&span)) {
            Some(Ok(None)) => {
                reading.used = None;
                reading.why = Some(FOREIGN_SHARDS.into());
                return reading;
            }
            Some(Ok(Some(shard))) if !asked.implementation().reads_any_file() => {
                if let Some(why) = cannot_map(&*shard) {
                    let strategy = match shard.is_remote() {
                        true => Strategy::RangeRequests,
                        false => Strategy::Read,
                    };
                    reading.replace(&Fallback { strategy, why });
                    return reading;
                }
            }
            // The read reports the error.
            _ => {}
        }
        if let Some(fallback) = asked.implementation().fallback(files, &first) {
            reading.replace(&fallback);
        }
        reading
    }

    pub(super) fn replace(&mut self, fallback: &Fallback) {
        self.used = Some(fallback.strategy);
        self.why = Some(fallback.why.clone());
    }
}

fn cannot_map(shard: &dyn ShardFile) -> Option<String> {
    if shard.is_remote() {
        return Some("its files are objects on a server, of which only ranges can be had".into());
    }
    if shard.os_file().is_none() {
        return Some("it lies on no disk that could be mapped".into());
    }
    let network = shard.network()?;
    Some(format!("files on {network} are not mapped"))
}
