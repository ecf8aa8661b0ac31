//! The trust classifier against its training tool's scores, on held-out families, and with bad input.

mod accuracy;
mod refusals;
mod rows;
mod scores;
mod sense;
