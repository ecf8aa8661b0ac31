//! Calls over one connection.

use std::sync::Arc;

use isochrony_segment::{Buffer, DType};
use serde_json::{Value, json};

use super::{FakeProcess, PID, TestFunction, function, raised};
use crate::block::{BlockCall, BlockResult};
use crate::connection::Connection;
use crate::error::ProcessError;
use crate::tasklet::{InputSegment, TaskletCall, TaskletInput, TaskletOutput, TaskletResult};
use crate::{PortableFunction, RemoteException};

fn no_interrupt() -> Result<(), ProcessError> {
    Ok(())
}

fn block(input: &[u8]) -> BlockCall<'_> {
    BlockCall {
        input,
        dtype: DType::U8,
        rows: input.len(),
        columns: None,
        stride: 1,
        result_dtype: DType::I16,
        result_columns: Some(1),
    }
}

fn call_block(
    connection: &mut Connection,
    function: &Arc<PortableFunction>,
    input: &[u8],
    out: &mut [u8],
) -> Result<Result<BlockResult, RemoteException>, ProcessError> {
    assert_eq!(connection.load(function, &mut no_interrupt)?, None);
    block(input).call(connection, function.number(), out, &mut no_interrupt)
}

fn u64_at(message: &[u8], field: usize) -> u64 {
    u64::from_ne_bytes(message[8 * field..8 * field + 8].try_into().unwrap())
}

#[test]
fn loads_a_function_once_and_shares_memory_once() {
    let function = function("double");
    let number = function.number();
    let (mut connection, process) = FakeProcess::start(move |process| {
        let (kind, body) = process.load();
        assert_eq!(kind, 2);
        assert_eq!(u64_at(&body, 0), number);
        assert_eq!(&body[8..], b"\x01double");
        let mut kinds = Vec::new();
        for _ in 0..3 {
            let mut request = process.receive();
            while request.0 != 3 {
                kinds.push(request.0);
                request = process.receive();
            }
            let (kind, body) = request;
            kinds.push(kind);
            assert_eq!(body.len(), 88);
            assert_eq!(u64_at(&body, 0), number);
            let rows = u64_at(&body, 1);
            assert_eq!(u64_at(&body, 2), u64::MAX, "single values");
            assert_eq!((u64_at(&body, 3), u64_at(&body, 6)), (1, 1));
            assert_eq!(&body[56..72], b"uint8\0\0\0\0\0\0\0\0\0\0\0");
            assert_eq!(&body[72..88], b"int16\0\0\0\0\0\0\0\0\0\0\0");
            let (result_at, size) = (u64_at(&body, 4), u64_at(&body, 5));
            assert!(result_at >= rows && size >= result_at + 2 * rows);
            for (at, value) in process.read(0, rows as usize).into_iter().enumerate() {
                let result = 2 * i16::from(value);
                process.write(&result.to_ne_bytes(), result_at + 2 * at as u64);
            }
            process.send(3, &[]);
        }
        kinds
    });
    for input in [vec![1u8, 200], vec![7; 5000], vec![9; 10]] {
        let mut out = vec![0; 2 * input.len()];
        let answer = call_block(&mut connection, &function, &input, &mut out).unwrap();
        assert_eq!(answer, Ok(BlockResult::Copied));
        let doubled = input
            .iter()
            .flat_map(|value| (2 * i16::from(*value)).to_ne_bytes());
        assert_eq!(out, doubled.collect::<Vec<_>>());
    }
    assert_eq!(process.join().unwrap(), [1, 3, 3, 3]);
}

