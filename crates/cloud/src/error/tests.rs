use std::collections::BTreeSet;

use super::*;

const VARIABLES: &str = "AWS_ACCESS_KEY_ID";

/// Each variant, with words of its message.
fn all() -> Vec<(CloudError, [&'static str; 2])> {
    let reason = || "503 SlowDown".to_owned();
    let variables = VARIABLES;
    vec![
        (
            CloudError::BadUrl {
                reason: "it names no bucket".into(),
            },
            ["names no bucket", "give one such as"],
        ),
        (
            CloudError::BadSettings {
                reason: reason(),
                variables,
            },
            ["503 SlowDown", "check its environment variables (AWS_"],
        ),
        (CloudError::Missing, ["no such object", "check the URL"]),
        (
            CloudError::NoBucket { variables },
            ["bucket does not exist", "check the URL"],
        ),
        (
            CloudError::Denied {
                reason: reason(),
                variables,
            },
            ["denied (503 SlowDown)", "need the right"],
        ),
        (
            CloudError::NoCredentials {
                reason: reason(),
                variables,
            },
            ["no credentials for it (503", "set AWS_ACCESS_KEY_ID"],
        ),
        (
            CloudError::Unreachable { reason: reason() },
            ["cannot be reached (503", "check the network"],
        ),
        (
            CloudError::Server { reason: reason() },
            ["failed (503 SlowDown)", "try again later"],
        ),
        (
            CloudError::Truncated {
                got: 7,
                expected: 9,
            },
            ["7 of 9 bytes", "try again"],
        ),
        (CloudError::ChangedRemotely, ["was replaced", "refresh()"]),
        (
            CloudError::CannotList,
            ["does not list", "use an object store's own URL"],
        ),
        (
            CloudError::ReadOnly,
            ["read-only", "write to a store on a disk"],
        ),
        (CloudError::Interrupted, ["was stopped", "run it again"]),
        (
            CloudError::NoThread { reason: reason() },
            ["cannot be started (503", "end other programs"],
        ),
        (
            CloudError::CannotPush,
            [
                "web servers take no pushes",
                "give the URL of the object store",
            ],
        ),
        (CloudError::OtherPush, ["another push", "push again"]),
        (
            CloudError::Staging {
                path: "/tmp/push".into(),
                reason: "no space".into(),
            },
            ["staged in /tmp/push (no space)", "set TMPDIR"],
        ),
        (
            CloudError::Source {
                path: "/a/b".into(),
                reason: reason(),
            },
            [
                "/a/b changed, or cannot be read, during the upload (503",
                "keep it unchanged",
            ],
        ),
        (
            CloudError::NestedStore {
                place: "below it",
                url: "s3://b/a.iso/c.iso".into(),
            },
            [
                "lies below it (s3://b/a.iso/c.iso)",
                "choose a URL that is neither above nor below",
            ],
        ),
    ]
}

/// Makes a new variant a compile error; then add it to `all`.
fn place(error: &CloudError) -> usize {
    match error {
        CloudError::BadUrl { .. } => 0,
        CloudError::BadSettings { .. } => 1,
        CloudError::Missing => 2,
        CloudError::NoBucket { .. } => 3,
        CloudError::Denied { .. } => 4,
        CloudError::NoCredentials { .. } => 5,
        CloudError::Unreachable { .. } => 6,
        CloudError::Server { .. } => 7,
        CloudError::Truncated { .. } => 8,
        CloudError::ChangedRemotely => 9,
        CloudError::CannotList => 10,
        CloudError::ReadOnly => 11,
        CloudError::Interrupted => 12,
        CloudError::NoThread { .. } => 13,
        CloudError::CannotPush => 14,
        CloudError::OtherPush => 15,
        CloudError::Staging { .. } => 16,
        CloudError::Source { .. } => 17,
        CloudError::NestedStore { .. } => 18,
    }
}

#[test]
fn every_message_states_cause_and_remedy_on_one_line() {
    let mut codes = BTreeSet::new();
    for (index, (error, words)) in all().into_iter().enumerate() {
        assert_eq!(place(&error), index);
        let message = error.to_string();
        assert!(!message.contains('\n'), "{message}");
        for word in words {
            assert!(message.contains(word), "{message}: {word}");
        }
        assert!(
            error
                .code()
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '_')
        );
        codes.insert(error.code());
    }
    assert_eq!(codes.len(), 19);
}

fn of(error: object_store::Error) -> CloudError {
    CloudError::of(&error, VARIABLES)
}

fn generic(text: &'static str) -> CloudError {
    of(object_store::Error::Generic {
        store: "S3",
        source: text.into(),
    })
}

#[test]
fn a_refused_listing_is_denied() {
    let listing = "Error performing list request: Server returned non-2xx status code: 403 Forbidden: \
                   <Error><Code>AccessDenied</Code></Error>";
    let denied = CloudError::Denied {
        reason: "403 AccessDenied".into(),
        variables: VARIABLES,
    };
    assert_eq!(generic(listing), denied);
    let failed = generic("Server returned non-2xx status code: 503 Busy");
    assert!(matches!(failed, CloudError::Server { .. }), "{failed:?}");
}

#[test]
fn an_error_under_the_status_of_a_success_is_named() {
    let error = generic(
        "Server returned error response: <Error><Code>SlowDown</Code><HostId>s3cret</HostId></Error>",
    );
    let named = CloudError::Server {
        reason: "200 SlowDown".into(),
    };
    assert_eq!(error, named);
}

#[test]
fn messages_contain_only_status_and_error_name_of_an_answer() {
    let body = "Server returned non-2xx status code: 403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code>\
                <AWSAccessKeyId>AKIASECRET</AWSAccessKeyId><StringToSign>s3cret</StringToSign></Error>";
    let error = of(object_store::Error::PermissionDenied {
        path: "a.iso".into(),
        source: body.into(),
    });
    let CloudError::Denied { reason, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(reason, "403 SignatureDoesNotMatch");
    let message = error.to_string();
    assert!(!message.contains("AKIASECRET") && !message.contains("s3cret"));
    // Nor a query, which may be a signature.
    let error = of(object_store::Error::Generic {
        store: "Azure",
        source: "cannot read https://host/a?sig=s3cret".into(),
    });
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[test]
fn missing_bucket_object_and_credentials_are_distinguished() {
    let generic = |text: &str| object_store::Error::Generic {
        store: "S3",
        source: text.to_owned().into(),
    };
    let missing = |text: &str| object_store::Error::NotFound {
        path: "a".into(),
        source: text.to_owned().into(),
    };
    let variables = VARIABLES;
    assert_eq!(
        of(missing("404 <Code>NoSuchKey</Code>")),
        CloudError::Missing
    );
    assert_eq!(
        of(missing("404 <Code>NoSuchBucket</Code>")),
        CloudError::NoBucket { variables }
    );
    let refused = "Connection refused (os error 111)";
    let unanswered = object_store::Error::Generic {
        store: "credentials",
        source: Box::new(CredentialsError(generic(refused))),
    };
    let reason = refused.into();
    assert_eq!(
        of(unanswered),
        CloudError::NoCredentials { reason, variables }
    );
    // A bucket may have any name.
    let named = "Error performing GET https://169.254.example.org/IMDS: Server returned non-2xx status code: 500 ";
    let reason = "500".into();
    assert_eq!(of(generic(named)), CloudError::Server { reason });
    let slow =
        "Server returned non-2xx status code: 503 Service Unavailable: <Code>SlowDown</Code>";
    let reason = "503 SlowDown".into();
    assert_eq!(of(generic(slow)), CloudError::Server { reason });
}
