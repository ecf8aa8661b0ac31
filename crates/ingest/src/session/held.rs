use isochrony_time::{Fixed, Stamp};

pub(crate) struct HeldBlock {
    pub(crate) source: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) stamp: Option<Stamp>,
}

impl HeldBlock {
    pub(crate) fn new(source: u64, bytes: &[u8], stamp: Option<Stamp>) -> Self {
        Self {
            source,
            bytes: bytes.into(),
            stamp,
        }
    }
}

pub(crate) struct UndecidedBlocks {
    pub(super) blocks: Vec<HeldBlock>,
    /// Civil end of the recording, before which they lie.
    pub(super) recorded: Fixed,
    end: Fixed,
    /// Tolerance of a stamp that continues them.
    slack: Fixed,
    /// Whether they come from the recording's source.
    pub(super) own: bool,
}

impl UndecidedBlocks {
    pub(super) fn new(recorded: Fixed, own: bool) -> Self {
        Self {
            blocks: Vec::new(),
            recorded,
            end: recorded,
            slack: Fixed::ZERO,
            own,
        }
    }

    pub(super) fn is_of(&self, source: u64) -> bool {
        self.blocks.last().is_some_and(|held| held.source == source)
    }

    pub(super) fn add(&mut self, held: HeldBlock, duration: Fixed, slack: Fixed) {
        self.end = plus(
            held.stamp.map_or(self.end, |stamp| middle(&stamp)),
            duration,
        );
        self.slack = slack;
        self.blocks.push(held);
    }

    pub(super) fn is_past_recording(&self) -> bool {
        self.end > plus(self.recorded, self.slack)
    }

    /// Rather than the recording. If both end at the same time, it continues these: a stepped-back clock has caught up.
    pub(super) fn is_continued_by(&self, stamp: &Stamp) -> bool {
        let at = middle(stamp);
        let off = distance(at, self.end);
        off <= plus(self.slack, stamp.resolution) && off <= distance(at, self.recorded)
    }
}

pub(super) fn middle(stamp: &Stamp) -> Fixed {
    plus(
        stamp.civil,
        Fixed::from_bits(stamp.resolution.to_bits() / 2),
    )
}

pub(super) fn plus(time: Fixed, by: Fixed) -> Fixed {
    time.checked_add(by).unwrap_or(Fixed::MAX)
}

pub(super) fn distance(a: Fixed, b: Fixed) -> Fixed {
    let distance = a.checked_sub(b).and_then(Fixed::checked_abs);
    distance.unwrap_or(Fixed::MAX)
}