#[test]
fn memory_that_a_function_keeps_is_not_written_again() {
    let function = function("keep");
    let (mut connection, process) = FakeProcess::start(|process| {
        process.load();
        // Memory kept after a result, kept after an exception, not kept.
        let answers = [
            (4, Vec::new()),
            (6, raised(true, ["", "E", ""], &[])),
            (3, Vec::new()),
        ];
        let mut kept = Vec::new();
        for (kind, body) in answers {
            assert_eq!(process.receive().0, 1);
            assert_eq!(process.receive().0, 3);
            kept.push(process.memory.as_ref().unwrap().try_clone().unwrap());
            process.send(kind, &body);
        }
        process.socket.shutdown(std::net::Shutdown::Both).unwrap();
        kept.iter()
            .map(|memory| {
                let mut byte = [0];
                std::os::unix::fs::FileExt::read_exact_at(memory, &mut byte, 0).unwrap();
                byte[0]
            })
            .collect::<Vec<_>>()
    });
    let mut out = [0; 2];
    let answers = [1u8, 2, 3].map(|value| {
        call_block(&mut connection, &function, &[value], &mut out)
            .unwrap()
            .is_ok()
    });
    assert_eq!(answers, [true, false, true]);
    assert_eq!(process.join().unwrap(), [1, 2, 3]);
}

#[test]
fn a_loading_exception_is_raised_by_every_call() {
    let function = function("broken");
    let (mut connection, process) = FakeProcess::start(|process| {
        process.send(1, &[]);
        process.receive();
        process.send(
            6,
            &raised(false, ["trace", "ImportError", "no module"], b"p"),
        );
        std::io::Read::read(&mut process.socket, &mut [0]).unwrap()
    });
    let expected = RemoteException {
        pid: PID,
        while_loading: true,
        traceback: "trace".into(),
        class: "ImportError".into(),
        message: "no module".into(),
        pickled: b"p".to_vec(),
    };
    for _ in 0..2 {
        let exception = connection.load(&function, &mut no_interrupt).unwrap();
        assert_eq!(exception.as_ref(), Some(&expected));
    }
    drop(connection);
    assert_eq!(process.join().unwrap(), 0, "nothing else is sent");
}

#[test]
fn released_functions_are_forgotten_before_another_is_loaded() {
    let (first, second) = (function("first"), function("second"));
    let numbers = (first.number(), second.number());
    let (mut connection, process) = FakeProcess::start(move |process| {
        process.load();
        let (kind, body) = process.receive();
        assert_eq!((kind, u64_at(&body, 0)), (5, numbers.0));
        let (kind, body) = process.receive();
        assert_eq!((kind, u64_at(&body, 0)), (2, numbers.1));
        process.send(2, &[]);
    });
    connection.load(&first, &mut no_interrupt).unwrap();
    first.release();
    connection.load(&second, &mut no_interrupt).unwrap();
    process.join().unwrap();
}

#[test]
fn says_whether_a_death_may_be_the_fault_of_the_call() {
    for answers in [0, 1] {
        let function = function("die");
        let (mut connection, process) = FakeProcess::start(move |process| {
            process.load();
            for _ in 0..answers {
                process.receive();
                process.receive();
            }
        });
        connection.load(&function, &mut no_interrupt).unwrap();
        let mut out = [0; 2];
        if answers == 0 {
            process.join().unwrap();
            let died = call_block(&mut connection, &function, &[1], &mut out);
            assert!(matches!(died, Err(ProcessError::Died)));
        } else {
            let died = call_block(&mut connection, &function, &[1], &mut out);
            assert!(matches!(died, Err(ProcessError::Died)));
            process.join().unwrap();
        }
        assert_eq!(connection.was_asked(), answers == 1);
        assert!(connection.is_ready());
    }
}

#[test]
fn an_answer_to_another_question_is_an_error() {
    let function = function("confused");
    let (mut connection, process) = FakeProcess::start(|process| {
        process.load();
        process.receive();
        process.receive();
        process.send(1, &[]);
    });
    let answer = call_block(&mut connection, &function, &[1], &mut [0; 2]);
    match answer {
        Err(ProcessError::Io(error)) => {
            assert!(error.to_string().contains("does not match the request"))
        }
        other => panic!("{other:?}"),
    }
    process.join().unwrap();
}

#[test]
fn a_function_that_cannot_be_serialized_any_more_is_not_sent() {
    let source = Arc::new(TestFunction {
        id: 0,
        payload: Ok("a payload that is left out at first"),
    });
    let function = Arc::new(PortableFunction::new(source, Some(4)).unwrap());
    assert_eq!(
        **function.payload().unwrap(),
        *b"a payload that is left out at first"
    );
    let source = TestFunction {
        id: 0,
        payload: Err("cannot travel"),
    };
    let error = PortableFunction::new(Arc::new(source), None).err();
    assert_eq!(error.as_deref(), Some("cannot travel"));
}

