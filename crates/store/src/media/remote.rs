//! Remote stores: media by URL, and their errors.
//!
//! A crate with network code [registers](register) itself once; then every store path may be a URL, also in saved plans
//! and worker processes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::{DiskMedia, Media};
use crate::engine::io::IoContext;
use crate::error::StoreError;

/// URL schemes of stores and objects.
pub const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https"];

/// Opens a store's medium by URL, without a request.
pub type OpenRemote = fn(&str) -> io::Result<Arc<dyn Media>>;

struct Opener {
    read: OpenRemote,
    write: OpenRemote,
}

static REMOTE: OnceLock<Opener> = OnceLock::new();

/// Sets how URLs are opened for reading and for writing copies; the first call applies.
pub fn register(read: OpenRemote, write: OpenRemote) {
    let _ = REMOTE.set(Opener { read, write });
}

/// An error of a remote medium, in an [`io::Error`] whose kind tells missing, replaced and failed apart. Contains no
/// secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    /// Stable `snake_case` code.
    pub code: &'static str,
    /// Problem and fix; follows "cannot read s3://...: ".
    pub message: String,
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RemoteError {}

impl RemoteError {
    /// Wraps it for a medium.
    #[must_use]
    pub fn into_io(self, kind: io::ErrorKind) -> io::Error {
        io::Error::new(kind, self)
    }

