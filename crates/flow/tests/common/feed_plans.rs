//! Random plans over a random live feed.

use std::sync::Arc;

use isochrony_flow::Plan;
use proptest::prelude::*;

use super::feed::{Feed, JoinGate};
use super::plans::{around, named, plans, settling, steps};

#[derive(Debug)]
pub(crate) struct FeedPlans {
    pub(crate) plans: [Plan; 2],
    #[allow(dead_code)]
    pub(crate) gate: Arc<JoinGate>,
}

/// After operators with context, a settling filter, windows, or nothing.
pub(crate) fn feed_plans() -> impl Strategy<Value = FeedPlans> {
    let given = (
        (steps(), 0usize..4, 0..around().len(), 0..settling().len()),
        (0i64..60, 1i64..700, 300i64..3000),
        (1i64..200, 1usize..20),
    );
    given.prop_map(
        |((steps, first, near, settles), (gap, len, more), (piece, pause))| {
            let stretches = vec![5..5 + len, 5 + len + gap..5 + len + gap + more];
            let feed = Feed::new(stretches, piece, pause);
            let gate = Arc::clone(&feed.gate);
            let scan = Plan::scan(feed);
            let base = match first {
                0 => named(&scan, &around()[near]).unwrap(),
                1 => named(&scan, &settling()[settles])
                    .and_then(|plan| named(&plan, &around()[near]))
                    .unwrap(),
                2 => scan.rewindow(16).unwrap().power().unwrap(),
                _ => scan,
            };
            let all = plans(base, &steps);
            let plans = [all[all.len() - 1].clone(), all[all.len() / 2].clone()];
            FeedPlans { plans, gate }
        },
    )
}
