//! Reads arbitrary bytes as a cache's journal: an index that is read adds up, and its snapshot reads back the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| isochrony_cache::fuzzing::journal(data));
