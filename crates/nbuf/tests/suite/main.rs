//! Tests in one binary, which links once.

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
