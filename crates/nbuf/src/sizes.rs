//! How many workers a run has, and how large their buffers are: all within the memory limit.

use std::num::NonZero;
use std::thread::available_parallelism;

use isochrony_segment::{free_memory, has_free_memory};

use crate::error::NbufError;
use crate::framing::Framing;
use crate::options::Options;

/// What a buffer is filled with if nothing speaks against it: large enough that turns cost nothing, small enough that what
/// was read is still in the cache when it is processed.
const FILL: usize = 1 << 20;

/// The same where a buffer's work is done in joins: whoever waits for its turn takes some 50 µs to wake up, which is 8 % of
/// what SHA-256 of 1 MiB takes.
const FILL_IN_JOINS: usize = 4 << 20;

/// So many workers shall get the same buffers, so that where a stream is cut does not depend on their number.
const ALIKE: usize = 8;

/// More threads than that help nobody.
const MOST_WORKERS: usize = 4096;

/// Per cent of the full size that the first buffers are filled with (the paper's section 6.3).
const RAMP: [usize; 4] = [10, 20, 40, 80];

/// What a run consists of, as far as memory is concerned.
pub(crate) struct Needs<'a> {
    /// Whether workers need buffers; not where all input is lent.
    pub(crate) owns: bool,
    /// Whether reading may have to wait.
    pub(crate) reads: bool,
    /// Inputs that may keep the beginning of a record for the next buffer.
    pub(crate) carries: usize,
    /// Whether output is staged.
    pub(crate) stages: bool,
    /// Whether there is output.
    pub(crate) writes: bool,
    /// Whether buffers are executed one after another.
    pub(crate) in_turn: bool,
    /// Whether most of the work is done in joins.
    pub(crate) in_joins: bool,
    /// What a processor needs for each worker.
    pub(crate) worker_bytes: &'a dyn Fn(usize) -> usize,
    /// What it needs once.
    pub(crate) shared_bytes: usize,
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) workers: usize,
    /// What a buffer is filled with.
    pub(crate) fill: usize,
    /// What it can hold, for a record that is larger.
    pub(crate) capacity: usize,
    /// Most bytes of a record that is lent: what processors need for it fits into the limit.
    pub(crate) lent: usize,
    /// What a worker may stage of output.
    pub(crate) staged: usize,
    ramp: bool,
    stride: usize,
}

impl Sizes {
    /// What the buffer of this number is filled with.
    pub(crate) fn fill_of(&self, number: u64) -> usize {
        let per_cent = usize::try_from(number)
            .ok()
            .and_then(|number| RAMP.get(number));
        match per_cent {
            Some(per_cent) if self.ramp => {
                let part = (self.fill as u128 * *per_cent as u128 / 100) as usize;
                (part - part % self.stride).max(self.stride)
            }
            _ => self.fill,
        }
    }
}

impl Needs<'_> {
    fn staged(&self, fill: usize) -> usize {
        if self.stages && self.writes { fill } else { 0 }
    }

    fn bytes(&self, workers: usize, fill: usize, capacity: usize) -> usize {
        let own = if self.owns { capacity } else { 0 };
        own.saturating_add(self.staged(fill))
            .saturating_add((self.worker_bytes)(capacity))
            .saturating_mul(workers)
            .saturating_add(capacity.saturating_mul(self.carries))
            .saturating_add(self.shared_bytes)
    }

    /// Most bytes of a lent record, for which processors need memory, but no buffer is needed.
    fn lent(&self, workers: usize, fill: usize, capacity: usize, limit: usize) -> usize {
        let rest = limit.saturating_sub(self.bytes(workers, fill, capacity));
        let usual = (self.worker_bytes)(capacity);
        let fits = |length| {
            let more = (self.worker_bytes)(length).saturating_sub(usual);
            more.saturating_mul(workers) <= rest
        };
        // The largest that fits, found by halves; no memory is larger than what it begins with, and sums of it are numbers.
        let (mut least, mut most) = (capacity, usize::MAX >> 16);
        if fits(most) {
            return most;
        }
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            if fits(middle) {
                least = middle;
            } else {
                most = middle;
            }
        }
        least
    }

    fn workers(&self) -> usize {
        let cores = available_parallelism().map_or(1, NonZero::get);
        // While those execute, one more can read and one write.
        let execute = if self.in_turn { 1 } else { cores };
        execute + usize::from(self.reads || self.in_turn) + usize::from(self.writes)
    }
}

