use super::{FakeProcess, PID, function, raised};
use crate::RemoteException;
use crate::error::ProcessError;
use crate::records::{RecordCall, RecordPiece, RecordResult};

const CALL: RecordCall<'static> = RecordCall {
    bytes: b"onethree",
    lengths: &[3, 5],
    outputs: 2,
};

/// A piece is record, output and length.
fn answer(completed: u64, pieces: &[[u64; 3]], bytes: &[u8], failure: Option<&[u8]>) -> Vec<u8> {
    let mut body = vec![0, 1, u8::from(failure.is_some())];
    let numbers = [completed, pieces.len() as u64, 3, bytes.len() as u64];
    for number in numbers.iter().chain(pieces.as_flattened()) {
        body.extend(number.to_ne_bytes());
    }
    body.extend(b"sum");
    body.extend(bytes);
    body.extend(failure.unwrap_or_default());
    body
}

fn called(body: Vec<u8>) -> Result<Result<RecordResult, RemoteException>, ProcessError> {
    let function = function("records");
    let number = function.number();
    let (mut connection, process) = FakeProcess::start(move |process| {
        process.load();
        assert_eq!(process.receive().0, 1);
        let (kind, message) = process.receive();
        assert_eq!(kind, 6);
        let field = |at: usize| u64::from_ne_bytes(message[8 * at..8 * at + 8].try_into().unwrap());
        assert_eq!([0, 2, 4, 5].map(field), [number, 8, 2, 2]);
        assert!(
            field(1) >= field(3) + 16,
            "the lengths are within the memory"
        );
        assert_eq!(process.read(0, 8), b"onethree");
        let lengths = process.read(field(3), 16);
        assert_eq!(lengths, [3_u64.to_ne_bytes(), 5_u64.to_ne_bytes()].concat());
        process.send(8, &body);
    });
    assert_eq!(connection.load(&function, &mut || Ok(())).unwrap(), None);
    let answer = CALL.call(&mut connection, number, &mut || Ok(()));
    process.join().unwrap();
    answer
}

#[test]
fn what_a_function_returned_comes_back_in_order() {
    let itself = u64::MAX;
    let body = answer(2, &[[0, 1, 2], [1, 0, itself], [1, 1, 1]], b"abc", None);
    let piece = |record, output, length| RecordPiece {
        record,
        output,
        length,
    };
    let wanted = RecordResult {
        pieces: vec![
            piece(0, 1, Some(2)),
            piece(1, 0, None),
            piece(1, 1, Some(1)),
        ],
        bytes: b"abc".to_vec(),
        accumulator: Some(b"sum".to_vec()),
        failure: None,
        completed: 2,
    };
    assert_eq!(called(body).unwrap(), Ok(wanted));
}

#[test]
fn a_failure_comes_with_what_was_returned_before() {
    let exception = &raised(false, ["trace", "ValueError", "bad"], b"p")[1..];
    let result = called(answer(1, &[[0, 0, 1]], b"x", Some(exception)));
    let result = result.unwrap().unwrap();
    assert_eq!((result.completed, &result.bytes[..]), (1, &b"x"[..]));
    let failure = result.failure.unwrap();
    assert_eq!((failure.pid, failure.class.as_str()), (PID, "ValueError"));
    assert_eq!(
        (failure.message.as_str(), &failure.pickled[..]),
        ("bad", &b"p"[..])
    );
}

#[test]
fn answers_that_contradict_the_call_are_refused() {
    let refused = [
        // Of a record that was not sent, for a missing output, out of order.
        answer(2, &[[2, 0, 1]], b"a", None),
        answer(2, &[[0, 2, 1]], b"a", None),
        answer(2, &[[1, 0, 1], [0, 0, 0]], b"a", None),
        // More or fewer bytes than the pieces have.
        answer(2, &[[0, 0, 2]], b"a", None),
        answer(2, &[[0, 0, u64::MAX - 1], [1, 0, 3]], b"ab", None),
        answer(2, &[], b"a", None),
        // An end before all records without a failure, and more records than sent.
        answer(1, &[], b"", None),
        answer(3, &[], b"", None),
    ];
    for (number, body) in refused.into_iter().enumerate() {
        let refused = matches!(called(body), Err(ProcessError::Io(error)) if error.to_string().contains("malformed"));
        assert!(refused, "answer {number}");
    }
    let whole = answer(2, &[[0, 0, 1]], b"a", None);
    for length in [2, 10, 40, whole.len() - 1] {
        let cut = whole[..length].to_vec();
        assert!(called(cut).is_err(), "{length} bytes");
    }
}
