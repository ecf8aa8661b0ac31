//! Advises the system to read files into the page cache.

use std::ops::Range;
use std::sync::Arc;

use isochrony_system::page_cache;

use super::SourceFiles;
use crate::source::SampleSource;

#[derive(Debug)]
pub(crate) struct ReadAdvice {
    files: SourceFiles,
    /// Maximum bytes of a request; None before the first.
    step: Option<u64>,
}

impl ReadAdvice {
    pub(crate) fn new(files: SourceFiles) -> Self {
        Self { files, step: None }
    }

    /// Returns the bytes requested. The reader of the samples reports errors.
    pub(crate) fn request(&mut self, range: Range<i64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut bytes = 0;
        for span in self.files.spans(&range) {
            let Ok(Some(shard)) = self.files.shard(&span) else {
                continue;
            };
            let Some(file) = shard.os_file() else {
                continue;
            };
            let step = *(self.step).get_or_insert_with(|| page_cache::read_ahead_window(file));
            if page_cache::will_need(file, span.offset..span.offset + span.len, step).is_ok() {
                bytes += span.len;
            }
        }
        bytes
    }
}

/// Asks the system to read a range into the page cache, without waiting; returns the bytes requested.
#[must_use]
pub fn prefetch(source: &Arc<dyn SampleSource>, within: Range<i64>) -> u64 {
    let mut advice = ReadAdvice::new(SourceFiles::new(source));
    let mut requested = 0;
    let mut from = within.start;
    while from < within.end {
        let gap = source.gap_within(from..within.end);
        let until = gap.as_ref().map_or(within.end, |gap| gap.start);
        requested += advice.request(from..until);
        from = gap.map_or(within.end, |gap| gap.end);
    }
    requested
}
