//! Clients of object stores, by URL. Credentials come from environment variables, files that these name, or the cloud's
//! metadata service, and are never part of a URL, sent elsewhere or shown. An endpoint without TLS is refused unless it
//! is local or a variable allows it ([`allows_http`]).

use std::net::IpAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as S3Key};
use object_store::azure::{AzureConfigKey as AzureKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as GoogleKey};
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use reqwest::Url;

use crate::credentials::MarkedProvider;
use crate::error::CloudError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    Gcs,
    Azure,
    Http,
    /// Provided by the caller, as in tests.
    Custom,
}

impl Service {
    /// Environment variables that configure the service, for messages; empty for a web server, which has none.
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
            Self::Http | Self::Custom => "",
        }
    }

    /// Whether one request lists many objects; web servers list by WebDAV, if at all.
    pub(crate) fn lists(self) -> bool {
        self != Self::Http
    }

    /// Whether listings contain tags, possibly in another form than headers.
    pub(crate) fn lists_tags(self) -> bool {
        matches!(self, Self::S3 | Self::Gcs | Self::Azure)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) service: Service,
    /// Scheme and bucket or host.
    base: String,
    /// Common prefix of all object names.
    pub(crate) prefix: Key,
}

impl Location {
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
            other => {
                return Err(bad(&format!(
                    "its scheme is {other}, expected s3, s3a, gs, az, abfs, abfss, http or https"
                )));
            }
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

    /// Builds the client; sends no request.
    pub(crate) fn client(&self) -> Result<Arc<dyn ObjectStore>, CloudError> {
        provide_tls();
        let (service, base) = (self.service, self.base.as_str());
        let settings = |error: object_store::Error| CloudError::BadSettings {
            reason: short(&error.to_string()),
            variables: service.variables(),
        };
        Ok(match service {
            Service::S3 => {
                let builder = AmazonS3Builder::from_env().with_url(base);
                let value = |key: S3Key| builder.get_config_value(&key);
                let endpoint = value(S3Key::S3Endpoint)
                    .map(|url| Endpoint::new("AWS_ENDPOINT_URL_S3", url))
                    .or_else(|| {
                        Some(Endpoint::new(
                            set_one(["AWS_ENDPOINT_URL", "AWS_ENDPOINT"]),
                            value(S3Key::Endpoint)?,
                        ))
                    });
                let permission = value(S3Key::Client(ClientConfigKey::AllowHttp));
                let permission = BooleanVariable::of("AWS_ALLOW_HTTP", permission, service)?;
                let http = allows_http(&permission, endpoint.as_ref(), service)?;
                let options = options().with_allow_http(http);
                let builder = builder.with_retry(retry()).with_client_options(options);
                let client = builder.clone().build().map_err(settings)?;
                let marked = MarkedProvider::new(client.credentials());
                Arc::new(builder.with_credentials(marked).build().map_err(settings)?)
            }
            Service::Gcs => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(base);
                let value = |key: GoogleKey| builder.get_config_value(&key);
                // Unlike the others, this builder allows HTTP unless told otherwise, so its setting does not show what
                // the user wrote.
                let permission = std::env::var("GOOGLE_ALLOW_HTTP").ok();
                let permission = BooleanVariable::of("GOOGLE_ALLOW_HTTP", permission, service)?;
                let endpoint = value(GoogleKey::BaseUrl);
                let endpoint = endpoint.map(|url| Endpoint::new("GOOGLE_BASE_URL", url));
                let http = allows_http(&permission, endpoint.as_ref(), service)?;
                let options = options().with_allow_http(http);
                let builder = builder.with_retry(retry()).with_client_options(options);
                let client = builder.clone().build().map_err(settings)?;
                let marked = MarkedProvider::new(client.credentials());
                Arc::new(builder.with_credentials(marked).build().map_err(settings)?)
            }
            Service::Azure => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(base);
                let value = |key: AzureKey| builder.get_config_value(&key);
                let emulated = value(AzureKey::UseEmulator);
                let emulated =
                    BooleanVariable::of("AZURE_STORAGE_USE_EMULATOR", emulated, service)?;
                let permission = value(AzureKey::Client(ClientConfigKey::AllowHttp));
                let permission = BooleanVariable::of("AZURE_ALLOW_HTTP", permission, service)?;
                let endpoint = value(AzureKey::Endpoint);
                let variable = set_one(["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]);
                let endpoint = endpoint.map(|url| Endpoint::new(variable, url));
                let http = allows_http(&permission, endpoint.as_ref(), service)?;
                let options = options().with_allow_http(http || emulated.is_true);
                let builder = builder.with_retry(retry()).with_client_options(options);
                let client = builder.clone().build().map_err(settings)?;
                let marked = MarkedProvider::new(client.credentials());
                Arc::new(builder.with_credentials(marked).build().map_err(settings)?)
            }
            Service::Http | Service::Custom => {
                let builder = HttpBuilder::new().with_url(base).with_retry(retry());
                // An http:// URL asks for an unencrypted connection by itself.
                let builder = builder.with_client_options(options().with_allow_http(true));
                Arc::new(builder.build().map_err(settings)?)
            }
        })
    }
}