    /// Unwraps a medium's error.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Whether a path is a store URL, also `pathlib`'s `s3:/bucket`.
#[must_use]
pub fn is_url(path: &Path) -> bool {
    let Some((scheme, rest)) = path.to_str().and_then(|text| text.split_once(':')) else {
        return false;
    };
    rest.starts_with('/') && SCHEMES.contains(&scheme)
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    refuse_unknown_scheme(path)?;
    if !is_url(path) {
        return std::path::absolute(path).at("look at", path);
    }
    let checked = checked_url(&path.to_string_lossy());
    checked
        .map(PathBuf::from)
        .map_err(|error| StoreError::Remote {
            action: "open",
            path: format!(
                "{}://...",
                path.to_string_lossy().split(':').next().unwrap_or_default()
            )
            .into(),
            kind: io::ErrorKind::InvalidInput,
            error,
        })
}

/// Normalises a URL: two slashes after the scheme, none at the end.
///
/// # Errors
/// `bad_url`: it may contain a secret; the message does not.
pub fn checked_url(text: &str) -> Result<String, RemoteError> {
    let (scheme, rest) = text.split_once(':').unwrap_or_default();
    let rest = rest.trim_matches('/');
    let host = rest.split('/').next().unwrap_or_default();
    // `abfss://container@account` is no secret.
    let names_user = match scheme {
        "abfs" | "abfss" => host
            .split('@')
            .next()
            .is_some_and(|user| user.contains(':')),
        _ => host.contains('@'),
    };
    if names_user || rest.contains(['?', '#']) {
        return Err(RemoteError {
            code: "bad_url",
            message: "URLs hold no secrets: names of users, passwords and queries go into the settings of this host (docs/cloud.md); leave them out".into(),
        });
    }
    // Keep an empty bucket, which is refused.
    let slashes = if text.contains(":///") { ":///" } else { "://" };
    Ok(format!("{scheme}{slashes}{rest}"))
}

pub(crate) fn media_of(path: &Path) -> Result<Arc<dyn Media>, StoreError> {
    if !is_url(path) {
        return Ok(Arc::new(DiskMedia));
    }
    let open = REMOTE
        .get()
        .map_or(no_remote as OpenRemote, |open| open.read);
    open(&path.to_string_lossy()).at("open", path)
}

pub(crate) fn media_to_write(path: &Path) -> Result<Arc<dyn Media>, StoreError> {
    if !is_url(path) {
        return Ok(Arc::new(DiskMedia));
    }
    let open = REMOTE
        .get()
        .map_or(no_remote as OpenRemote, |open| open.write);
    open(&path.to_string_lossy()).at("push to", path)
}

/// For example `ftp://host/a`, or `pathlib`'s `ftp:/host/a`.
fn refuse_unknown_scheme(path: &Path) -> Result<(), StoreError> {
    let parts = path.to_str().and_then(|text| text.split_once(':'));
    let is_unknown = |scheme: &str| {
        scheme.len() > 1
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && (scheme.chars()).all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !SCHEMES.contains(&scheme)
    };
    let Some((scheme, _)) =
        parts.filter(|(scheme, rest)| rest.starts_with('/') && is_unknown(scheme))
    else {
        return Ok(());
    };
    let legal = SCHEMES.map(|scheme| format!("{scheme}://")).join(", ");
    let message = match scheme.to_ascii_lowercase().as_str() {
        "file" => format!(
            "stores on this machine's disks are opened by their path: leave file:// out; URLs of stores begin with {legal}"
        ),
        _ => format!(
            "{scheme}:// is not known; URLs of stores begin with {legal}; a folder whose name begins with {scheme}: is ./{scheme}:"
        ),
    };
    Err(StoreError::Remote {
        action: "open",
        path: format!("{scheme}://...").into(),
        kind: io::ErrorKind::InvalidInput,
        error: RemoteError {
            code: "bad_url",
            message,
        },
    })
}

fn no_remote(_url: &str) -> io::Result<Arc<dyn Media>> {
    let error = RemoteError {
        code: "no_remote",
        message: "this program opens no URLs; call isochrony_cloud::register() first".into(),
    };
    Err(error.into_io(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_kept_as_they_are_and_paths_become_absolute() {
        let same = |path: &str| absolute(Path::new(path)).unwrap();
        assert_eq!(same("s3://bucket/a.iso"), Path::new("s3://bucket/a.iso"));
        assert_eq!(
            same("s3://bucket/a.iso/").to_str(),
            Some("s3://bucket/a.iso")
        );
        assert_eq!(same("s3:/bucket/a.iso").to_str(), Some("s3://bucket/a.iso"));
        assert_eq!(
            same("https://host:9000/a.iso").to_str(),
            Some("https://host:9000/a.iso")
        );
        assert!(same("a.iso").is_absolute());
        for url in [
            "https://me:hidden@h/a",
            "https://h/a?sig=hidden",
            "s3://hidden@b/a",
        ] {
            let error = absolute(Path::new(url)).unwrap_err();
            assert_eq!(error.code(), "bad_url");
            assert!(!error.to_string().contains("hidden"), "{error}");
        }
        let azure = "abfss://container@account.dfs.core.windows.net/a.iso";
        assert_eq!(same(azure).to_str(), Some(azure));
        for path in ["/a/s3:/b", "c:/a", "s3:bucket", "ftp://a/b", "a.iso"] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn rejects_urls_of_other_schemes() {
        for url in [
            "ftp://x/y.iso",
            "ftp:/x/y.iso",
            "gcs://b/y.iso",
            "S3://b/y.iso",
            "file:///a/y.iso",
        ] {
            let error = absolute(Path::new(url)).unwrap_err();
            assert_eq!(error.code(), "bad_url", "{url}");
            let message = error.to_string();
            for scheme in SCHEMES {
                assert!(message.contains(&format!("{scheme}://")), "{message}");
            }
            let is_file = message.contains("by their path: leave file:// out");
            assert_eq!(is_file, url.starts_with("file"), "{message}");
        }
        for path in [
            "c:/a",
            "./ftp:/a",
            "a/ftp://b",
            "10:30/a",
            "a:b",
            "/ftp://a",
        ] {
            assert!(absolute(Path::new(path)).unwrap().is_absolute(), "{path}");
        }
    }

    #[test]
    fn rejects_a_url_without_a_registered_opener() {
        let error = media_of(Path::new("s3://bucket/a.iso")).unwrap_err();
        assert_eq!(error.code(), "no_remote");
        let message = error.to_string();
        assert!(
            message.contains("cannot open s3://bucket/a.iso"),
            "{message}"
        );
        assert!(message.contains("isochrony_cloud::register"), "{message}");
    }
}
