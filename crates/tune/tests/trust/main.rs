//! The trust classifier against the scores of its training tool, on links of held-out families, and with bad input.

mod accuracy;
mod refusals;
mod rows;
mod scores;
mod sense;
