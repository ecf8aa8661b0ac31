//! What a run did: per operator and in all.

use std::fmt;
use std::time::Duration;

use isochrony_store::Reading;

/// What an operator did in a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperatorReport {
    /// Its name.
    pub name: &'static str,
    /// Items that it was given.
    pub items: u64,
    /// Samples that it was given; of windows those that no other has.
    pub samples: u64,
    /// Gaps that it met.
    pub gaps: u64,
    /// Time spent in it, estimated from the first items of bursts.
    pub useful: Duration,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Operators in the order in which they ran.
    pub operators: Vec<OperatorReport>,
    /// How signals were read, in the order of their scans.
    pub reads: Vec<Reading>,
    /// Bursts that the sources gave.
    pub bursts: u64,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Most bytes in pooled blocks and queues at once.
    pub peak_bytes: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "{:<16}{:>12}{:>16}{:>8}{:>10}",
            "operator", "items", "samples", "gaps", "useful"
        )?;
        for one in &self.operators {
            let share = 100.0 * one.useful.as_secs_f64() / seconds.max(1e-9);
            writeln!(
                f,
                "{:<16}{:>12}{:>16}{:>8}{share:>9.1}%",
                one.name, one.items, one.samples, one.gaps
            )?;
        }
        for one in &self.reads {
            writeln!(f, "read {one}")?;
        }
        write!(
            f,
            "{seconds:.3} s, {} bursts, peak {} bytes",
            self.bursts, self.peak_bytes
        )
    }
}
