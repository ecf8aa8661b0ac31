//! Counts bytes of a copy that have reached its medium: not those staged for object storage.

use isochrony_runtime::Progress;

use super::OnProgress;

pub(super) struct CopyProgress<'a, 'b> {
    on_progress: &'a mut OnProgress<'b>,
    progress: Progress,
    /// Bytes count once published.
    is_published: bool,
    copied: u64,
    /// Bytes of shards, possibly compressed.
    put: u64,
}

impl<'a, 'b> CopyProgress<'a, 'b> {
    pub(super) fn new(on_progress: &'a mut OnProgress<'b>, is_published: bool) -> Self {
        Self {
            on_progress,
            progress: Progress::of(0),
            is_published,
            copied: 0,
            put: 0,
        }
    }

    pub(super) fn begin(&mut self, total: u64) {
        self.progress = Progress::of(total);
        (self.copied, self.put) = (0, 0);
        (self.on_progress)(&self.progress);
    }

    pub(super) fn copied(&mut self, bytes: u64) {
        self.copied += bytes;
        if !self.is_published {
            self.progress.set_done(self.copied);
        }
        (self.on_progress)(&self.progress);
    }

    pub(super) fn put(&mut self, bytes: u64) {
        self.put += bytes;
        self.progress.set_done(self.put.min(self.copied));
        (self.on_progress)(&self.progress);
    }

    pub(super) fn published(&mut self) {
        if self.copied > 0 {
            self.put = self.copied;
            self.progress.set_done(self.copied);
            (self.on_progress)(&self.progress);
        }
    }
}
