#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| isochrony_cache::fuzzing::journal(data));
