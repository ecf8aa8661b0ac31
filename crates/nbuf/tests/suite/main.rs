//! Streams through workers, in one binary: each file of a folder of tests would be linked by itself.

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
