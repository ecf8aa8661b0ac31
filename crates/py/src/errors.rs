//! Rust errors as Python exceptions.
//!
//! Each Rust error enum has a class in `isochrony.errors.native`; a variant with the meaning of a built-in exception
//! has a subclass of both. The stable code determines the class; an unknown one gets the enum's.

use isochrony_flow::{OpErrorKind, PlanError, RunError};
use isochrony_ingest::IngestError;
use isochrony_live::LiveError;
use isochrony_nbuf::NbufError;
use isochrony_segment::SegmentError;
use isochrony_store::StoreError;
use isochrony_time::TimeError;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;

const ENOSPC: i32 = 28;

pub(crate) struct PackageError {
    class: &'static str,
    code: &'static str,
    message: String,
    errno: Option<i32>,
    cause: Option<PyErr>,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

pub(crate) enum Error {
    Package(Box<PackageError>),
    Python(PyErr),
}

impl PackageError {
    /// `class`: in `isochrony.errors.native`.
    pub(crate) fn new(class: &'static str, code: &'static str, message: String) -> Self {
        Self {
            class,
            code,
            message: without_control_characters(message),
            errno: None,
            cause: None,
        }
    }

    pub(crate) fn with_errno(self, errno: Option<i32>) -> Self {
        Self { errno, ..self }
    }

    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    pub(crate) fn with_cause(self, cause: PyErr) -> Self {
        let cause = Some(cause);
        Self { cause, ..self }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }
}

/// Paths may contain control characters, which terminals interpret.
fn without_control_characters(message: String) -> String {
    let is_escaped = |one: char| one.is_control() && !matches!(one, '\n' | '\t');
    if !message.contains(is_escaped) {
        return message;
    }
    let mut escaped = String::with_capacity(message.len() + 16);
    for one in message.chars() {
        match is_escaped(one) {
            true => escaped.extend(one.escape_default()),
            false => escaped.push(one),
        }
    }
    escaped
}

impl From<PyErr> for Error {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<PackageError> for Error {
    fn from(error: PackageError) -> Self {
        Self::Package(Box::new(error))
    }
}

impl From<TimeError> for Error {
    fn from(error: TimeError) -> Self {
        PackageError::new("TimeError", error.code(), error.to_string()).into()
    }
}

impl From<SegmentError> for Error {
    fn from(error: SegmentError) -> Self {
        let class = match error.code() {
            "out_of_range" => "SegmentIndexError",
            "out_of_memory" => "SegmentMemoryError",
            "dtype_mismatch" | "unknown_dtype" | "unsupported_dtype" | "unsupported_complex" => {
                "SegmentTypeError"
            }
            _ => "SegmentError",
        };
        PackageError::new(class, error.code(), error.to_string()).into()
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let class = match &error {
            StoreError::Time(error) => return error.clone().into(),
            StoreError::Segment(error) => return error.clone().into(),
            error => store_class(error.code()),
        };
        let mut raised = PackageError::new(class, error.code(), error.to_string());
        if matches!(error, StoreError::DiskFull { .. }) {
            raised.errno = Some(ENOSPC);
        }
        if let StoreError::Io { source, .. } = &error {
            raised.errno = source.raw_os_error();
            if source.kind() == std::io::ErrorKind::PermissionDenied {
                raised.class = "StorePermissionError";
            }
        }
        raised.into()
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        PackageError::new("PlanError", error.code(), error.to_string()).into()
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        let class = match error {
            RunError::Plan(_) | RunError::Configuration(_) => "PlanError",
            _ => "RunError",
        };
        let mut raised = PackageError::new(class, error.code(), error.to_string());
        if let RunError::Operator { error, .. } | RunError::Task { error, .. } = &error
            && let OpErrorKind::Failed(cause) = error.kind()
            && let Some(python) = cause.downcast_ref::<PyErr>()
        {
            let (cause, asked_to_end) = crate::interpreter::attach(|py| {
                let error = python.is_instance_of::<PyException>(py);
                (python.clone_ref(py), !error)
            });
            if asked_to_end {
                return Self::Python(cause);
            }
            raised.cause = Some(cause);
        }
        raised.into()
    }
}

impl From<IngestError> for Error {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Store(error) => error.into(),
            error => {
                PackageError::new("ImportRefusedError", error.code(), error.to_string()).into()
            }
        }
    }
}

