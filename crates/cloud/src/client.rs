//! Clients of object stores, by URL. Each host finds its own credentials: in the variables of its environment, in files
//! that those name, or from its cloud's own service. None is part of a URL, is sent elsewhere or is shown.

use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::error::CloudError;

/// Most time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most time without a byte.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Which service a URL belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    Gcs,
    Azure,
    Http,
    /// Given by the caller, as in tests.
    Given,
}

impl Service {
    /// Variables that say who this host is, for messages.
    pub(crate) fn variables(self) -> &'static str {
        match self {
            Self::S3 => {
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; AWS_SKIP_SIGNATURE=true for public buckets; AWS_ENDPOINT_URL for other services"
            }
            Self::Gcs => {
                "GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_SKIP_SIGNATURE=true for public buckets"
            }
            Self::Azure => {
                "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY; AZURE_SKIP_SIGNATURE=true for public containers"
            }
            Self::Http | Self::Given => "the server's own rules",
        }
    }

    /// Whether a listing is one request for many objects. Web servers list by WebDAV, if at all.
    pub(crate) fn lists(self) -> bool {
        self != Self::Http
    }
}

/// A URL in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) service: Service,
    /// What the client is made for: the scheme and the bucket or host.
    base: String,
    /// What all names of objects begin with.
    pub(crate) prefix: Key,
}

impl Location {
    /// What one client serves.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn parse(url: &str) -> Result<Self, CloudError> {
        let bad = |reason: &str| CloudError::BadUrl {
            reason: reason.into(),
        };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| bad("it has no scheme"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let service = match scheme {
            "s3" | "s3a" => Service::S3,
            "gs" => Service::Gcs,
            "az" | "abfs" | "abfss" => Service::Azure,
            "http" | "https" => Service::Http,
            other => return Err(bad(&format!("its scheme {other} is not known"))),
        };
        if host.is_empty() {
            return Err(bad("it names no bucket or host"));
        }
        let prefix = match service {
            Service::Http => Key::from_url_path(path),
            _ => Key::parse(path),
        };
        let prefix = prefix.map_err(|error| bad(&error.to_string()))?;
        Ok(Self {
            service,
            base: format!("{scheme}://{host}"),
            prefix,
        })
    }

    /// A client; no request is made.
    pub(crate) fn client(&self) -> Result<Arc<dyn ObjectStore>, CloudError> {
        provide_tls();
        let (service, base) = (self.service, self.base.as_str());
        let settings = |error: object_store::Error| CloudError::BadSettings {
            reason: short(&error.to_string()),
            variables: service.variables(),
        };
        let insecure = |endpoint: &str| options().with_allow_http(is_local(endpoint));
        Ok(match service {
            Service::S3 => {
                let builder = AmazonS3Builder::from_env()
                    .with_url(base)
                    .with_retry(retry());
                let builder = match http_endpoint(&["AWS_ENDPOINT_URL", "AWS_ENDPOINT"]) {
                    Some((endpoint, allowed)) => builder.with_client_options(
                        insecure(&endpoint).with_allow_http(allowed || is_local(&endpoint)),
                    ),
                    None => builder.with_client_options(options()),
                };
                Arc::new(builder.build().map_err(settings)?)
            }
            Service::Gcs => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(base);
                let builder = builder.with_retry(retry()).with_client_options(options());
                Arc::new(builder.build().map_err(settings)?)
            }
            Service::Azure => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(base);
                let builder = builder.with_retry(retry());
                let emulated = std::env::var("AZURE_STORAGE_USE_EMULATOR").is_ok();
                let builder = builder.with_client_options(options().with_allow_http(emulated));
                Arc::new(builder.build().map_err(settings)?)
            }
            Service::Http | Service::Given => {
                let builder = HttpBuilder::new().with_url(base).with_retry(retry());
                // The URL itself says that it shall not be encrypted.
                let builder = builder.with_client_options(options().with_allow_http(true));
                Arc::new(builder.build().map_err(settings)?)
            }
        })
    }
}

/// The first of these variables that is set, and whether AWS_ALLOW_HTTP allows an endpoint that is not encrypted.
fn http_endpoint(names: &[&str]) -> Option<(String, bool)> {
    let endpoint = names.iter().find_map(|name| std::env::var(name).ok())?;
    let allowed =
        std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true" || value == "1");
    Some((endpoint, allowed))
}

/// Whether requests to it stay on this machine.
fn is_local(endpoint: &str) -> bool {
    let Some(rest) = endpoint.strip_prefix("http://") else {
        return false;
    };
    let host = rest.split(['/', '?']).next().unwrap_or("");
    let is = |name: &str| {
        host == name
            || host
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(':'))
    };
    is("localhost") || is("127.0.0.1") || is("[::1]")
}

/// HTTP/1: many transfers over one HTTP/2 connection share its window and its one stream of packets.
fn options() -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(READ_TIMEOUT)
        .with_http1_only()
}

/// Some seconds in all, so that what is wrong is said soon.
fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 5,
        retry_timeout: Duration::from_secs(60),
    }
}

/// Says once which cryptography TLS uses, where nobody has said so.
fn provide_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

fn short(text: &str) -> String {
    text.chars().take(200).filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parts = |url: &str| {
            let found = Location::parse(url).unwrap();
            (found.service, found.base, found.prefix.to_string())
        };
        let own = |service, base: &str, prefix: &str| (service, base.to_owned(), prefix.to_owned());
        assert_eq!(
            parts("s3://b/a/w.iso"),
            own(Service::S3, "s3://b", "a/w.iso")
        );
        assert_eq!(parts("gs://b/w.iso"), own(Service::Gcs, "gs://b", "w.iso"));
        assert_eq!(
            parts("az://c/w.iso"),
            own(Service::Azure, "az://c", "w.iso")
        );
        assert_eq!(
            parts("http://localhost:9000/a%20b.iso"),
            own(Service::Http, "http://localhost:9000", "a b.iso")
        );
        assert_eq!(parts("s3://b"), own(Service::S3, "s3://b", ""));
    }

    #[test]
    fn what_is_no_url_of_a_store_is_refused() {
        for (url, word) in [
            ("ftp://h/a", "ftp is not known"),
            ("s3:///a", "no bucket"),
            ("/a/b", "no scheme"),
            ("s3://b/a/../c", "URL cannot be used"),
        ] {
            let error = Location::parse(url).unwrap_err();
            assert_eq!(error.code(), "bad_url");
            assert!(error.to_string().contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn only_endpoints_of_this_machine_may_go_unencrypted_unasked() {
        for endpoint in [
            "http://localhost:9000",
            "http://127.0.0.1:1/x",
            "http://[::1]:80",
        ] {
            assert!(is_local(endpoint), "{endpoint}");
        }
        for endpoint in [
            "http://localhost.evil.org",
            "https://localhost",
            "http://10.0.0.1:9000",
        ] {
            assert!(!is_local(endpoint), "{endpoint}");
        }
    }
}
