//! Errors between this machine and a store's server.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use isochrony_store::media::RemoteError;
use object_store::client::{HttpError, HttpErrorKind};

use crate::credentials::CredentialsError;

/// An error of reading objects. Messages follow "cannot read s3://bucket/a.iso/...: ". They never contain headers,
/// queries or bodies, which may hold secrets.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloudError {
    /// The URL is invalid.
    #[error(
        "the URL cannot be used: {reason}; give one such as s3://bucket/water.iso, gs://bucket/water.iso, az://container/water.iso or https://host/water.iso"
    )]
    BadUrl { reason: String },
    /// The service's client refuses its settings.
    #[error(
        "the settings of this host are refused: {reason}; check {}",
        if variables.is_empty() { "the URL".into() } else { format!("its environment variables ({variables})") }
    )]
    BadSettings {
        reason: String,
        variables: &'static str,
    },
    /// No object of this name.
    #[error("no such object; check the URL")]
    Missing,
    /// The bucket or container does not exist.
    #[error(
        "the bucket does not exist; check the URL, and the endpoint where one is set{}",
        in_parentheses(variables)
    )]
    NoBucket { variables: &'static str },
    /// The server denies access.
    #[error(
        "access is denied ({reason}); this host's credentials need the right to list the bucket and to get its objects, and to put them where it writes{}",
        in_parentheses(variables)
    )]
    Denied {
        reason: String,
        variables: &'static str,
    },
    /// This host has no credentials.
    #[error("this host has no credentials for it ({reason}); set {variables}")]
    NoCredentials {
        reason: String,
        variables: &'static str,
    },
    /// No answer.
    #[error(
        "the server cannot be reached ({reason}); check the network and the URL, and try again"
    )]
    Unreachable { reason: String },
    /// An error answer, also after retries.
    #[error("the server failed ({reason}), even after several tries; try again later")]
    Server { reason: String },
    /// Truncated answers, also after retries.
    #[error(
        "the server's responses end early ({got} of {expected} bytes), even after several tries; try again, or check the object's size"
    )]
    Truncated { got: u64, expected: u64 },
    /// The object was replaced since it was opened.
    #[error(
        "it was replaced on the server since it was opened; call refresh() of the store, or open it again"
    )]
    ChangedRemotely,
    /// A web server without listings.
    #[error(
        "this web server does not list folders (WebDAV's PROPFIND); samples can be read, but not what needs a list of files: use an object store's own URL, or a copy on a disk"
    )]
    CannotList,
    /// A write to a read-only store.
    #[error("stores at URLs are read-only; write to a store on a disk and push it there")]
    ReadOnly,
    /// A push to a web server.
    #[error(
        "web servers take no pushes; give the URL of the object store behind it (s3://, gs:// or az://), or copy a backup there"
    )]
    CannotPush,
    /// A store within another.
    #[error(
        "another store lies {place} ({url}); choose a URL that is neither above nor below another store"
    )]
    NestedStore { place: &'static str, url: String },
    /// Another push changed the copy meanwhile.
    #[error(
        "another push to it began while this one was running; let only one process push at a time, and push again"
    )]
    OtherPush,
    /// The local disk for staged objects failed.
    #[error(
        "the files to upload cannot be staged in {} ({reason}); free space there, or set TMPDIR to a folder of another disk, and push again", path.display()
    )]
    Staging { path: PathBuf, reason: String },
    /// A file to upload cannot be read.
    #[error(
        "{} changed, or cannot be read, during the upload ({reason}); keep it unchanged until the upload ends, and run it again", path.display()
    )]
    Source { path: PathBuf, reason: String },
    /// The caller requested a stop.
    #[error("the transfer was stopped; run it again to continue")]
    Interrupted,
    /// The request thread cannot be started.
    #[error(
        "the thread that sends requests cannot be started ({reason}); end other programs and try again"
    )]
    NoThread { reason: String },
}

