//! Reads arbitrary bytes as the journal of a cache: an index that is read adds up, and its snapshot reads back as the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| isochrony_cache::fuzzing::journal(data));
