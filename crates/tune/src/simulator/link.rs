//! A link of a running plan: items and counters.

use std::collections::VecDeque;

use super::SimulatedLink;

pub(super) const MAX_SOURCES: usize = 8;

/// Complete items of each source.
pub(super) type Progress = [u64; MAX_SOURCES];

#[derive(Debug, Clone, Copy)]
pub(super) struct LinkItem {
    /// Source items read when the stage made this one.
    pub(super) position: u64,
    pub(super) progress: Progress,
    pub(super) core: u32,
    /// The cache loses it before it is read.
    pub(super) evicted: bool,
    sent_s: f64,
}

pub(super) struct LinkState {
    pub(super) link: SimulatedLink,
    pub(super) capacity: u64,
    items: VecDeque<LinkItem>,
    bytes: u64,
    pub(super) sources: Vec<usize>,
    progress: Progress,
    pub(super) position: u64,
    pub(super) ended: Option<Progress>,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Sum of the occupancy over sent items.
    pub(super) occupancy_sum: f64,
    /// Seconds in the link, over received items.
    pub(super) wait_s: f64,
    /// Items, integrated over time.
    pub(super) item_seconds: f64,
    changed_s: f64,
}

impl LinkState {
    pub(super) fn new(link: SimulatedLink, capacity: u64, sources: Vec<usize>) -> Self {
        Self {
            link,
            capacity,
            items: VecDeque::new(),
            bytes: 0,
            sources,
            progress: Progress::default(),
            position: 0,
            ended: None,
            sent: 0,
            received: 0,
            occupancy_sum: 0.0,
            wait_s: 0.0,
            item_seconds: 0.0,
            changed_s: 0.0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.capacity
    }

    /// Half is free, or so few items are held that each matters.
    pub(super) fn has_room(&self) -> bool {
        let holds_few = self.link.item_bytes > self.capacity / 4;
        self.bytes <= self.capacity / 2 || holds_few && self.bytes < self.capacity
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn count_time(&mut self, now: f64) {
        self.item_seconds += self.items.len() as f64 * (now - self.changed_s);
        self.changed_s = now;
    }

    /// The writer keeps the bound. `cache_bytes` 0: no limit.
    pub(super) fn send(
        &mut self,
        position: u64,
        progress: Progress,
        core: u32,
        cache_bytes: f64,
        now: f64,
    ) {
        self.count_time(now);
        let before = self.bytes as f64;
        self.occupancy_sum += (before / self.capacity as f64).min(1.0);
        self.items.push_back(LinkItem {
            position,
            progress,
            core,
            evicted: cache_bytes > 0.0 && before > cache_bytes,
            sent_s: now,
        });
        self.bytes += self.link.item_bytes;
        self.sent += 1;
    }

    pub(super) fn receive(&mut self, now: f64) -> Option<LinkItem> {
        self.count_time(now);
        let item = self.items.pop_front()?;
        self.bytes -= self.link.item_bytes;
        self.received += 1;
        self.wait_s += now - item.sent_s;
        self.position = item.position;
        self.progress = item.progress;
        Some(item)
    }

    pub(super) fn progress(&self) -> &Progress {
        match &self.ended {
            Some(progress) if self.items.is_empty() => progress,
            _ => &self.progress,
        }
    }
}