impl CloudError {
    /// A stable name of the kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadUrl { .. } => "bad_url",
            Self::BadSettings { .. } => "bad_cloud_settings",
            Self::Missing => "no_such_object",
            Self::NoBucket { .. } => "no_such_bucket",
            Self::Denied { .. } => "access_denied",
            Self::NoCredentials { .. } => "no_credentials",
            Self::Unreachable { .. } => "unreachable",
            Self::Server { .. } => "server_error",
            Self::Truncated { .. } => "truncated_answer",
            Self::ChangedRemotely => "changed_remotely",
            Self::CannotList => "cannot_list",
            Self::ReadOnly => "remote_read_only",
            Self::CannotPush => "cannot_push",
            Self::NestedStore { .. } => "nested_store",
            Self::OtherPush => "other_push",
            Self::Staging { .. } => "push_staging",
            Self::Source { .. } => "unreadable_source",
            Self::Interrupted => "interrupted",
            Self::NoThread { .. } => "no_thread",
        }
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Missing => io::ErrorKind::NotFound,
            Self::Denied { .. } | Self::NoCredentials { .. } => io::ErrorKind::PermissionDenied,
            Self::ChangedRemotely => io::ErrorKind::StaleNetworkFileHandle,
            Self::CannotList => io::ErrorKind::Unsupported,
            Self::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            Self::Interrupted => io::ErrorKind::Interrupted,
            Self::BadUrl { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        }
    }

    pub(crate) fn unanswered() -> Self {
        Self::Server {
            reason: "a request ended without a response".into(),
        }
    }

    /// `variables`: those of the service's credentials.
    pub(crate) fn of(error: &object_store::Error, variables: &'static str) -> Self {
        use object_store::Error as Of;
        let text = chain(error);
        let reason = || status(&text).unwrap_or_else(|| innermost(error));
        if cause_of::<CredentialsError>(error).is_some() {
            let reason = reason();
            return Self::NoCredentials { reason, variables };
        }
        match error {
            Of::NotFound { .. } | Of::Generic { .. } if names_no_bucket(&text) => {
                Self::NoBucket { variables }
            }
            Of::NotFound { .. } => Self::Missing,
            Of::Precondition { .. } | Of::NotModified { .. } => Self::ChangedRemotely,
            Of::PermissionDenied { .. } | Of::Unauthenticated { .. } => {
                let reason = reason();
                Self::Denied { reason, variables }
            }
            // Where listing the bucket is denied, every error looks so.
            _ if matches!(code(&text), Some(401 | 403)) => {
                let reason = reason();
                Self::Denied { reason, variables }
            }
            _ if status(&text).is_some() => Self::Server { reason: reason() },
            _ => match cause_of::<HttpError>(error).map(HttpError::kind) {
                Some(HttpErrorKind::Timeout) => Self::Unreachable {
                    reason: "no answer in time".into(),
                },
                Some(_) => Self::Unreachable {
                    reason: innermost(error),
                },
                None => Self::Server {
                    reason: innermost(error),
                },
            },
        }
    }
}

impl From<CloudError> for io::Error {
    fn from(error: CloudError) -> Self {
        let kind = error.kind();
        if error == CloudError::Missing {
            // Like a missing file on a disk.
            return kind.into();
        }
        let (code, message) = (error.code(), error.to_string());
        RemoteError { code, message }.into_io(kind)
    }
}

fn in_parentheses(variables: &str) -> String {
    match variables {
        "" => String::new(),
        variables => format!(" ({variables})"),
    }
}

/// For matching, never for showing: it may hold secrets.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text.push_str(": ");
        text.push_str(&one.to_string());
        cause = one.source();
    }
    text
}

fn cause_of<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut cause = Some(error);
    while let Some(one) = cause {
        if let Some(found) = one.downcast_ref() {
            return Some(found);
        }
        cause = one.source();
    }
    None
}

pub(crate) fn is_of_transport(error: &object_store::Error) -> bool {
    cause_of::<HttpError>(error).is_some()
}

/// Whether the body of an answer broke off, which `object_store` does not retry.
pub(crate) fn is_broken_off(error: &object_store::Error) -> bool {
    use HttpErrorKind::{Decode, Interrupted, Unknown};
    let kind = cause_of::<HttpError>(error).map(HttpError::kind);
    matches!(kind, Some(Decode | Interrupted | Unknown))
}

pub(crate) fn error_status(error: &object_store::Error) -> Option<u16> {
    code(&chain(error))
}

fn code(text: &str) -> Option<u16> {
    status(text)?.split(' ').next()?.parse().ok()
}

fn names_no_bucket(text: &str) -> bool {
    let names = [
        "NoSuchBucket",
        "ContainerNotFound",
        "specified bucket does not exist",
    ];
    names.iter().any(|name| text.contains(name))
}

/// Such as "403 SignatureDoesNotMatch".
fn status(text: &str) -> Option<String> {
    let number: String = match text.split_once("status code: ") {
        Some((_, rest)) => rest.chars().take_while(char::is_ascii_digit).collect(),
        // An error answer with a success status.
        None if text.contains("Server returned error response: ") => "200".into(),
        None => return None,
    };
    if number.is_empty() {
        return None;
    }
    let name = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    let name = name.map(|(name, _)| name).filter(|name| is_word(name));
    Some(match name {
        Some(name) => format!("{number} {name}"),
        None => number,
    })
}

fn is_word(text: &str) -> bool {
    text.len() <= 60 && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// The last cause, usually the system's, without a query.
fn innermost(error: &dyn Error) -> String {
    let mut last = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        last = one.to_string();
        cause = one.source();
    }
    let end = last.find(['?', '<', '\n']).unwrap_or(last.len()).min(200);
    let end = (0..=end).rev().find(|at| last.is_char_boundary(*at));
    last.truncate(end.unwrap_or(0));
    last
}

#[cfg(test)]
mod tests;
