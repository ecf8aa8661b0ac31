//! The trust classifier on held-out families, and with bad input.

mod accuracy;
mod refusals;
mod rows;
mod scores;
mod sense;
