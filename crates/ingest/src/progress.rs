//! Progress of an import.

use std::time::{Duration, Instant};

use isochrony_runtime::Progress;

/// Progress of an import. A refused file counts as done.
#[derive(Debug)]
pub struct ImportProgress {
    /// Bytes of files.
    pub bytes: Progress,
    /// Files.
    pub files: Progress,
}

/// Called at most ten times a second and at the end.
pub type OnProgress<'a> = &'a mut dyn FnMut(&ImportProgress);

const REPORT_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Meter<'a> {
    report: Option<OnProgress<'a>>,
    progress: ImportProgress,
    reported: Option<Instant>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(report: Option<OnProgress<'a>>) -> Self {
        let progress = ImportProgress {
            bytes: Progress::of(0),
            files: Progress::of(0),
        };
        Self {
            report,
            progress,
            reported: None,
        }
    }

    pub(crate) fn expect(&mut self, files: u64, bytes: u64) {
        self.progress.files.extend(files);
        self.progress.bytes.extend(bytes);
        self.reported.get_or_insert_with(Instant::now);
    }

    pub(crate) fn bytes(&mut self, bytes: u64) {
        self.progress.bytes.advance(bytes);
        self.report_if_due(false);
    }

    /// `left`: bytes of it that are not yet counted.
    pub(crate) fn file(&mut self, left: u64) {
        self.progress.files.advance(1);
        self.bytes(left);
    }

    pub(crate) fn finish(&mut self) {
        self.report_if_due(true);
    }

    fn report_if_due(&mut self, at_once: bool) {
        let Some(report) = &mut self.report else {
            return;
        };
        let now = Instant::now();
        let since = now - *self.reported.get_or_insert(now);
        if since < REPORT_INTERVAL && !at_once {
            return;
        }
        // A file that has grown must not exceed the total.
        let bytes = &self.progress.bytes;
        bytes.set_total(bytes.total().max(Some(bytes.done())));
        self.reported = Some(now);
        report(&self.progress);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_reports_completion() {
        let mut seen = Vec::new();
        let mut report = |now: &ImportProgress| {
            let all = |one: &Progress| (one.done(), one.total());
            seen.push((all(&now.files), all(&now.bytes)));
        };
        let mut meter = Meter::new(Some(&mut report));
        meter.expect(2, 30);
        meter.bytes(10);
        meter.file(5);
        std::thread::sleep(REPORT_INTERVAL);
        meter.file(20); // five more than it was listed with
        meter.finish();
        assert_eq!(seen, [((2, Some(2)), (35, Some(35))); 2]);
    }
}
