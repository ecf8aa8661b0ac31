//! Worker numbers and buffer sizes that tuning may choose, within the memory limit.
//!
//! Memory is for the most workers with the largest buffers. Tuning refuses no record that is accepted without it.

use crate::buffer_sizes::{BufferSizes, MemoryNeeds};
use crate::error::NbufError;
use crate::options::Options;

/// Range of buffer sizes tried. Smaller ones cost more turns than they save, larger ones exceed the cache.
const MIN_FILL_BYTES: usize = 64 << 10;
const MAX_FILL_BYTES: usize = 16 << 20;

/// Most workers tried, as a multiple of the default: more help where reading waits.
const MAX_WORKERS_FACTOR: usize = 2;

/// Ranges for tuning; one value where the user chose it, or where results would show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeRanges {
    pub(crate) workers: (usize, usize),
    /// Least and most bytes that a buffer is filled with.
    pub(crate) fill: (usize, usize),
}

impl SizeRanges {
    /// `cuts_show`: results depend on buffer cuts.
    ///
    /// Changes sizes to those of the most workers with the largest buffers, except for `fill`.
    pub(crate) fn around(
        sizes: &mut BufferSizes,
        options: &Options,
        needs: &MemoryNeeds<'_>,
        cuts_show: bool,
    ) -> Self {
        let has_stride = options.framing.stride().is_some();
        let planned = *sizes;
        let fits = |workers: usize, fill: usize| {
            let capacity = planned.capacity.max(fill);
            let free = isochrony_segment::has_free_memory;
            let needed = needs.bytes(workers, fill, capacity);
            let borrowed = || needs.max_borrowed(workers, fill, capacity, options.memory);
            needed <= options.memory
                && free(needed as u64)
                && (has_stride || fill <= planned.capacity && borrowed() >= planned.max_borrowed)
        };
        let mut workers = (planned.workers, planned.workers);
        if options.workers.is_none() {
            let most = MAX_WORKERS_FACTOR * planned.workers;
            let several = planned.workers + 1..=most;
            let fitting = several.take_while(|&workers| fits(workers, planned.fill));
            workers = (1, fitting.last().unwrap_or(planned.workers));
        }
        let mut fill = (planned.fill, planned.fill);
        if options.buffer.is_none() && !cuts_show {
            let shortest = options.framing.shortest_buffer();
            let least = planned.aligned(MIN_FILL_BYTES.max(shortest));
            let larger = std::iter::successors(Some(planned.fill), |fill| fill.checked_mul(2));
            let fitting = larger
                .take_while(|&fill| fill <= MAX_FILL_BYTES && fits(workers.1, fill))
                .last();
            fill = (
                least.min(planned.fill),
                fitting.unwrap_or(planned.fill).max(planned.fill),
            );
        }
        sizes.workers = workers.1;
        sizes.capacity = planned.capacity.max(fill.1);
        sizes.staging = needs.staging_bytes(fill.1);
        sizes.max_borrowed =
            needs.max_borrowed(sizes.workers, fill.1, sizes.capacity, options.memory);
        Self { workers, fill }
    }

    /// Checks a user's configuration.
    ///
    /// # Errors
    /// [`NbufError::Option`].
    pub(crate) fn check(&self, workers: usize, fill: u64) -> Result<(), NbufError> {
        let (least, most) = (self.fill.0 as u64, self.fill.1 as u64);
        if (self.workers.0..=self.workers.1).contains(&workers) && (least..=most).contains(&fill) {
            return Ok(());
        }
        let range = |(least, most): (usize, usize)| match least == most {
            true => least.to_string(),
            false => format!("{least} to {most}"),
        };
        Err(NbufError::Option {
            option: "tune",
            got: format!("a configuration with {workers} workers and buffers of {fill} bytes"),
            legal: format!(
                "one with {} workers and buffers of {} bytes, which is what this run may have",
                range(self.workers),
                range(self.fill)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;

    fn ranges(options: &Options, cuts_show: bool) -> (SizeRanges, BufferSizes, usize) {
        let needs = MemoryNeeds {
            buffers: true,
            reading_blocks: true,
            carries: 1,
            staging: true,
            has_outputs: true,
            in_turn: false,
            join_bound: false,
            scratch_bytes: &|buffer| buffer / 4,
            shared_bytes: 100,
        };
        let mut sizes = BufferSizes::plan(options, &needs).expect("it fits");
        let ranges = SizeRanges::around(&mut sizes, options, &needs, cuts_show);
        let all = needs.bytes(sizes.workers, ranges.fill.1, sizes.capacity);
        (ranges, sizes, all)
    }

    #[test]
    fn the_most_of_both_is_within_the_memory_limit() {
        for memory in [200_000, 1 << 20, 10_000_000, 100_000_000, 1 << 30] {
            for framing in [
                Framing::Stride(1000),
                Framing::Stride(1),
                Framing::Delimited(vec![0]),
            ] {
                let options = Options {
                    memory,
                    framing,
                    ..Options::default()
                };
                let (ranges, sizes, all) = ranges(&options, false);
                assert!(all <= memory, "{sizes:?} {ranges:?}: {all} of {memory}");
                assert!(ranges.fill.0 <= sizes.fill && sizes.fill <= ranges.fill.1);
                assert!(ranges.fill.1 <= sizes.capacity);
            }
        }
    }

    #[test]
    fn what_the_user_gave_or_results_would_show_stays() {
        let given = Options {
            workers: Some(3),
            buffer: Some(50_000),
            framing: Framing::Stride(100),
            ..Options::default()
        };
        let (found, _, _) = ranges(&given, false);
        assert_eq!((found.workers, found.fill), ((3, 3), (50_000, 50_000)));
        let free = Options::default();
        let (found, sizes, _) = ranges(&free, true);
        assert_eq!(found.fill, (sizes.fill, sizes.fill));
        let (found, _, _) = ranges(&free, false);
        assert!(found.fill.0 < found.fill.1 && found.workers.0 == 1 && found.workers.1 > 1);
    }

    #[test]
    fn a_configuration_outside_of_the_ranges_is_refused_with_the_legal_values() {
        let ranges = SizeRanges {
            workers: (1, 4),
            fill: (65536, 65536),
        };
        ranges.check(4, 65536).expect("legal");
        let text = ranges.check(5, 65536).expect_err("too many").to_string();
        assert!(
            text.contains("5 workers and buffers of 65536 bytes"),
            "{text}"
        );
        assert!(
            text.contains("1 to 4 workers and buffers of 65536 bytes, which"),
            "{text}"
        );
        ranges.check(1, 1 << 20).expect_err("too large");
    }
}
