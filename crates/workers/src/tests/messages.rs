use crate::{CallError, RemoteException};

fn message(error: CallError) -> String {
    error.to_string()
}

fn end() -> String {
    "ended with exit status 3".into()
}

fn function() -> String {
    "<lambda>".into()
}

#[test]
fn every_error_has_its_message() {
    let exception = RemoteException {
        pid: 7,
        while_loading: false,
        traceback: String::new(),
        class: "ValueError".into(),
        message: "too short".into(),
        pickled: Vec::new(),
    };
    let error = || std::io::Error::other("out of luck");
    let messages = [
        (CallError::Raised(exception), "ValueError: too short"),
        (
            CallError::Stopped,
            "the call was cancelled, since the run was stopped",
        ),
        (CallError::Signal("Ctrl-C".into()), "Ctrl-C"),
        (
            CallError::NoCommand {
                reason: "no interpreter".into(),
            },
            "no interpreter",
        ),
        (
            CallError::NotStarted {
                program: "python9".into(),
                error: error(),
            },
            "no worker process can be started (python9: out of luck); give on_workers=\"inline\", or run with workers=1",
        ),
        (
            CallError::DiedAtStart {
                function: function(),
                end: end(),
            },
            "a worker process ended with exit status 3 before it was ready; see its output above, or give \
             on_workers=\"inline\" to call <lambda> in this process",
        ),
        (
            CallError::StateLost {
                function: function(),
                end: end(),
            },
            "the worker process of <lambda> ended with exit status 3, so the state that <lambda> keeps between calls is \
             lost; run the plan again, or give on_workers=\"inline\" to call it in this process",
        ),
        (
            CallError::DiedTwice {
                function: function(),
                end: end(),
                unit: "block",
            },
            "the worker process of <lambda> ended with exit status 3, and so did another that was given the same block; \
             fix <lambda>, or give on_workers=\"inline\" to call it in this process",
        ),
        (
            CallError::TooManyDeaths {
                function: function(),
                end: end(),
            },
            "more than 8 worker processes died in this run, the last of <lambda>, which ended with exit status 3; fix \
             <lambda>, or give on_workers=\"inline\" to call it in this process",
        ),
        (
            CallError::NotPortable {
                function: function(),
                reason: "cannot travel".into(),
            },
            "<lambda> cannot travel, though it could when the run began; do not change its captured variables during the \
             run, or give on_workers=\"inline\"",
        ),
        (
            CallError::OutOfMemory {
                function: function(),
                bytes: 4096,
                error: error(),
                units: "windows",
            },
            "4096 bytes of shared memory for a worker process of <lambda> cannot be allocated (out of luck); run with \
             fewer workers, or make the windows smaller",
        ),
        (
            CallError::Unreachable {
                function: function(),
                error: error(),
            },
            "the worker process of <lambda> cannot be reached (out of luck); give on_workers=\"inline\" to call it in this \
             process",
        ),
    ];
    for (error, expected) in messages {
        assert_eq!(message(error), expected);
    }
}

#[test]
fn the_message_of_a_killed_process_names_the_likely_cause() {
    let killed = CallError::DiedTwice {
        function: function(),
        end: "was killed by SIGKILL".into(),
        unit: "tasklet",
    };
    assert!(message(killed).contains("the system kills what takes too much memory: see its log"));
}
