//! Piece states kept for later pins by this process; bounded.

use std::collections::HashMap;
use std::sync::Arc;

use crate::journal::ObjectId;
use crate::piece_table::PieceStates;

/// Eight bytes each; a terabyte in pieces of 1 MiB.
const MAX_PIECES: usize = 1 << 20;

/// Drops unpinned objects when there are too many.
#[derive(Debug, Default)]
pub(crate) struct KnownPieces {
    states: HashMap<ObjectId, Arc<PieceStates>>,
    /// Number of pieces, plus one per object.
    pieces: usize,
}

impl KnownPieces {
    pub(crate) fn get(&self, object: ObjectId) -> Option<&Arc<PieceStates>> {
        self.states.get(&object)
    }

    pub(crate) fn insert(&mut self, object: ObjectId, states: Arc<PieceStates>) {
        self.remove(object);
        if self.pieces + cost(&states) > MAX_PIECES {
            self.states
                .retain(|_, states| Arc::strong_count(states) > 1);
            self.pieces = self.states.values().map(cost).sum();
        }
        self.pieces += cost(&states);
        self.states.insert(object, states);
    }

    pub(crate) fn remove(&mut self, object: ObjectId) {
        if let Some(states) = self.states.remove(&object) {
            self.pieces -= cost(&states);
        }
    }
}

fn cost(states: &Arc<PieceStates>) -> usize {
    states.pieces() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpinned_states_are_dropped_when_there_are_too_many_pieces() {
        let mut known = KnownPieces::default();
        let pinned = Arc::new(PieceStates::new(MAX_PIECES / 2));
        known.insert(0, Arc::clone(&pinned));
        let half = || Arc::new(PieceStates::new(MAX_PIECES / 4));
        known.insert(1, half());
        known.insert(2, half());
        let kept = |known: &KnownPieces| [0, 1, 2].map(|id| known.get(id).is_some());
        assert_eq!(kept(&known), [true, false, true]);
        assert_eq!(known.pieces, MAX_PIECES / 2 + MAX_PIECES / 4 + 2);
        known.remove(0);
        known.insert(2, half());
        assert_eq!(known.pieces, MAX_PIECES / 4 + 1);
    }
}
