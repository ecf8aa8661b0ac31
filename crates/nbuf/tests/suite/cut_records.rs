//! An input that fails within a record: only the whole records before are processed.

use std::io::{self, Read, Write};

use isochrony_nbuf::{
    BufferOutput, Framing, Input, NbufError, Options, Order, Output, PerRecord, StreamFailure,
};

use crate::common::{numbered, options, run_unwatched};

struct FailingReader<'a>(&'a [u8]);

impl Read for FailingReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::Error::from_raw_os_error(libc::EIO)),
            bytes => Ok(bytes),
        }
    }
}

fn unfinished(failure: &StreamFailure) -> u64 {
    match &failure.error {
        NbufError::Read { unfinished, .. } => *unfinished,
        other => panic!("{other}"),
    }
}

fn lines(options: &Options, source: Input<'_>) -> (String, StreamFailure) {
    let mut output = Vec::new();
    let shown = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
        Ok(out.write(0, format!("{}\n", record.escape_ascii()).as_bytes())?)
    });
    let done = run_unwatched(
        options,
        vec![source],
        &shown,
        vec![Output::writer(&mut output)],
    );
    let failure = done.expect_err("the source fails");
    (String::from_utf8(output).expect("text"), failure)
}

#[test]
fn an_incomplete_line_is_not_processed() {
    for (text, whole, cut) in [
        ("123.45\n67.8", "123.45\\n\n", 4),
        ("12", "", 2),
        ("1\n2\n", "1\\n\n2\\n\n", 0),
    ] {
        let options = Options {
            framing: Framing::Delimited(b"\n".to_vec()),
            ..options(Order::Both, 2, 100)
        };
        let (seen, failure) = lines(&options, Input::reader(FailingReader(text.as_bytes())));
        assert_eq!(seen, whole);
        assert_eq!(unfinished(&failure), cut);
        assert_eq!(failure.error.offset(), Some(text.len() as u64));
        let told = failure.to_string();
        let says = format!(
            "the last {cut} bytes before that byte belong to an incomplete record and were not processed"
        );
        assert_eq!(told.contains(&says), cut > 0, "{told}");
    }
}

#[test]
fn an_incomplete_record_of_fixed_length_is_not_processed() {
    let bytes = numbered(3);
    let (seen, failure) = lines(
        &options(Order::Both, 2, 2),
        Input::reader(FailingReader(&bytes[..19])),
    );
    assert_eq!(seen.lines().count(), 2);
    assert_eq!(
        (unfinished(&failure), failure.error.offset()),
        (3, Some(19))
    );
}

#[test]
fn whole_records_of_a_file_that_shrinks_are_processed() {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&numbered(1000)).expect("disk space");
    io::Seek::rewind(&mut file).expect("a file");
    let source = Input::file(file.try_clone().expect("a file")).expect("a file");
    file.set_len(4003).expect("a file");
    let (seen, failure) = lines(&options(Order::Both, 2, 300), source);
    assert_eq!(seen.lines().count(), 500);
    assert_eq!(
        (unfinished(&failure), failure.error.offset()),
        (3, Some(4003))
    );
}

#[test]
fn the_last_record_of_an_input_that_ends_may_be_short() {
    let options = Options {
        framing: Framing::Delimited(b"\n".to_vec()),
        ..options(Order::Both, 2, 100)
    };
    let mut output = Vec::new();
    let copy = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| Ok(out.write(0, record)?));
    let sinks = vec![Output::writer(&mut output)];
    run_unwatched(&options, vec![Input::bytes(b"1\n23")], &copy, sinks).expect("no error");
    assert_eq!(output, b"1\n23");
}
