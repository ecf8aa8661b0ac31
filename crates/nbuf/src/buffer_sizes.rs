//! Number of workers and buffer sizes, within the memory limit.
//!
//! ```text
//!  limit ≥ workers × (buffer + staging + scratch) + carries × buffer + shared
//! ```
//!
//! These sizes bound every part; nothing is counted during the stream.

use std::num::NonZero;
use std::thread::available_parallelism;

use isochrony_segment::{free_memory, has_free_memory};

use crate::error::NbufError;
use crate::framing::Framing;
use crate::options::Options;
use crate::prefix::LengthEncoding;

/// Large enough that turns cost nothing; fits the cache.
const DEFAULT_FILL_BYTES: usize = 1 << 20;

/// If most work is in joins. A waiting worker takes some 50 µs to wake up, 8 % of SHA-256 of 1 MiB.
const JOIN_BOUND_FILL_BYTES: usize = 4 << 20;

/// Up to this number, workers do not affect the cuts of a stream.
const EQUALLY_SIZED_WORKERS: usize = 8;

const MAX_WORKERS: usize = 4096;

/// Fill of the first buffers, in per cent (section 6.3 of the paper).
const RAMP_PERCENT: [usize; 4] = [10, 20, 40, 80];

pub(crate) struct MemoryNeeds<'a> {
    /// Workers need buffers, unless all inputs are memory.
    pub(crate) buffers: bool,
    pub(crate) reading_blocks: bool,
    /// Inputs that may carry the beginning of a record over.
    pub(crate) carries: usize,
    pub(crate) staging: bool,
    pub(crate) has_outputs: bool,
    /// Buffers are executed one after another.
    pub(crate) in_turn: bool,
    pub(crate) join_bound: bool,
    /// Per worker, by buffer size.
    pub(crate) scratch_bytes: &'a dyn Fn(usize) -> usize,
    pub(crate) shared_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferSizes {
    pub(crate) workers: usize,
    pub(crate) fill: usize,
    /// Capacity of a buffer, for a longer record.
    pub(crate) capacity: usize,
    /// The longest record in input memory whose scratch is within the limit.
    pub(crate) max_borrowed: usize,
    /// Per worker.
    pub(crate) staging: usize,
    ramp: bool,
    stride: usize,
}

