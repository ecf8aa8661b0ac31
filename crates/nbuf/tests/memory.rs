//! The memory limit, measured by the system; alone in its process.

#[path = "suite/common/mod.rs"]
mod common;

use std::fs::{self, File, OpenOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::ORDERS;
use isochrony_nbuf::{BufferOutput, Framing, Input, Options, Output, PerRecord, run};

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

/// With the peak of resident private bytes. Measured by another thread, since the watch is called too rarely.
fn watched<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let (done, most) = (AtomicBool::new(false), AtomicU64::new(own()));
    let gave = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(own(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let gave = run();
        done.store(true, Ordering::Relaxed);
        gave
    });
    (gave, most.into_inner())
}

#[test]
fn memory_does_not_grow_beyond_the_limit_and_sixteen_megabytes() {
    const LIMIT: usize = 48_000_000;
    let file = tempfile::tempfile().expect("a file");
    file.set_len(256 << 20).expect("a sparse file");
    let twice = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
        out.write(0, record)?;
        Ok(out.write(0, record)?)
    });
    let before = own();
    for order in ORDERS {
        // Never found, so the file is one record.
        let endless = || Framing::Delimited(b"#".to_vec());
        for (framing, buffer, workers) in [
            (Framing::Stride(1000), None, 5),
            (Framing::Stride(1000), Some(4_500_000), 5),
            (endless(), None, 5),
            (endless(), None, 1),
        ] {
            let lost = !matches!(framing, Framing::Stride(_));
            let input = Input::file(file.try_clone().expect("a file")).expect("a file");
            let sink: File = OpenOptions::new()
                .write(true)
                .open("/dev/null")
                .expect("it is there");
            let options = Options {
                order,
                workers: Some(workers),
                memory: LIMIT,
                framing,
                buffer,
                ..Options::default()
            };
            std::io::Seek::rewind(&mut &file).expect("a file");
            let output = Output::file(sink).expect("a device");
            let (done, most) =
                watched(|| run(&options, vec![input], &twice, vec![output], &mut |_| true));
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
