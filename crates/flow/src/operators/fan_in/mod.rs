//! Operators of several inputs, and those that shift or feed back a stream.

pub(crate) mod align;
pub(crate) mod aligned_items;
pub(crate) mod delayed;
pub(crate) mod feedback;
pub(crate) mod join;
pub(crate) mod merge;
pub(crate) mod sync;
pub(crate) mod window_pairs;
pub(crate) mod zip;

register! {
    align: Align;
    delayed: Delayed;
    feedback: Feedback;
    join: Join;
    merge: Merge;
    sync: Sync;
    zip: Zip;
}
