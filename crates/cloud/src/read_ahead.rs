//! Amount of read-ahead for sequential readers of small parts.
//!
//! All readers of a store share one block cache. So that blocks are not evicted before use, readers divide half of it
//! among them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::blocks::table::{BLOCK_BYTES, CACHE_BYTES};

/// Maximum and minimum bytes of read-ahead per reader.
const MAX_WINDOW_BYTES: u64 = 8 << 20;
const MIN_WINDOW_BYTES: u64 = 2 * BLOCK_BYTES;
/// At times the cache holds half a window more: the next one is requested when half of the last one is left.
const TOTAL_WINDOW_BYTES: u64 = CACHE_BYTES / 2;
/// Such as threads with a part of a file each.
const MAX_STREAMS: usize = 16;
/// Readers idle for longer do not count.
const IDLE_TIME: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct ActiveReaders {
    next_id: AtomicU64,
    last_read: Mutex<HashMap<u64, Instant>>,
}

impl ActiveReaders {
    fn window(&self, id: u64, now: Instant) -> u64 {
        let mut last_read = self
            .last_read
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last_read.insert(id, now);
        last_read.retain(|_, last| now.saturating_duration_since(*last) < IDLE_TIME);
        let share = TOTAL_WINDOW_BYTES / last_read.len().max(1) as u64;
        share.clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ReadAhead(Mutex<Vec<Stream>>);

#[derive(Debug)]
struct Stream {
    id: u64,
    /// Of the last read, and of the read-ahead.
    end: u64,
    requested: u64,
    window: u64,
}

impl ReadAhead {
    /// Bytes to request after a read: more each time that it continues an earlier one, else none.
    pub(crate) fn advance(
        &self,
        offset: u64,
        end: u64,
        readers: &ActiveReaders,
        now: Instant,
    ) -> u64 {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = |stream: &Stream| (stream.end..=stream.end + BLOCK_BYTES).contains(&offset);
        let Some(at) = streams.iter().rposition(goes_on) else {
            if streams.len() == MAX_STREAMS {
                streams.remove(0);
            }
            let id = readers.next_id.fetch_add(1, Ordering::Relaxed);
            streams.push(Stream {
                id,
                end,
                requested: 0,
                window: 0,
            });
            return 0;
        };
        // Most recently used last.
        let mut stream = streams.remove(at);
        stream.end = end;
        let most = readers.window(stream.id, now);
        stream.window = (stream.window * 2).clamp(MIN_WINDOW_BYTES, most);
        let is_due = stream.requested <= end + stream.window / 2;
        if is_due {
            stream.requested = end + stream.window;
        }
        let ahead = if is_due { stream.window } else { 0 };
        streams.push(stream);
        ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_BYTES: u64 = 64 << 10;

    #[test]
    fn a_window_grows_with_consecutive_reads_and_readers_share_the_cache() {
        let (file, readers, now) = (
            ReadAhead::default(),
            ActiveReaders::default(),
            Instant::now(),
        );
        let read = |offset: u64| file.advance(offset, offset + READ_BYTES, &readers, now);
        assert_eq!(read(0), 0);
        assert_eq!(read(READ_BYTES), MIN_WINDOW_BYTES);
        let most = (2..400).map(|number| read(number * READ_BYTES)).max();
        assert_eq!(most, Some(MAX_WINDOW_BYTES));
        assert_eq!(read(1 << 40), 0, "a read elsewhere");
        // Eight readers of the same file alternate.
        let first = |reader: u64| (reader + 2) << 40;
        let mut most = 0;
        for number in 0..400 {
            for reader in 0..8 {
                let ahead = read(first(reader) + number * READ_BYTES);
                if number > 1 {
                    most = most.max(ahead);
                }
            }
        }
        // The first reader is still active.
        assert!(
            (MIN_WINDOW_BYTES..=TOTAL_WINDOW_BYTES / 8).contains(&most),
            "{most}"
        );
        let later = now + IDLE_TIME;
        let again = file.advance(
            first(0) + 400 * READ_BYTES,
            first(0) + 401 * READ_BYTES,
            &readers,
            later,
        );
        let all = (401..800).map(|number| {
            let offset = first(0) + number * READ_BYTES;
            file.advance(offset, offset + READ_BYTES, &readers, later)
        });
        assert_eq!(all.max().max(Some(again)), Some(MAX_WINDOW_BYTES));
    }
}
