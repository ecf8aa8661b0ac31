//! The memory limit, as the system counts it. Alone in its process, so that nothing else is counted.

#[path = "suite/common/mod.rs"]
mod common;

use std::fs::{self, File, OpenOptions};

use common::ORDERS;
use isochrony_nbuf::{Framing, Input, Options, Out, Output, PerRecord, run};

/// Bytes of this process that are its own and in memory.
fn own() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let of = |name: &str| {
        let line = status
            .lines()
            .find(|line| line.starts_with(name))
            .expect("the system counts it");
        let digits: String = line.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect("a number") * 1024
    };
    of("RssAnon") + of("RssShmem")
}

#[test]
fn memory_does_not_grow_beyond_the_limit_and_sixteen_megabytes() {
    const LIMIT: usize = 48_000_000;
    let file = tempfile::tempfile().expect("a file");
    file.set_len(256 << 20).expect("a sparse file");
    // Each record is written twice.
    let twice = PerRecord(|record: &[u8], out: &mut Out<'_>| {
        out.put(0, record)?;
        Ok(out.put(0, record)?)
    });
    let before = own();
    for order in ORDERS {
        for (framing, buffer) in [
            (Framing::Stride(1000), None),
            (Framing::Stride(1000), Some(4_500_000)),
            // Never found: the whole of it is one record, until the memory ends.
            (Framing::Delimited(b"#".to_vec()), None),
        ] {
            let lost = !matches!(framing, Framing::Stride(_));
            let input = Input::file(file.try_clone().expect("a file")).expect("a file");
            let sink: File = OpenOptions::new()
                .write(true)
                .open("/dev/null")
                .expect("it is there");
            let options = Options {
                order,
                workers: Some(5),
                memory: LIMIT,
                framing,
                buffer,
                ..Options::default()
            };
            std::io::Seek::rewind(&mut &file).expect("a file");
            let mut most = 0;
            let done = run(
                &options,
                vec![input],
                &twice,
                vec![Output::file(sink).expect("a device")],
                &mut |_| {
                    most = most.max(own());
                    true
                },
            );
            assert_eq!(done.is_err(), lost, "{order:?}");
            let grown = most.saturating_sub(before);
            assert!(
                grown <= LIMIT as u64 + 16_000_000,
                "{grown} bytes with a limit of {LIMIT}, {options:?}"
            );
            let peak = done.map_or_else(
                |failure| failure.report.peak_bytes,
                |report| report.peak_bytes,
            );
            assert!(peak <= LIMIT as u64, "{peak} bytes with a limit of {LIMIT}");
        }
    }
}