/// Checks options and finds sizes that keep to the limit.
pub(crate) fn sizes(options: &Options, needs: &Needs<'_>) -> Result<Sizes, NbufError> {
    let stride = checked_stride(&options.framing)?;
    let wanted = options.workers;
    if wanted.is_some_and(|workers| workers == 0 || workers > MOST_WORKERS) {
        return Err(NbufError::Option {
            option: "workers",
            got: wanted.unwrap_or_default().to_string(),
            legal: format!("1 to {MOST_WORKERS}, or auto"),
        });
    }
    let least = options.framing.least();
    if let Some(buffer) = options.buffer.filter(|buffer| *buffer < least.max(1)) {
        return Err(NbufError::Option {
            option: "buffer",
            got: buffer.to_string(),
            legal: format!("bytes for a record at least, {least}"),
        });
    }
    let aligned = |bytes: usize| (bytes - bytes % stride).max(stride);
    let usual = if needs.in_joins { FILL_IN_JOINS } else { FILL };
    let mut fill = aligned(options.buffer.unwrap_or(usual));
    let mut workers = wanted.unwrap_or_else(|| needs.workers());
    let smallest = aligned(least.max(1));
    if options.buffer.is_none() {
        while fill > smallest && needs.bytes(workers.max(ALIKE), fill, fill) > options.memory {
            fill = aligned(fill / 2);
        }
    }
    if wanted.is_none() {
        while workers > 1 && needs.bytes(workers, fill, fill) > options.memory {
            workers -= 1;
        }
    }
    let needed = needs.bytes(workers, fill, fill);
    if needed > options.memory {
        return Err(NbufError::Memory {
            limit: options.memory,
            workers,
            buffer: fill,
            needed,
        });
    }
    if !has_free_memory(needed as u64) {
        let (option, got) = match (options.buffer, options.framing.stride()) {
            (Some(buffer), _) => ("buffer", buffer),
            (None, Some(stride)) => ("stride", stride),
            (None, None) => ("memory", options.memory),
        };
        let free = free_memory();
        return Err(NbufError::Option {
            option,
            got: got.to_string(),
            legal: format!(
                "fewer bytes or fewer workers: {workers} worker(s) would need {needed} bytes, and {free} are free on this \
                 machine"
            ),
        });
    }
    // A record that is larger than what a buffer is filled with may have the memory that is left.
    let mut capacity = fill;
    if options.framing.stride().is_none() {
        while let Some(twice) = capacity.checked_mul(2) {
            // Memory that nobody has is not promised to records either.
            let bytes = needs.bytes(workers, fill, twice);
            if bytes > options.memory || !has_free_memory(bytes as u64) || !needs.owns {
                break;
            }
            capacity = twice;
        }
    }
    Ok(Sizes {
        workers,
        fill,
        capacity,
        lent: needs.lent(workers, fill, capacity, options.memory),
        staged: needs.staged(fill),
        ramp: options.ramp,
        stride,
    })
}