impl MemoryNeeds<'_> {
    pub(crate) fn staging_bytes(&self, fill: usize) -> usize {
        if self.staging && self.has_outputs {
            fill
        } else {
            0
        }
    }

    pub(crate) fn bytes(&self, workers: usize, fill: usize, capacity: usize) -> usize {
        let buffer = if self.buffers { capacity } else { 0 };
        buffer
            .saturating_add(self.staging_bytes(fill))
            .saturating_add((self.scratch_bytes)(capacity))
            .saturating_mul(workers)
            .saturating_add(capacity.saturating_mul(self.carries))
            .saturating_add(self.shared_bytes)
    }

    /// The longest record in input memory, which needs scratch but no buffer.
    pub(crate) fn max_borrowed(
        &self,
        workers: usize,
        fill: usize,
        capacity: usize,
        limit: usize,
    ) -> usize {
        let rest = limit.saturating_sub(self.bytes(workers, fill, capacity));
        let usual = (self.scratch_bytes)(capacity);
        let fits = |length| {
            let more = (self.scratch_bytes)(length).saturating_sub(usual);
            more.saturating_mul(workers) <= rest
        };
        // Multiples of the upper end do not overflow.
        let (mut low, mut high) = (capacity, usize::MAX >> 16);
        if fits(high) {
            return high;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    fn default_workers(&self) -> usize {
        let cores = available_parallelism().map_or(1, NonZero::get);
        // While these execute, one more can read and one write.
        let execute = if self.in_turn { 1 } else { cores };
        execute + usize::from(self.reading_blocks || self.in_turn) + usize::from(self.has_outputs)
    }
}

impl BufferSizes {
    pub(crate) fn plan(options: &Options, needs: &MemoryNeeds<'_>) -> Result<Self, NbufError> {
        let stride = checked_stride(&options.framing)?;
        let wanted = options.workers;
        if wanted.is_some_and(|workers| workers == 0 || workers > MAX_WORKERS) {
            return Err(NbufError::Option {
                option: "workers",
                got: wanted.unwrap_or_default().to_string(),
                legal: format!("1 to {MAX_WORKERS}, or auto"),
            });
        }
        let shortest = options.framing.shortest_buffer();
        if let Some(buffer) = options.buffer.filter(|buffer| *buffer < shortest.max(1)) {
            return Err(NbufError::Option {
                option: "buffer",
                got: buffer.to_string(),
                legal: format!("bytes for a record at least, {shortest}"),
            });
        }
        let aligned = |bytes: usize| (bytes - bytes % stride).max(stride);
        let default = if needs.join_bound {
            JOIN_BOUND_FILL_BYTES
        } else {
            DEFAULT_FILL_BYTES
        };
        let mut fill = aligned(options.buffer.unwrap_or(default));
        let mut workers = wanted.unwrap_or_else(|| needs.default_workers());
        let smallest = aligned(shortest.max(1));
        if options.buffer.is_none() {
            let planned = workers.max(EQUALLY_SIZED_WORKERS);
            while fill > smallest && needs.bytes(planned, fill, fill) > options.memory {
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
            return Err(exceeds_free_memory(options, workers, needed));
        }
        // A longer record may use the memory left.
        let mut capacity = fill;
        if options.framing.stride().is_none() {
            while let Some(twice) = capacity.checked_mul(2) {
                let bytes = needs.bytes(workers, fill, twice);
                // Never more than the machine has.
                if bytes > options.memory || !has_free_memory(bytes as u64) || !needs.buffers {
                    break;
                }
                capacity = twice;
            }
        }
        Ok(Self {
            workers,
            fill,
            capacity,
            max_borrowed: needs.max_borrowed(workers, fill, capacity, options.memory),
            staging: needs.staging_bytes(fill),
            ramp: options.ramp,
            stride,
        })
    }

    pub(crate) fn aligned(&self, bytes: usize) -> usize {
        (bytes - bytes % self.stride).max(self.stride)
    }

    pub(crate) fn fill_of(&self, number: u64) -> usize {
        let percent = usize::try_from(number)
            .ok()
            .and_then(|number| RAMP_PERCENT.get(number));
        match percent {
            Some(percent) if self.ramp => {
                let part = (self.fill as u128 * *percent as u128 / 100) as usize;
                (part - part % self.stride).max(self.stride)
            }
            _ => self.fill,
        }
    }
}

fn exceeds_free_memory(options: &Options, workers: usize, needed: usize) -> NbufError {
    let (option, got) = match (options.buffer, options.framing.stride()) {
        (Some(buffer), _) => ("buffer", buffer),
        (None, Some(stride)) => ("stride", stride),
        (None, None) => ("memory", options.memory),
    };
    let free = free_memory();
    NbufError::Option {
        option,
        got: got.to_string(),
        legal: format!(
            "fewer bytes or fewer workers: {workers} worker(s) would need {needed} bytes, and {free} are free on this \
             machine"
        ),
    }
}

/// Buffers are cut at multiples of this.
fn checked_stride(framing: &Framing) -> Result<usize, NbufError> {
    let illegal = |option, got: String, legal: &str| {
        Err(NbufError::Option {
            option,
            got,
            legal: legal.to_owned(),
        })
    };
    match framing {
        Framing::Stride(0) => illegal("stride", "0".into(), "bytes from 1"),
        Framing::Stride(stride) => Ok(*stride),
        Framing::Delimited(delimiter) if delimiter.is_empty() => {
            illegal("delimiter", "nothing".into(), "one byte or more")
        }
        Framing::Prefixed(prefix) => match prefix.encoding {
            LengthEncoding::Fixed { bytes, .. } if ![1, 2, 4, 8].contains(&bytes) => {
                illegal("prefix", bytes.to_string(), "1, 2, 4 or 8 bytes")
            }
            _ => Ok(1),
        },
        Framing::Delimited(_) => Ok(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(scratch_bytes: &dyn Fn(usize) -> usize) -> MemoryNeeds<'_> {
        MemoryNeeds {
            buffers: true,
            reading_blocks: true,
            carries: 1,
            staging: true,
            has_outputs: true,
            in_turn: false,
            join_bound: false,
            scratch_bytes,
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
    fn sizes_keep_to_the_limit_for_any_number_of_workers() {
        for memory in [40_000, 1 << 20, 10_000_000, 100_000_000] {
            for workers in [None, Some(1), Some(2), Some(7), Some(8)] {
                for framing in [
                    Framing::Stride(1000),
                    Framing::Stride(1),
                    Framing::Delimited(vec![0]),
                ] {
                    let per_worker = |buffer: usize| buffer / 3 + 17;
                    let needs = needs(&per_worker);
                    let options = options(memory, workers, framing);
                    let sizes = BufferSizes::plan(&options, &needs).expect("it fits");
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
                    BufferSizes::plan(&options, &needs(&none))
                        .expect("it fits")
                        .fill
                })
                .collect();
            assert!(fills.iter().all(|fill| *fill == fills[0]), "{fills:?}");
        }
    }

    #[test]
    fn an_error_names_the_memory_that_would_suffice() {
        let none = |_: usize| 0;
        let refused = |memory| {
            let asked = options(memory, Some(4), Framing::Stride(1024));
            match BufferSizes::plan(&asked, &needs(&none)) {
                Err(NbufError::Memory { needed, .. }) => Some(needed),
                _ => None,
            }
        };
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
            let error =
                BufferSizes::plan(&asked, &needs(&none)).expect_err("nobody has a petabyte");
            let text = error.to_string();
            assert!(text.starts_with(option), "{text}");
            assert!(text.contains("are free on this machine"), "{text}");
        }
        // Long records get no more, either.
        let lines = options(1 << 60, Some(1), Framing::Delimited(vec![0]));
        let found = BufferSizes::plan(&lines, &needs(&none)).expect("it fits");
        assert!(has_free_memory(found.capacity as u64), "{found:?}");
    }

    #[test]
    fn the_first_buffers_grow() {
        let none = |_: usize| 0;
        let found = BufferSizes::plan(
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
            let join_bound = MemoryNeeds {
                join_bound: true,
                ..needs(&none)
            };
            let options = Options {
                buffer,
                ..options(memory, Some(8), Framing::Stride(1))
            };
            BufferSizes::plan(&options, &join_bound)
                .expect("it fits")
                .fill
        };
        assert_eq!(fill(100_000_000, None), 4 << 20);
        assert_eq!(fill(30_000_000, None), 1 << 20);
        assert_eq!(fill(100_000_000, Some(1 << 20)), 1 << 20);
    }
}
