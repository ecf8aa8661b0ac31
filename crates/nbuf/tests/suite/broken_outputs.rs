//! Outputs and processors that fail during output: earlier output is complete, ordered later output is not written, and
//! no thread hangs.

use std::io::{self, Write};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{ORDERS, RECORD, numbered, numbers, options, run_unwatched};
use isochrony_nbuf::{
    BlockProcessor, BufferOutput, Cause, Input, NbufError, Order, Output, PerRecord, RecordBlock,
};

/// Writes more than may be staged; or has only trailing output.
struct TrailingOutput {
    early: bool,
    panics: bool,
}

impl BlockProcessor for TrailingOutput {
    type Scratch = Vec<u8>;

    fn new_scratch(&self) -> Vec<u8> {
        Vec::new()
    }

    fn execute(
        &self,
        kept: &mut Vec<u8>,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        if self.early {
            for _ in 0..3 {
                out.write(0, block.bytes)?;
            }
        }
        *kept = block.bytes.to_vec();
        Ok(())
    }

    fn lanes(&self) -> usize {
        2
    }

    fn join(
        &self,
        _: usize,
        _: &mut Vec<u8>,
        _: &RecordBlock<'_>,
        _: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        Ok(())
    }

    fn trailing_output<'w>(&self, kept: &'w Vec<u8>) -> [&'w [u8]; 2] {
        let last = kept.len() == RECORD && **kept == 50_u64.to_le_bytes();
        assert!(!self.panics || !last, "rotten");
        [kept, &[]]
    }
}

struct FailingWriter {
    taken: Arc<Mutex<Vec<u8>>>,
    most: usize,
    panics: bool,
}

impl Write for FailingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.taken.lock().expect("no panic while it is locked");
        if taken.len() + bytes.len() > self.most {
            drop(taken);
            assert!(!self.panics, "rotten");
            return Err(io::Error::other("rotten"));
        }
        taken.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        panic!("rotten")
    }
}

fn ended<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    std::thread::spawn(move || send.send(work()));
    receive
        .recv_timeout(Duration::from_secs(120))
        .expect("it ends without a panic")
}

#[test]
fn outputs_that_panic_or_fail_keep_earlier_output_and_do_not_hang() {
    for order in ORDERS {
        for early in [false, true] {
            for (most, panics) in [(50 * RECORD, true), (50 * RECORD, false), (1 << 20, true)] {
                let taken = Arc::new(Mutex::new(Vec::new()));
                let sink = FailingWriter {
                    taken: Arc::clone(&taken),
                    most,
                    panics,
                };
                let failure = ended(move || {
                    let input = numbered(200);
                    let processor = TrailingOutput {
                        early,
                        panics: false,
                    };
                    run_unwatched(
                        &options(order, 3, 1),
                        vec![Input::bytes(&input)],
                        &processor,
                        vec![Output::writer(sink)],
                    )
                })
                .expect_err("it panics or fails");
                let text = failure.error.to_string();
                assert!(
                    text.contains("cannot write output 0 (writer)") && text.contains("rotten"),
                    "{text}"
                );
                assert!(!failure.report.complete);
                let taken = taken.lock().expect("no panic");
                assert_eq!(failure.report.outputs[0].bytes, taken.len() as u64);
                if order.writes_in_turn() {
                    let each = if early { 4 } else { 1 };
                    let whole = (0..200_u64).flat_map(|one| [one; 4].into_iter().take(each));
                    let expected: Vec<_> = whole.take(taken.len() / RECORD).collect();
                    assert_eq!(numbers(&taken), expected);
                }
            }
        }
    }
}

#[test]
fn trailing_output_that_panics_is_an_error_at_its_buffer() {
    for order in ORDERS {
        let (done, output) = ended(move || {
            let (input, mut output) = (numbered(200), Vec::new());
            let processor = TrailingOutput {
                early: false,
                panics: true,
            };
            let sinks = vec![Output::writer(&mut output)];
            let done = run_unwatched(
                &options(order, 3, 1),
                vec![Input::bytes(&input)],
                &processor,
                sinks,
            );
            (done, output)
        });
        let failure = done.expect_err("it panics");
        assert_eq!(failure.error.offset(), Some(50 * RECORD as u64));
        assert!(!failure.report.complete);
        if order.writes_in_turn() {
            assert_eq!(numbers(&output), (0..50).collect::<Vec<_>>());
        }
    }
}

#[test]
fn an_error_kept_from_an_earlier_execution_does_not_stop_a_later_one_silently() {
    let full = || {
        Output::writer(FailingWriter {
            taken: Arc::default(),
            most: 0,
            panics: false,
        })
    };
    let kept = Mutex::new(None);
    let keeping = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
        // More than may be staged.
        let told = out.write(0, &record.repeat(100));
        *kept.lock().expect("no panic") = told.err();
        Ok(told?)
    });
    let input = numbered(10);
    let inputs = || vec![Input::bytes(&input)];
    let _ = run_unwatched(
        &options(Order::Both, 1, 1),
        inputs(),
        &keeping,
        vec![full()],
    );
    let told = kept.lock().expect("no panic").expect("the output is full");
    for order in ORDERS {
        let stale = ended(move || {
            let stale = PerRecord(move |_: &[u8], _: &mut BufferOutput<'_>| Err(told.into()));
            let input = numbered(10);
            run_unwatched(
                &options(order, 3, 1),
                vec![Input::bytes(&input)],
                &stale,
                vec![],
            )
        });
        let failure = stale.expect_err("nobody stopped this run");
        assert!(
            matches!(failure.error, NbufError::Process { .. }),
            "{failure}"
        );
    }
}
