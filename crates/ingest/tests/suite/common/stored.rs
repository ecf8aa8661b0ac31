//! Content of a signal after an import.

use isochrony_segment::Sample;
use isochrony_store::{RunReason, Signal};

pub fn samples<T: Sample>(signal: &Signal) -> Vec<T> {
    let selection = signal.select(0..signal.end_index()).unwrap();
    let parts = selection.segments();
    let parts = parts.map(|part| part.unwrap().to_vec::<T>().unwrap());
    parts.collect::<Vec<_>>().concat()
}

pub fn reasons(signal: &Signal) -> Vec<RunReason> {
    let runs = signal.runs().unwrap();
    runs.iter().map(|run| run.reason).collect()
}