/// Of variables that mean the same, the one that is set.
fn set_one(variables: [&'static str; 2]) -> &'static str {
    match std::env::var_os(variables[0]) {
        None if std::env::var_os(variables[1]).is_some() => variables[1],
        _ => variables[0],
    }
}

/// A URL of a service, and the variable that sets it.
struct Endpoint {
    variable: &'static str,
    url: String,
}

impl Endpoint {
    fn new(variable: &'static str, url: String) -> Self {
        Self { variable, url }
    }
}

#[derive(Debug)]
struct BooleanVariable {
    name: &'static str,
    is_true: bool,
}

impl BooleanVariable {
    /// Parses the forms that `object_store` knows.
    fn of(name: &'static str, value: Option<String>, service: Service) -> Result<Self, CloudError> {
        let is_true = match value.unwrap_or_default().to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" | "y" => true,
            "" | "0" | "false" | "off" | "no" | "n" => false,
            other => {
                return Err(CloudError::BadSettings {
                    reason: short(&format!("{name} is {other:?}, not true or false")),
                    variables: service.variables(),
                });
            }
        };
        Ok(Self { name, is_true })
    }
}

/// Whether requests may be unencrypted; an error if they would be and may not.
fn allows_http(
    permission: &BooleanVariable,
    endpoint: Option<&Endpoint>,
    service: Service,
) -> Result<bool, CloudError> {
    let Some(Endpoint { variable, url }) = endpoint else {
        return Ok(permission.is_true);
    };
    let bad = |reason: String| CloudError::BadSettings {
        reason,
        variables: service.variables(),
    };
    let not_a_url = |error| {
        bad(format!(
            "the endpoint ({variable}) is not a URL: {error}; give one such as https://host:9000"
        ))
    };
    let url = Url::parse(url).map_err(not_a_url)?;
    let host = url.host_str().unwrap_or_default();
    if url.scheme() != "http" || permission.is_true || is_local(host) {
        return Ok(permission.is_true || url.scheme() == "http");
    }
    // Host and port only: the URL may contain a password.
    let place = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let permission = permission.name;
    Err(bad(format!(
        "the endpoint http://{place} ({variable}) is not encrypted, and would be sent signed requests; use https://, or allow it by {permission}=true"
    )))
}

fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// HTTP/1: transfers over one HTTP/2 connection share its window and packets.
fn options() -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(READ_TIMEOUT)
        .with_http1_only()
}

/// Pauses add up to about 3 s, and no try begins 60 s after the first: errors show soon.
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

/// Sets TLS's cryptography once, unless it is set.
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
    fn urls_are_parsed() {
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
    fn invalid_store_urls_are_refused() {
        for (url, word) in [
            ("ftp://h/a", "scheme is ftp, expected s3"),
            ("s3:///a", "no bucket"),
            ("/a/b", "no scheme"),
            ("s3://b/a/../c", "URL cannot be used"),
        ] {
            let error = Location::parse(url).unwrap_err();
            assert_eq!(error.code(), "bad_url");
            assert!(error.to_string().contains(word), "{url}: {error}");
        }
    }

    fn is_http_allowed(endpoint: &str, permission: &str) -> Result<bool, CloudError> {
        let value = (!permission.is_empty()).then(|| permission.to_owned());
        let permission = BooleanVariable::of("AWS_ALLOW_HTTP", value, Service::S3)?;
        let endpoint = Endpoint::new("AWS_ENDPOINT_URL", endpoint.to_owned());
        allows_http(&permission, Some(&endpoint), Service::S3)
    }

    #[test]
    fn only_local_endpoints_are_unencrypted_by_default() {
        for endpoint in [
            "http://localhost:9000",
            "http://127.0.0.1:1/x",
            "http://[::1]:80",
            "HTTP://LOCALHOST/",
        ] {
            assert_eq!(is_http_allowed(endpoint, ""), Ok(true), "{endpoint}");
        }
        assert_eq!(is_http_allowed("https://s3.example.org", ""), Ok(false));
        for endpoint in [
            "http://localhost.evil.org",
            "http://10.0.0.1:9000",
            "http://localhost:x@evil.org",
            "http://localhost@evil.org:80/",
            "http://evil.org\\@localhost",
            "http://evil.org#@localhost",
            "http://evil.org?@localhost",
        ] {
            let error = is_http_allowed(endpoint, "no").unwrap_err();
            assert_eq!(error.code(), "bad_cloud_settings");
            let message = error.to_string();
            assert!(
                message.contains("(AWS_ENDPOINT_URL) is not encrypted")
                    && message.contains("AWS_ALLOW_HTTP=true"),
                "{endpoint}: {message}"
            );
            assert!(!message.contains(":x@"), "{message}");
            assert_eq!(is_http_allowed(endpoint, "YES"), Ok(true), "{endpoint}");
        }
    }

    #[test]
    fn a_permission_parses_the_forms_of_object_store() {
        for value in ["1", "true", "True", "on", "yes", "Y"] {
            assert_eq!(
                is_http_allowed("http://10.0.0.1", value),
                Ok(true),
                "{value}"
            );
        }
        for value in ["", "0", "false", "OFF", "no", "n"] {
            assert!(
                is_http_allowed("http://10.0.0.1", value).is_err(),
                "{value}"
            );
        }
        let error = is_http_allowed("https://10.0.0.1", "maybe").unwrap_err();
        assert!(
            error.to_string().contains("AWS_ALLOW_HTTP is \"maybe\""),
            "{error}"
        );
        for endpoint in ["nowhere", "10.0.0.1:9000"] {
            let error = is_http_allowed(endpoint, "").unwrap_err().to_string();
            assert!(
                error.contains("the endpoint (AWS_ENDPOINT_URL) is not a URL: "),
                "{error}"
            );
            assert!(!error.contains(endpoint), "{error}");
        }
    }
}
