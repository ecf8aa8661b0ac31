//! Operators at the boundary of a replica: [`PortionTrimmer`] drops results of neighbouring tasks, [`OutputRecorder`]
//! records what leaves by an exit. Operators between them see a task as a whole execution.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    Break, Contract, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory,
    OperatorProperties, Out, PlanError, Port, PortType, RangeOrigin, SharedRecording, SourceEvent,
};

#[derive(Debug)]
pub(super) enum ExitEvent {
    Item(Item),
    /// A contiguous range begins; it continues from an earlier task if `why` is None.
    RangeStart {
        origin: RangeOrigin,
        why: Option<Break>,
    },
    ProgressMark(i64),
}

/// Does not announce a range again that continues from the last task.
#[derive(Debug, Default)]
pub(super) struct RangeAnnouncer(Option<RangeOrigin>);

impl RangeAnnouncer {
    /// Leaves out the first `delivered` events, which an earlier try of the task gave.
    pub(super) fn announce(
        &mut self,
        events: Vec<ExitEvent>,
        delivered: usize,
        mut give: impl FnMut(SourceEvent),
    ) {
        let mut continues_at = None;
        let is_first = self.0.is_none();
        // Where the task's portion begins: what is read before it may report ranges that are over.
        let portion = match events.first() {
            Some(ExitEvent::ProgressMark(index)) => *index,
            _ => i64::MIN,
        };
        // A fan-in passes others' items up to a mark, and needs to know the first range before.
        let mut held_back = None;
        for event in events.into_iter().skip(delivered) {
            match event {
                ExitEvent::RangeStart { origin, why: None } => {
                    // In later tasks only the last of consecutive ones is new.
                    if is_first {
                        self.continue_at(continues_at, &mut give);
                    }
                    continues_at = Some(origin);
                }
                ExitEvent::RangeStart { origin, why } => {
                    self.continue_at(continues_at.take(), &mut give);
                    self.0 = Some(origin);
                    give(SourceEvent::RangeStart { origin, why });
                }
                ExitEvent::Item(item) => {
                    self.continue_at(continues_at.take(), &mut give);
                    held_back = None;
                    give(SourceEvent::Item(item));
                }
                ExitEvent::ProgressMark(index) => {
                    if is_first || index > portion {
                        self.continue_at(continues_at.take(), &mut give);
                    }
                    held_back = self.0.is_none().then_some(index);
                    if held_back.is_none() {
                        give(SourceEvent::ProgressMark(index));
                    }
                }
            }
        }
        self.continue_at(continues_at, &mut give);
        if let Some(index) = held_back {
            give(SourceEvent::ProgressMark(index));
        }
    }

