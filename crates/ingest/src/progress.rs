//! How far an import is.

use std::time::{Duration, Instant};

/// How far an import is. Bytes count files, not samples: a refused file counts as done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Bytes of the files that are done.
    pub done_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
    /// Files done.
    pub done_files: u64,
    /// Files in all.
    pub total_files: u64,
    /// Bytes a second over the last seconds.
    pub bytes_per_second: f64,
    /// Time left at that rate; `None` before anything is known.
    pub eta: Option<Duration>,
}

/// Called with the progress, at most ten times a second and at the end.
pub type OnProgress<'a> = &'a mut dyn FnMut(&Progress);

/// Most calls a second.
const EVERY: Duration = Duration::from_millis(100);
/// Time over which the rate is averaged.
const MEMORY_S: f64 = 3.0;

pub(crate) struct Meter<'a> {
    tell: Option<OnProgress<'a>>,
    now: Progress,
    told_at: Option<Instant>,
    told_bytes: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(tell: Option<OnProgress<'a>>) -> Self {
        let now = Progress {
            done_bytes: 0,
            total_bytes: 0,
            done_files: 0,
            total_files: 0,
            bytes_per_second: 0.0,
            eta: None,
        };
        Self {
            tell,
            now,
            told_at: None,
            told_bytes: 0,
        }
    }

    /// More to do.
    pub(crate) fn expect(&mut self, files: u64, bytes: u64) {
        self.now.total_files += files;
        self.now.total_bytes += bytes;
        self.told_at.get_or_insert_with(Instant::now);
    }

    /// Bytes done, within a file.
    pub(crate) fn bytes(&mut self, bytes: u64) {
        self.now.done_bytes += bytes;
        self.tell(false);
    }

    /// A file done, of which `left` bytes were not counted yet.
    pub(crate) fn file(&mut self, left: u64) {
        self.now.done_files += 1;
        self.bytes(left);
    }

    pub(crate) fn finish(&mut self) {
        self.tell(true);
    }

    fn tell(&mut self, at_once: bool) {
        let Some(tell) = &mut self.tell else {
            return;
        };
        let now = Instant::now();
        let since = now - *self.told_at.get_or_insert(now);
        if since < EVERY && !at_once {
            return;
        }
        // A file that grew since it was listed must not show more than everything.
        self.now.total_bytes = self.now.total_bytes.max(self.now.done_bytes);
        let seconds = since.as_secs_f64().max(1e-9);
        let rate = (self.now.done_bytes - self.told_bytes) as f64 / seconds;
        let fresh = if self.now.bytes_per_second == 0.0 {
            1.0
        } else {
            1.0 - (-seconds / MEMORY_S).exp()
        };
        self.now.bytes_per_second += fresh * (rate - self.now.bytes_per_second);
        let left = (self.now.total_bytes - self.now.done_bytes) as f64;
        let eta = left / self.now.bytes_per_second;
        self.now.eta = Duration::try_from_secs_f64(eta).ok();
        self.told_at = Some(now);
        self.told_bytes = self.now.done_bytes;
        tell(&self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_says_that_all_is_done() {
        let mut seen = Vec::new();
        let mut tell = |progress: &Progress| seen.push(*progress);
        let mut meter = Meter::new(Some(&mut tell));
        meter.expect(2, 30);
        meter.bytes(10);
        meter.file(5);
        std::thread::sleep(EVERY);
        meter.file(20); // five more than it was listed with
        meter.finish();
        let last = seen.last().unwrap();
        assert_eq!((last.done_files, last.total_files), (2, 2));
        assert_eq!((last.done_bytes, last.total_bytes), (35, 35));
        assert_eq!(last.eta, Some(Duration::ZERO));
        assert_eq!(seen.len(), 2);
        assert!(seen[0].bytes_per_second > 0.0);
    }
}
