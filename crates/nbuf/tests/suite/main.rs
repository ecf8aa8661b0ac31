//! Tests of whole executions in one binary, since each would be linked separately.

mod broken_outputs;
mod common;
mod cut_records;
mod endings;
mod framings;
mod interleaving;
mod native;
mod orders;
mod several;
mod table2;
mod tuned;
mod varints;
