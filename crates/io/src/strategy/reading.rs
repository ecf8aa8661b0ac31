//! How a signal is read, and how it would be.

use std::fmt;

use std::ops::Range;
use std::sync::Arc;

use super::Strategy;
use super::files::Files;
use super::flights;
use super::pieces::Pieces;
use super::requests::Requests;
use crate::source::Source;

/// How a signal is read: what was asked for, what is done, and why where these differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Name of the signal.
    pub signal: String,
    /// What was asked for.
    pub asked: Strategy,
    /// What is done; None where chunks are decoded, to which no strategy applies.
    pub used: Option<Strategy>,
    /// Why it is not what was asked for.
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
    /// How parts of a source would be read by a strategy, as far as that can be told without reading them.
    #[must_use]
    pub fn foresee(source: &Arc<dyn Source>, parts: &[Range<i64>], asked: Strategy) -> Self {
        let (used, why) = foreseen(source, parts, asked);
        Self {
            signal: source.name().into(),
            asked,
            used,
            why,
        }
    }
}

fn foreseen(
    source: &Arc<dyn Source>,
    parts: &[Range<i64>],
    asked: Strategy,
) -> (Option<Strategy>, Option<String>) {
    if !source.codec().is_empty() {
        let why = format!("the signal is sealed with {}", source.codec());
        return (None, Some(why));
    }
    let Some(first) = Pieces::new(source.clone(), parts.to_vec(), 1).next() else {
        return (Some(asked), None);
    };
    let mut files = Files::new(source);
    let file = files.spans(&first).next().map(|span| files.shard(&span));
    match file {
        Some(Ok(None)) => return (None, Some("another program wrote its shards".into())),
        Some(Ok(Some(shard))) if asked != Strategy::Read => {
            if shard.os_file().is_none() {
                let why = "it lies on no disk that could be mapped";
                return (Some(Strategy::Read), Some(why.into()));
            }
            if let Some(network) = shard.network() {
                let why = format!("files on {network} are not mapped");
                return (Some(Strategy::Read), Some(why));
            }
        }
        // Reading tells what is wrong.
        _ => {}
    }
    if asked.is_direct()
        && let Some(why) = Requests::new(files, true).refuses(&first)
    {
        return (Some(Strategy::Read), Some(why));
    }
    if asked.is_uring()
        && let Some(why) = flights::refused()
    {
        return (Some(asked.without_uring()), Some(why));
    }
    (Some(asked), None)
}
