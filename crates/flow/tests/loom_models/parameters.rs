//! Where parameter changes take effect, under every interleaving of two computing instances and a requesting thread,
//! with at most three preemptions: whatever begins before the change's index is computed without it, and all else with
//! it.

use std::sync::Arc;

use crate::changes::ParameterChanges;
use loom::thread;
use serde_json::Map;

/// `AdjustableOperator` on an item of one element: its index, and the change's index if known.
fn compute(changes: &ParameterChanges, index: i64, known: &mut Vec<i64>) -> (i64, Option<i64>) {
    let mut take = |changes: &ParameterChanges| {
        if changes.requested() != known.len() {
            let new = changes.versions_after(known.len(), Some(index));
            known.extend(new.into_iter().map(|(from, _)| from));
        }
    };
    take(changes);
    changes.admit(index + 1);
    take(changes);
    let in_effect = known.iter().rev().find(|&&from| from <= index);
    (index, in_effect.copied())
}

#[test]
fn each_instance_computes_what_begins_behind_a_change_with_it_and_all_else_without() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let changes = Arc::new(ParameterChanges::default());
        let instances = [[0, 2], [1, 3]].map(|items| {
            let changes = Arc::clone(&changes);
            thread::spawn(move || {
                let mut known = Vec::new();
                items.map(|index| compute(&changes, index, &mut known))
            })
        });
        let change = changes.request(Map::new(), i64::MIN);
        let computed = instances.map(|instance| instance.join().unwrap());
        let from = changes.effective_from(change);
        for (index, in_effect) in computed.into_iter().flatten() {
            let expected = from.filter(|&from| from <= index);
            assert_eq!(in_effect, expected, "index {index} of {from:?}");
        }
    });
}