/// Bytes that buffers are cut at multiples of.
fn checked_stride(framing: &Framing) -> Result<usize, NbufError> {
    let refused = |option, got: String, legal: &str| {
        Err(NbufError::Option {
            option,
            got,
            legal: legal.to_owned(),
        })
    };
    match framing {
        Framing::Stride(0) => refused("stride", "0".into(), "bytes from 1"),
        Framing::Stride(stride) => Ok(*stride),
        Framing::Delimited(delimiter) if delimiter.is_empty() => {
            refused("delimiter", "nothing".into(), "one byte or more")
        }
        Framing::Prefixed(prefix) if ![1, 2, 4, 8].contains(&prefix.bytes) => {
            refused("prefix", prefix.bytes.to_string(), "1, 2, 4 or 8 bytes")
        }
        _ => Ok(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(worker_bytes: &dyn Fn(usize) -> usize) -> Needs<'_> {
        Needs {
            owns: true,
            reads: true,
            carries: 1,
            stages: true,
            writes: true,
            in_turn: false,
            in_joins: false,
            worker_bytes,
            shared_bytes: 100,
        }
    }

    fn options(memory: usize, workers: Option<usize>, framing: Framing) -> Options {
        Options {
            memory,
            workers,
            framing,
            ..Options::default()
        }
    }

    #[test]
    fn the_limit_holds_for_any_number_of_workers() {
        for memory in [40_000, 1 << 20, 10_000_000, 100_000_000] {
            for workers in [None, Some(1), Some(2), Some(7), Some(8)] {
                for framing in [
                    Framing::Stride(1000),
                    Framing::Stride(1),
                    Framing::Delimited(vec![0]),
                ] {
                    let per_worker = |buffer: usize| buffer / 3 + 17;
                    let needs = needs(&per_worker);
                    let sizes = sizes(&options(memory, workers, framing), &needs).expect("it fits");
                    let all = needs.bytes(sizes.workers, sizes.fill, sizes.capacity);
                    assert!(all <= memory, "{sizes:?} takes {all} of {memory}");
                }
            }
        }
    }

    #[test]
    fn cuts_do_not_depend_on_up_to_eight_workers() {
        let none = |_: usize| 0;
        for memory in [100_000, 3_000_000, 100_000_000] {
            let fills: Vec<_> = (1..=8)
                .map(|workers| {
                    let options = options(memory, Some(workers), Framing::Stride(24));
                    sizes(&options, &needs(&none)).expect("it fits").fill
                })
                .collect();
            assert!(fills.iter().all(|fill| *fill == fills[0]), "{fills:?}");
        }
    }

    #[test]
    fn what_does_not_fit_names_what_would() {
        let none = |_: usize| 0;
        let refused = |memory| {
            let asked = options(memory, Some(4), Framing::Stride(1024));
            match sizes(&asked, &needs(&none)) {
                Err(NbufError::Memory { needed, .. }) => Some(needed),
                _ => None,
            }
        };
        // A buffer and as much staged output for each, a record that goes over, and what is shared.
        let needed = 4 * 2 * 1024 + 1024 + 100;
        assert_eq!(refused(9000), Some(needed));
        assert_eq!(refused(needed - 1), Some(needed));
        assert_eq!(refused(needed), None);
    }

    #[test]
    fn buffers_that_the_machine_has_no_memory_for_are_refused_before_they_are_allocated() {
        let none = |_: usize| 0;
        for (buffer, stride, option) in [(Some(1 << 50), 1, "buffer="), (None, 1 << 50, "stride=")]
        {
            let asked = Options {
                buffer,
                ..options(1 << 60, Some(4), Framing::Stride(stride))
            };
            let error = sizes(&asked, &needs(&none)).expect_err("nobody has a petabyte");
            let text = error.to_string();
            assert!(text.starts_with(option), "{text}");
            assert!(text.contains("are free on this machine"), "{text}");
        }
        // Nor is a record promised more.
        let lines = options(1 << 60, Some(1), Framing::Delimited(vec![0]));
        let found = sizes(&lines, &needs(&none)).expect("it fits");
        assert!(has_free_memory(found.capacity as u64), "{found:?}");
    }

    #[test]
    fn the_first_buffers_grow() {
        let none = |_: usize| 0;
        let found = sizes(
            &options(100_000_000, None, Framing::Stride(1000)),
            &needs(&none),
        );
        let sizes = found.expect("it fits");
        let full = (1 << 20) / 1000 * 1000;
        let parts: Vec<_> = (0..6).map(|number| sizes.fill_of(number)).collect();
        assert_eq!(parts, [104_000, 209_000, 419_000, 838_000, full, full]);
    }

    #[test]
    fn buffers_are_larger_where_workers_wait_for_one_another_if_memory_allows() {
        let none = |_: usize| 0;
        let fill = |memory, buffer| {
            let in_joins = Needs {
                in_joins: true,
                ..needs(&none)
            };
            let options = Options {
                buffer,
                ..options(memory, Some(8), Framing::Stride(1))
            };
            sizes(&options, &in_joins).expect("it fits").fill
        };
        assert_eq!(fill(100_000_000, None), 4 << 20);
        assert_eq!(fill(30_000_000, None), 1 << 20);
        assert_eq!(fill(100_000_000, Some(1 << 20)), 1 << 20);
    }
}
