//! What a task reads beyond its portion, and where what comes of that is cut off: pure.

use super::tree::{Exit, Taken};
use crate::Reach;
use crate::graph::Edge;

/// A cut between what gives too much and who must not have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cutoff {
    /// What is cut, by places.
    pub(super) edge: Edge,
    /// What goes on around the portion, in indices of what is cut.
    pub(super) kept: Reach,
    /// Places of the operators that take what goes on.
    pub(super) takers: Vec<usize>,
    /// Whether that is what is handed over.
    pub(super) exit: bool,
}

/// What [`around`] finds.
pub(super) struct Around {
    /// By place.
    pub(super) needs: Vec<Reach>,
    pub(super) cutoffs: Vec<Cutoff>,
}

pub(super) fn larger(a: Reach, b: Reach) -> Reach {
    Reach {
        before: a.before.max(b.before),
        after: a.after.max(b.after),
    }
}

/// What is read around a portion so that all that leaves by the exits is right, and what of it too much is cut off.
///
/// Each edge wants so much around the portion as who takes it needs for what is wanted of it; a node must give the most that
/// any of its edges wants. What is more than wanted does no harm to an operator that gives too much in any case, as one that
/// needs samples around: that is cut off behind it. Before any other it is cut, so that what leaves is of the portion.
pub(super) fn around(taken: &[Taken], exits: &[Exit]) -> Around {
    let mut needs = vec![Reach::default(); taken.len()];
    // Whether somebody minds if it is given more than it wants.
    let mut minds = vec![false; taken.len()];
    for exit in exits {
        minds[exit.edge.0] = true;
    }
    for (place, one) in taken.iter().enumerate().rev() {
        minds[place] &= !one.step.spills;
        let wants = one.step.wants(needs[place]);
        for &(from, _) in &one.inputs {
            needs[from] = larger(needs[from], wants);
            minds[from] |= minds[place];
        }
    }
    let mut cutoffs: Vec<Cutoff> = Vec::new();
    // Whether a node gives as much as is needed of it, and not more.
    let mut exact = vec![true; taken.len()];
    for (place, one) in taken.iter().enumerate() {
        exact[place] = !one.step.spills;
        let wants = one.step.wants(needs[place]);
        for &edge in &one.inputs {
            if exact[edge.0] && wants == needs[edge.0] {
                continue;
            }
            match minds[place] {
                true => cut(&mut cutoffs, edge, wants, Some(place)),
                false => exact[place] = false,
            }
        }
    }
    for exit in exits.iter().filter(|exit| !exit.gathers) {
        let (from, _) = exit.edge;
        if !exact[from] || needs[from] != Reach::default() {
            cut(&mut cutoffs, exit.edge, Reach::default(), None);
        }
    }
    Around { needs, cutoffs }
}

/// Adds a cut, or who takes what goes on to one that is the same.
fn cut(cutoffs: &mut Vec<Cutoff>, edge: Edge, kept: Reach, taker: Option<usize>) {
    let same = |one: &&mut Cutoff| one.edge == edge && one.kept == kept;
    let place = match cutoffs.iter_mut().find(same) {
        Some(same) => same,
        None => {
            cutoffs.push(Cutoff {
                edge,
                kept,
                takers: Vec::new(),
                exit: false,
            });
            let last = cutoffs.len() - 1;
            &mut cutoffs[last]
        }
    };
    place.exit |= taker.is_none();
    place.takers.extend(taker);
}
