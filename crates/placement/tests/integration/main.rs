//! One binary, to link once.

mod dispatch;
mod dispatch_model;
mod eviction_model;
mod index_reports;
mod model;
mod provision;
mod simulation;