    fn continue_at(&mut self, origin: Option<RangeOrigin>, give: &mut impl FnMut(SourceEvent)) {
        if let Some(origin) = origin.filter(|&origin| self.0 != Some(origin)) {
            self.0 = Some(origin);
            give(SourceEvent::RangeStart { origin, why: None });
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(super) struct OutputLog(Arc<Mutex<RecordedOutput>>);

#[derive(Debug, Default)]
struct RecordedOutput {
    events: Vec<ExitEvent>,
    upto: Option<i64>,
}

impl OutputLog {
    fn lock(&self) -> MutexGuard<'_, RecordedOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No output of the task begins before `upto`.
    pub(super) fn begin(&self, upto: i64) {
        let (events, upto) = (vec![ExitEvent::ProgressMark(upto)], Some(upto));
        *self.lock() = RecordedOutput { events, upto };
    }

    pub(super) fn take(&self) -> Vec<ExitEvent> {
        std::mem::take(&mut self.lock().events)
    }

    pub(super) fn upto(&self) -> Option<i64> {
        self.lock().upto
    }
}

pub(super) struct OutputRecorder(pub(super) OutputLog);

impl OperatorFactory for OutputRecorder {
    fn name(&self) -> &'static str {
        "hand_over"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Operator for OutputRecorder {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.0.lock().events.push(ExitEvent::Item(item.take()));
        Ok(Next::Consumed)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let mut logged = self.0.lock();
        // Samples before the portion give earlier marks.
        logged.upto = logged.upto.max(Some(upto));
        // Of consecutive marks only the last is needed, and the first of all, where the portion begins.
        match &mut logged.events[..] {
            [_, .., ExitEvent::ProgressMark(last)] => *last = upto.max(*last),
            _ => logged.events.push(ExitEvent::ProgressMark(upto)),
        }
        upto
    }

    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        // The empty break at a task's end only resets operators.
        let over = matches!(why, Some(Break::Dropped(range)) if range.is_empty());
        if !over {
            let why = why.cloned();
            self.0
                .lock()
                .events
                .push(ExitEvent::RangeStart { origin, why });
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(super) struct TrimRange(Arc<Mutex<Range<i64>>>);

impl TrimRange {
    pub(super) fn set(&self, range: Range<i64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = range;
    }

    fn get(&self) -> Range<i64> {
        let range = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        range.clone()
    }
}

#[derive(Debug)]
pub(super) struct PortionTrimmer(pub(super) TrimRange);

impl OperatorFactory for PortionTrimmer {
    fn name(&self) -> &'static str {
        "trim"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Operator for PortionTrimmer {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let kept = self.0.get();
        match item {
            Item::Samples(samples) => {
                let range = samples.range();
                let (from, to) = (range.start.max(kept.start), range.end.min(kept.end));
                if from >= to {
                    return Ok(Next::Consumed);
                }
                if (from, to) != (range.start, range.end) {
                    *samples = samples.subseg(from..to)?;
                }
            }
            Item::Frames(frames) => {
                let part = frames.begin_before(kept.start)..frames.begin_before(kept.end);
                if part == (0..frames.count()) {
                    return Ok(Next::Forward);
                }
                let Some(some) = frames.sub(part) else {
                    return Ok(Next::Consumed);
                };
                *frames = some;
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples or windows",
                    got: other.kind(),
                }
                .into());
            }
        }
        Ok(Next::Forward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(anchor: i64) -> ExitEvent {
        let origin = RangeOrigin::at(anchor);
        ExitEvent::RangeStart { origin, why: None }
    }

    fn mark(index: i64) -> ExitEvent {
        ExitEvent::ProgressMark(index)
    }

    /// Marks as they are, starts as negative numbers.
    fn given(announcer: &mut RangeAnnouncer, events: Vec<ExitEvent>, delivered: usize) -> Vec<i64> {
        let mut all = Vec::new();
        announcer.announce(events, delivered, |event| {
            all.push(match event {
                SourceEvent::RangeStart { origin, .. } => -origin.anchor,
                SourceEvent::ProgressMark(index) => index,
                _ => i64::MIN,
            });
        });
        all
    }

    #[test]
    fn the_first_range_comes_before_marks_that_pass_it() {
        let mut announcer = RangeAnnouncer::default();
        let events = vec![mark(85), start(1), mark(85), mark(90)];
        assert_eq!(given(&mut announcer, events, 0), [-1, 85, 90]);
        // A task without ranges still says how far it is.
        let mut announcer = RangeAnnouncer::default();
        assert_eq!(given(&mut announcer, vec![mark(10), mark(20)], 0), [20]);
    }

    #[test]
    fn later_tasks_announce_only_what_begins_in_their_portion() {
        let mut announcer = RangeAnnouncer::default();
        assert_eq!(given(&mut announcer, vec![mark(0), start(1)], 0), [-1, 0]);
        // What is read before the portion of the second task begins in a range that is over.
        let events = || vec![mark(100), start(40), mark(60), start(70), mark(150)];
        let mut second = RangeAnnouncer(announcer.0);
        assert_eq!(given(&mut second, events(), 0), [100, 60, -70, 150]);
        // A try that failed had given two of them.
        assert_eq!(given(&mut announcer, events(), 2), [60, -70, 150]);
        assert_eq!(
            given(&mut announcer, vec![mark(200), start(70), mark(250)], 0),
            [200, 250]
        );
    }
}