fn tasklet<T>(
    answer: Vec<u8>,
    check: impl FnOnce(Result<Result<TaskletResult, RemoteException>, ProcessError>) -> T,
) -> (T, Value, Vec<Vec<u8>>) {
    let function = function("tasklet");
    let (mut connection, process) = FakeProcess::start(move |process| {
        process.load();
        process.receive();
        let (kind, body) = process.receive();
        assert_eq!(kind, 4);
        let description: Value = serde_json::from_slice(&body[16..]).unwrap();
        let mut inputs = Vec::new();
        for segment in description["inputs"][0]["segments"].as_array().unwrap() {
            let (len, at) = (segment[1].as_u64().unwrap(), segment[2].as_u64().unwrap());
            inputs.push(process.read(at, 2 * len as usize));
        }
        for (number, output) in description["outputs"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
        {
            let samples: Vec<u8> = (0..12).map(|at| 100 * number as u8 + at).collect();
            process.write(&samples, output["place"].as_u64().unwrap());
        }
        process.send(7, &answer);
        (description, inputs)
    });
    let buffer = |bytes: &[u8]| Buffer::copy_of(bytes).unwrap();
    let segment = |start, buffers: Vec<Buffer>| InputSegment {
        start,
        samples: buffers.iter().map(|buffer| buffer.len() as u64 / 2).sum(),
        time: json!([start]),
        buffers,
    };
    let output = || TaskletOutput {
        metadata: json!({"name": "out"}),
        samples: 3,
        sample_size: 4,
    };
    let call = TaskletCall {
        name: "one",
        inputs: vec![TaskletInput {
            metadata: json!({"name": "in"}),
            segments: vec![
                segment(5, vec![buffer(&[1, 2]), buffer(&[3, 4, 5, 6])]),
                segment(50, vec![buffer(&[7, 8])]),
            ],
        }],
        outputs: vec![output(), output()],
        allocate: &|len| Buffer::copy_of(&vec![0u8; len]),
    };
    connection.load(&function, &mut no_interrupt).unwrap();
    let result = call.call(&mut connection, function.number(), &mut no_interrupt);
    let checked = check(result);
    let (description, inputs) = process.join().unwrap();
    (checked, description, inputs)
}

fn done(written: &[[u64; 3]]) -> Vec<u8> {
    let mut body = vec![0, 1];
    body.extend((written.len() as u64).to_ne_bytes());
    body.extend(
        written
            .iter()
            .flatten()
            .flat_map(|number| number.to_ne_bytes()),
    );
    body.extend(b"returned");
    body
}

#[test]
fn a_tasklet_reads_its_inputs_and_gives_what_it_wrote() {
    let ((), description, inputs) = tasklet(done(&[[1, 1, 3], [0, 0, 1]]), |result| {
        let result = result.unwrap().unwrap();
        let written: Vec<_> = (result.written.iter())
            .map(|(output, start, samples)| (*output, *start, samples.bytes().to_vec()))
            .collect();
        let expected = [
            (1, 1, vec![104, 105, 106, 107, 108, 109, 110, 111]),
            (0, 0, vec![0, 1, 2, 3]),
        ];
        assert_eq!(written, expected);
        assert_eq!(result.returned.as_deref(), Some(&b"returned"[..]));
    });
    assert_eq!(inputs, [vec![1, 2, 3, 4, 5, 6], vec![7, 8]]);
    assert_eq!(description["name"], "one");
    assert_eq!(description["inputs"][0]["name"], "in");
    assert_eq!(
        description["inputs"][0]["segments"][1],
        json!([50, 1, 64, [50]])
    );
    assert_eq!(description["outputs"][1]["length"], 3);
}

#[test]
fn ranges_outside_of_an_output_are_refused() {
    for range in [[2, 0, 1], [0, 0, 4], [0, 2, 1], [u64::MAX, 0, 0]] {
        tasklet(done(&[range]), |result| match result {
            Err(ProcessError::Io(error)) => {
                assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{range:?}");
            }
            other => panic!("{range:?}: {other:?}"),
        });
    }
}
