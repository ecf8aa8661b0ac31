//! One binary, to link once.

mod clock_estimator;
mod connections;
mod descriptions;
mod feeds;
mod followed_runs;
mod sessions;
