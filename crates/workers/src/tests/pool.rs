//! Start and end of real processes: shell scripts that speak the protocol.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_runtime::Interrupt;
use isochrony_segment::DType;

use super::host_function;
use crate::{
    BlockCall, BlockResult, CallContext, CallError, ProcessPool, RemoteFunction, StartCommand,
};

const READY: &str = r"printf '\001\0\0\0\0\0\0\0\0\0\0\0' >&0; ";
/// Reads the request for a function of three bytes.
const LOAD: &str = r"head -c 24 > /dev/null; printf '\002\0\0\0\0\0\0\0\0\0\0\0' >&0; ";
/// Reads the request for memory with its descriptor, and a call.
const READ_CALL: &str = "head -c 113 > /dev/null; ";
const DONE: &str = r"printf '\003\0\0\0\0\0\0\0\0\0\0\0' >&0; ";
const PAYLOAD: &str = "abc";

fn pool(script: impl Into<String>) -> Arc<ProcessPool> {
    let script = script.into();
    ProcessPool::new(move || {
        Ok(StartCommand {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script],
            environment: vec![("GREETING".into(), "hello".into())],
        })
    })
}

fn call_context() -> CallContext {
    CallContext {
        worker: None,
        caller: Some(std::thread::current().id()),
        interrupt: None,
        watch: None,
        check_signals: || Ok(()),
    }
}

fn remote(pool: &Arc<ProcessPool>, context: CallContext, is_stateless: bool) -> RemoteFunction {
    let function = pool.function(host_function(PAYLOAD)).unwrap();
    RemoteFunction::of_blocks(Arc::clone(pool), function, "f", context, is_stateless)
}

fn call(remote: &RemoteFunction) -> Result<BlockResult, CallError> {
    let call = BlockCall {
        input: &[1],
        dtype: DType::U8,
        rows: 1,
        columns: None,
        stride: 1,
        result_dtype: DType::U8,
        result_columns: None,
    };
    remote.call_block(&call, &mut [0])
}

fn has_ended(pid: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| stat.contains(") Z "))
            || !Path::new(&format!("/proc/{}", pid.trim())).exists()
    };
    while !gone() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    gone()
}

#[test]
fn calls_and_reports() {
    let pool = pool(format!(
        "[ $GREETING = hello ] || exit 1; {READY}{LOAD}{READ_CALL}{DONE}cat > /dev/null"
    ));
    let answer = call(&remote(&pool, call_context(), true));
    assert_eq!(answer.unwrap(), BlockResult::Copied);
    let reports = pool.close();
    assert_eq!(reports.len(), 1);
    assert_eq!((reports[0].worker, reports[0].blocks), (None, 1));
    assert_eq!(reports[0].ended, None);
}

#[test]
fn a_worker_has_its_process_ready_before_the_first_call() {
    let pool = pool(format!("{READY}{LOAD}{READ_CALL}{DONE}cat > /dev/null"));
    let worker = CallContext {
        worker: Some(3),
        caller: None,
        ..call_context()
    };
    let remote = remote(&pool, worker, true);
    let process = pool.take(Some(3), false).unwrap();
    assert!(process.connection().is_ready());
    pool.give_back(process);
    call(&remote).unwrap();
    assert_eq!(pool.close()[0].worker, Some(3));
}

#[test]
fn an_idle_process_without_state_is_shared() {
    let script = format!("{READY}while true; do {LOAD}{READ_CALL}{DONE} done");
    let pool = pool(script);
    let worker = |worker| CallContext {
        worker,
        ..call_context()
    };
    let pids = |pool: &ProcessPool, worker| {
        let process = pool.take(worker, true).unwrap();
        let pid = process.report().pid;
        pool.give_back(process);
        pid
    };
    call(&remote(&pool, worker(Some(0)), false)).unwrap();
    let with_state = pids(&pool, Some(0));
    let other = pids(&pool, Some(1));
    assert_ne!(with_state, other, "state stays with its worker");
    assert_eq!(pids(&pool, Some(2)), other);
    assert_eq!(pids(&pool, Some(0)), with_state);
    assert_eq!(pool.close().len(), 2);
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let pool = ProcessPool::new(|| {
        Ok(StartCommand {
            program: "/no/such/program".into(),
            arguments: vec![],
            environment: vec![],
        })
    });
    let error = call(&remote(&pool, call_context(), true)).unwrap_err();
    assert!(matches!(error, CallError::NotStarted { .. }));
    assert!(error.to_string().contains("/no/such/program: No such file"));
}

