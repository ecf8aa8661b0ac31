//! Shared by several test files and binaries.

#[path = "../common/changing.rs"]
pub(crate) mod changing;
#[path = "../common/channels.rs"]
pub(crate) mod channels;
#[path = "../common/fail.rs"]
pub(crate) mod fail;
#[path = "../common/feed.rs"]
pub(crate) mod feed;
#[path = "../common/feed_plans.rs"]
pub(crate) mod feed_plans;
#[path = "../common/gapped.rs"]
pub(crate) mod gapped;
#[path = "../common/loopback.rs"]
pub(crate) mod loopback;
#[path = "../common/made.rs"]
pub(crate) mod made;
#[path = "../common/noise.rs"]
pub(crate) mod noise;
#[path = "../common/plans.rs"]
pub(crate) mod plans;
#[path = "../common/quiet.rs"]
pub(crate) mod quiet;