impl From<LiveError> for Error {
    fn from(error: LiveError) -> Self {
        let class = match &error {
            LiveError::Socket { .. } => "LiveOSError",
            _ => "OptionError",
        };
        let mut raised = PackageError::new(class, error.code(), error.to_string());
        if let LiveError::Socket { why, .. } = &error {
            raised.errno = why.raw_os_error();
        }
        raised.into()
    }
}

impl From<NbufError> for Error {
    fn from(error: NbufError) -> Self {
        Self::of_nbuf(&error, "")
    }
}

impl Error {
    /// `behind`: suffix of the message.
    pub(crate) fn of_nbuf(error: &NbufError, behind: &str) -> Self {
        let class = match error {
            NbufError::Option { .. } | NbufError::Memory { .. } => "OptionError",
            NbufError::Write { why, .. } if why.kind() == std::io::ErrorKind::BrokenPipe => {
                "NBufferBrokenPipeError"
            }
            NbufError::Read { .. } | NbufError::Write { .. } | NbufError::Thread { .. } => {
                "NBufferOSError"
            }
            _ => "NBufferError",
        };
        let mut raised = PackageError::new(class, error.code(), format!("{error}{behind}"));
        let io = error.io();
        raised.errno = io.and_then(std::io::Error::raw_os_error);
        let python = match error {
            NbufError::Process { why, .. } => why.downcast_ref::<PyErr>(),
            _ => io
                .and_then(|io| io.get_ref())
                .and_then(|inner| inner.downcast_ref::<PyErr>()),
        };
        if let Some(python) = python {
            let (cause, asked_to_end) = crate::interpreter::attach(|py| {
                (
                    python.clone_ref(py),
                    !python.is_instance_of::<PyException>(py),
                )
            });
            // Not an error of the interrupted function.
            if asked_to_end {
                return Self::Python(cause);
            }
            raised.cause = Some(cause);
        }
        raised.into()
    }
}

fn store_class(code: &str) -> &'static str {
    match code {
        "not_a_store" | "no_such_bucket" => "StoreNotFoundError",
        "store_exists" | "signal_exists" | "name_of_view" | "occupied" => "StoreExistsError",
        "read_only" | "remote_read_only" | "sealed" | "access_denied" | "no_credentials" => {
            "StorePermissionError"
        }
        "locked" => "StoreLockedError",
        "no_such_signal" | "signal_removed" | "signal_overwritten" | "no_such_event" => {
            "StoreKeyError"
        }
        "out_of_bounds" => "StoreIndexError",
        "gap_in_selection" | "clock_step_in_selection" => "GapError",
        "dtype_mismatch" | "not_picklable" => "StoreTypeError",
        "too_large" | "no_memory_for_file" => "StoreMemoryError",
        "io"
        | "disk_full"
        | "poisoned"
        | "forked"
        | "damaged_table"
        | "missing_table"
        | "wrong_table"
        | "missing_folder"
        | "store_vanished"
        | "damaged_file"
        | "missing_samples"
        | "unexpected_file"
        | "oversized_file"
        | "wrong_shard"
        | "lost_commit"
        | "unfinished_backup"
        | "foreign_shard"
        | "undecodable"
        | "newer_format"
        | "network_file_system"
        | "in_the_way"
        | "unreachable"
        | "server_error"
        | "truncated_answer"
        | "changed_remotely"
        | "cannot_list"
        | "bad_cloud_settings"
        | "no_remote"
        | "no_thread"
        | "other_push"
        | "push_staging"
        | "unreadable_source"
        | "needs_recovery" => "StoreOSError",
        _ => "StoreValueError",
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let raised = match error {
            Error::Python(error) => return error,
            Error::Package(raised) => raised,
        };
        crate::interpreter::attach(|py| match exception(py, &raised) {
            Ok(value) => {
                let error = Self::from_value(value);
                if let Some(cause) = raised.cause {
                    error.set_cause(py, Some(cause));
                }
                error
            }
            // The package may be incomplete.
            Err(_) => PyRuntimeError::new_err(raised.message),
        })
    }
}

fn exception<'py>(py: Python<'py>, raised: &PackageError) -> PyResult<Bound<'py, PyAny>> {
    let value = py
        .import("isochrony.errors.native")?
        .getattr(raised.class)?
        .call1((&raised.message,))?;
    value.setattr("code", raised.code)?;
    if let Some(errno) = raised.errno {
        value.setattr("errno", errno)?;
    }
    Ok(value)
}