#[test]
fn without_a_command_functions_are_not_serialized() {
    let pool = ProcessPool::new(|| Err("no interpreter".into()));
    let error = pool.function(host_function(PAYLOAD)).err();
    assert_eq!(
        error.as_deref(),
        Some("cannot travel to a worker process (no interpreter)")
    );
}

#[test]
fn a_process_that_dies_at_its_start_is_not_replaced() {
    let pool = pool("exit 3");
    let error = call(&remote(&pool, call_context(), true)).unwrap_err();
    match &error {
        CallError::DiedAtStart { end, .. } => assert_eq!(end, "ended with exit status 3"),
        other => panic!("{other:?}"),
    }
    let reports = pool.close();
    assert_eq!(reports.len(), 1);
    assert_eq!(
        reports[0].ended.as_deref(),
        Some("ended with exit status 3")
    );
}

#[test]
fn a_call_that_kills_its_process_is_repeated_once() {
    let pool = pool(format!("{READY}{LOAD}{READ_CALL}kill -9 $$"));
    match call(&remote(&pool, call_context(), true)).unwrap_err() {
        CallError::DiedTwice { end, unit, .. } => {
            assert_eq!((end.as_str(), unit), ("was killed by SIGKILL", "block"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pool.close().len(), 2);
}

#[test]
fn a_call_succeeds_in_the_second_process() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("second").display().to_string();
    let pool = pool(format!(
        "{READY}{LOAD}{READ_CALL}[ -e {mark} ] || {{ : > {mark}; kill -11 $$; }}; {DONE}cat > /dev/null"
    ));
    call(&remote(&pool, call_context(), true)).unwrap();
    let ended: Vec<_> = pool
        .close()
        .into_iter()
        .map(|report| report.ended)
        .collect();
    assert_eq!(ended, [Some("was killed by SIGSEGV".to_owned()), None]);
}

#[test]
fn a_function_with_state_is_not_called_again() {
    let pool = pool(format!("{READY}{LOAD}{READ_CALL}exit 0"));
    let error = call(&remote(&pool, call_context(), false)).unwrap_err();
    assert!(matches!(error, CallError::StateLost { .. }), "{error:?}");
    assert_eq!(pool.close().len(), 1);
}

#[test]
fn processes_that_die_idle_are_replaced_but_not_for_ever() {
    // A death before the function is sent is not the call's fault.
    let pool = pool(format!("{READY}exit 0"));
    let function = pool.function(host_function(PAYLOAD)).unwrap();
    let die_idle = |pool: &ProcessPool| {
        let mut process = pool.take(None, false).unwrap();
        // It dies ready, before any request.
        let died = process.load(&function, &mut || Ok(()));
        assert!(died.is_err());
        pool.record_death(process).1
    };
    let may_replace: Vec<bool> = (0..9).map(|_| die_idle(&pool)).collect();
    assert_eq!(
        may_replace,
        [true, true, true, true, true, true, true, true, false]
    );
    let error = call(&remote(&pool, call_context(), true)).unwrap_err();
    assert!(
        matches!(error, CallError::TooManyDeaths { .. }),
        "{error:?}"
    );
}

#[test]
fn a_stop_kills_the_process_and_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids").display().to_string();
    let pool = pool(format!(
        "sleep 600 & echo $! > {pids}; {READY}{LOAD}{READ_CALL}sleep 600"
    ));
    let interrupt = Interrupt::default();
    let stopping = CallContext {
        interrupt: Some(interrupt.clone()),
        ..call_context()
    };
    let remote = remote(&pool, stopping, true);
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        interrupt.request();
    });
    let error = call(&remote).unwrap_err();
    assert!(matches!(error, CallError::Stopped), "{error:?}");
    stopper.join().unwrap();
    let child = std::fs::read_to_string(pids).unwrap();
    assert!(has_ended(&child), "{child} is there still");
}

#[test]
fn signals_are_checked_in_the_callers_thread_only() {
    let pool = pool(format!(
        "{READY}{LOAD}{READ_CALL}sleep 0.3; {DONE}cat > /dev/null"
    ));
    let check_signals = || Err("interrupted".into());
    let worker = CallContext {
        worker: Some(0),
        caller: None,
        check_signals,
        ..call_context()
    };
    call(&remote(&pool, worker, true)).unwrap();
    for worker in [None, Some(1)] {
        let in_caller = CallContext {
            worker,
            check_signals,
            ..call_context()
        };
        match call(&remote(&pool, in_caller, true)).unwrap_err() {
            CallError::Signal(cause) => assert_eq!(cause.to_string(), "interrupted"),
            other => panic!("{other:?}"),
        }
    }
}
