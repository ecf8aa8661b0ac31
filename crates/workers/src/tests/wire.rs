//! Messages between parent and worker process.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use super::raised;
use crate::error::{ProcessError, RemoteException};
use crate::wire::{MAX_COPIED, RESPONSE_WAIT, Request, Response, WrittenRange, decode};
use crate::wire::{receive, send};

fn tasklet_done(flags: [u8; 2], written: &[[u64; 3]], returned: &[u8]) -> Vec<u8> {
    let mut body = flags.to_vec();
    body.extend((written.len() as u64).to_ne_bytes());
    for number in written.iter().flatten() {
        body.extend(number.to_ne_bytes());
    }
    body.extend(returned);
    body
}

#[test]
fn decodes_every_response() {
    assert_eq!(decode(1, &[]), Some(Response::Ready));
    assert_eq!(decode(2, &[]), Some(Response::Loaded));
    for (kind, keeps_memory) in [(3, false), (4, true)] {
        assert_eq!(
            decode(kind, &[]),
            Some(Response::BlockDone { keeps_memory })
        );
    }
    let shape = Response::UnexpectedResult {
        dtype: "float32".into(),
        shape: vec![7, 2],
    };
    assert_eq!(decode(5, b"float32\n7\n2"), Some(shape));
    let exception = RemoteException {
        pid: 0,
        while_loading: false,
        traceback: "line 1".into(),
        class: "ValueError".into(),
        message: "no".into(),
        pickled: vec![1, 2, 3],
    };
    let body = raised(true, ["line 1", "ValueError", "no"], &[1, 2, 3]);
    let response = Response::Raised {
        keeps_memory: true,
        exception,
    };
    assert_eq!(decode(6, &body), Some(response));
    let written = WrittenRange {
        output: 1,
        start: 20,
        end: 30,
    };
    for (flags, keeps_memory, returned) in
        [([1, 1], true, Some(b"xy".to_vec())), ([0, 0], false, None)]
    {
        let response = Response::TaskletDone {
            keeps_memory,
            written: vec![written],
            returned,
        };
        let body = tasklet_done(flags, &[[1, 20, 30]], b"xy");
        assert_eq!(decode(7, &body), Some(response));
    }
}

#[test]
fn rejects_bodies_that_are_too_short() {
    assert_eq!(decode(5, b""), None);
    assert_eq!(decode(5, b"float32\n-1"), None);
    // Pickled and returned values are optional.
    let texts = raised(false, ["trace", "Error", "no"], &[]);
    let ranges = tasklet_done([0, 1], &[[0, 0, 1], [1, 0, 1]], &[]);
    for (kind, body) in [(6, texts), (7, ranges)] {
        assert!(decode(kind, &body).is_some());
        for len in 0..body.len() {
            assert_eq!(decode(kind, &body[..len]), None, "{kind}, {len} bytes");
        }
    }
    // The bytes of this many ranges overflow.
    let mut body = vec![0, 0];
    body.extend(u64::MAX.to_ne_bytes());
    assert_eq!(decode(7, &body), None);
    for kind in [0, 8, u32::MAX] {
        assert_eq!(decode(kind, &[]), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn decodes_or_rejects_any_bytes(kind in 0u32..10, body in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(Response::Raised { exception, .. }) = decode(kind, &body) {
            prop_assert!(exception.pickled.len() + 25 <= body.len());
        }
    }

    #[test]
    fn sends_the_parts_in_order_whatever_their_sizes(
        lengths in prop::collection::vec(prop_oneof![0..50usize, MAX_COPIED - 20..MAX_COPIED + 20], 0..4),
    ) {
        let parts: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(at, len)| vec![at as u8; *len]).collect();
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            theirs.read_to_end(&mut received).unwrap();
            received
        });
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        send(&mut ours, Request::CallTasklet, &slices).unwrap();
        drop(ours);
        let received = reader.join().unwrap();
        prop_assert_eq!(&received[..4], &4u32.to_ne_bytes());
        prop_assert_eq!(&received[4..12], &(lengths.iter().sum::<usize>() as u64).to_ne_bytes());
        prop_assert_eq!(&received[12..], &parts.concat());
    }
}

fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(RESPONSE_WAIT)).unwrap();
    (ours, theirs)
}

#[test]
fn a_response_may_come_in_pieces_with_pauses() {
    let (mut ours, mut theirs) = pair();
    let sender = std::thread::spawn(move || {
        let mut message = 5u32.to_ne_bytes().to_vec();
        message.extend(9u64.to_ne_bytes());
        message.extend(b"float32\n3");
        for piece in message.chunks(8) {
            theirs.write_all(piece).unwrap();
            std::thread::sleep(2 * RESPONSE_WAIT);
        }
    });
    let mut checks = 0;
    let response = receive(&mut ours, &mut || {
        checks += 1;
        Ok(())
    });
    let shape = Response::UnexpectedResult {
        dtype: "float32".into(),
        shape: vec![3],
    };
    assert_eq!(response.unwrap(), shape);
    assert!(checks > 0);
    sender.join().unwrap();
}

#[test]
fn a_check_that_fails_ends_the_wait() {
    let (mut ours, _theirs) = pair();
    let response = receive(&mut ours, &mut || Err(ProcessError::Stopped));
    assert!(matches!(response, Err(ProcessError::Stopped)));
}

#[test]
fn a_socket_that_closes_within_a_message_is_a_death() {
    for len in [0, 5, 12, 15] {
        let (mut ours, mut theirs) = pair();
        let mut message = 5u32.to_ne_bytes().to_vec();
        message.extend(9u64.to_ne_bytes());
        message.extend(b"float32\n3");
        theirs.write_all(&message[..len]).unwrap();
        drop(theirs);
        let response = receive(&mut ours, &mut || Ok(()));
        assert!(matches!(response, Err(ProcessError::Died)), "{len} bytes");
    }
}

#[test]
fn a_length_beyond_memory_is_an_error_at_once() {
    for len in [u64::MAX, 1 << 60] {
        let (mut ours, mut theirs) = pair();
        theirs.write_all(&7u32.to_ne_bytes()).unwrap();
        theirs.write_all(&len.to_ne_bytes()).unwrap();
        match receive(&mut ours, &mut || Ok(())) {
            Err(ProcessError::Io(error)) => {
                assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
                assert!(error.to_string().contains(&format!("{len} bytes")));
            }
            other => panic!("{other:?}"),
        }
    }
}
