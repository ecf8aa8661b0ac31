//! Joined rows in output order: left rows, each with its matches; right rows without a match by place, after left rows
//! of that place. A row leaves only once nothing before it is undecided, so the order does not depend on cuts.

use std::collections::VecDeque;

use super::input::PendingRow;

#[derive(Debug, Clone, Copy)]
pub(super) struct JoinedRow {
    pub(super) left: Option<PendingRow>,
    pub(super) right: Option<PendingRow>,
}

/// What can still come before a joined row.
#[derive(Debug, Clone, Copy)]
pub(super) struct UndecidedRows {
    /// Place of the first left row that waits for matches.
    pub(super) left: Option<i64>,
    /// Right rows from this place on may still match or follow.
    pub(super) right: Option<i64>,
    /// No row before this place follows.
    pub(super) watermark: i64,
    pub(super) ended: bool,
}

#[derive(Debug, Default)]
pub(super) struct JoinedRows {
    /// Rows with a left row, in its order.
    left: VecDeque<JoinedRow>,
    /// Right rows without a match, by place.
    unmatched: VecDeque<PendingRow>,
}

impl JoinedRows {
    pub(super) fn push(&mut self, left: PendingRow, right: Option<PendingRow>) {
        self.left.push_back(JoinedRow {
            left: Some(left),
            right,
        });
    }

    pub(super) fn push_unmatched(&mut self, right: PendingRow) {
        let at = (self.unmatched).partition_point(|other| other.place <= right.place);
        self.unmatched.insert(at, right);
    }

    /// Takes the rows before which nothing is undecided.
    pub(super) fn take_ready(&mut self, undecided: UndecidedRows, ready: &mut Vec<JoinedRow>) {
        let UndecidedRows {
            left,
            right,
            watermark,
            ended,
        } = undecided;
        loop {
            let first = self.left.front().and_then(|row| row.left);
            let first = first.map(|row| row.place);
            let unmatched = self.unmatched.front().map(|row| row.place);
            match (first, unmatched) {
                (Some(place), other) if other.is_none_or(|other| place <= other) => {
                    if right.is_some_and(|right| right < place) {
                        return;
                    }
                    ready.extend(self.left.pop_front());
                }
                (_, Some(place)) => {
                    let follows = !ended && place >= watermark;
                    if follows || left.is_some_and(|left| left <= place) {
                        return;
                    }
                    ready.extend(self.unmatched.pop_front().map(|row| JoinedRow {
                        left: None,
                        right: Some(row),
                    }));
                }
                (_, None) => return,
            }
        }
    }

    pub(super) fn left_rows(&self) -> impl Iterator<Item = PendingRow> {
        self.left.iter().filter_map(|row| row.left)
    }

    pub(super) fn right_rows(&self) -> impl Iterator<Item = PendingRow> {
        let matched = self.left.iter().filter_map(|row| row.right);
        matched.chain(self.unmatched.iter().copied())
    }

    pub(super) fn bytes(&self) -> u64 {
        let matched = self.left.len() * size_of::<JoinedRow>();
        (matched + self.unmatched.len() * size_of::<PendingRow>()) as u64
    }
}
