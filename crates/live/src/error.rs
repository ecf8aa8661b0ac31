//! Errors of listening and sending.

use std::io;

/// An error of listening or sending.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// Invalid address.
    #[error(
        "{address:?} is not a feed address: {why}; give udp://HOST:PORT, tcp://HOST:PORT, or - for standard input or output"
    )]
    Address { address: String, why: String },
    /// The address names a host that has no address.
    #[error("cannot find the host {host}: {why}; check the name, or give an IP address")]
    Host { host: String, why: String },
    /// Address that other machines can reach, without [`ListenOptions::anyone`](crate::ListenOptions::anyone).
    #[error(
        "{address} would accept samples from any machine in the network; listen at 127.0.0.1, or allow other machines with anyone=True"
    )]
    Exposed { address: String },
    /// Refused by the operating system.
    #[error("{doing} {address} failed: {why}; {remedy}")]
    Socket {
        doing: &'static str,
        address: String,
        why: io::Error,
        remedy: &'static str,
    },
    /// Invalid option.
    #[error("{option}={got} is refused; give {legal}")]
    Option {
        option: &'static str,
        got: String,
        legal: String,
    },
    /// Second run of the same feed.
    #[error(
        "a plan is already reading {address}, and each sample arrives only once; use several branches of that plan, or listen at another port"
    )]
    Busy { address: String },
    /// Late samples of a feed that nothing reads here; `Plan::run_all` runs both plans.
    #[error(
        "no plan reads {address} in this process, so no sample of it can be found late here; run the plan of late samples together with one of the feed, as in iso.run(plan, late), both in the process that listens"
    )]
    LateAlone { address: String },
    /// Requested range of a feed.
    #[error(
        "{address} is a live feed, so a range of its indices cannot be read; leave out the range, or end the plan with limit(n)"
    )]
    Range { address: String },
    /// The process is out of timebases.
    #[error(
        "this process has opened too many feeds and signals to open another feed: {why}; restart the program and listen again"
    )]
    Timebase { why: isochrony_time::TimeError },
}

impl LiveError {
    /// Stable snake_case code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address { .. } => "live_address",
            Self::Host { .. } => "live_host",
            Self::Exposed { .. } => "live_exposed",
            Self::Socket { .. } => "live_socket",
            Self::Option { .. } => "live_option",
            Self::Busy { .. } => "live_busy",
            Self::LateAlone { .. } => "live_late_alone",
            Self::Range { .. } => "live_range",
            Self::Timebase { .. } => "live_timebase",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_states_cause_place_and_fix() {
        let address = || "udp://127.0.0.1:9".to_owned();
        let examples: [(LiveError, &[&str]); 9] = [
            (
                LiveError::Address {
                    address: "x".into(),
                    why: "no scheme".into(),
                },
                &["\"x\"", "no scheme", "udp://HOST:PORT"],
            ),
            (
                LiveError::Host {
                    host: "nowhere".into(),
                    why: "Name or service not known".into(),
                },
                &["host nowhere: Name", "check the name", "IP address"],
            ),
            (
                LiveError::Exposed { address: address() },
                &["udp://127.0.0.1:9", "anyone"],
            ),
            (
                LiveError::Socket {
                    doing: "listening at",
                    address: address(),
                    why: io::Error::from(io::ErrorKind::AddrInUse),
                    remedy: "choose another port",
                },
                &["listening at", "in use", "another port"],
            ),
            (
                LiveError::Option {
                    option: "buffer",
                    got: "0".into(),
                    legal: "bytes from 1".into(),
                },
                &["buffer=0", "bytes from 1"],
            ),
            (
                LiveError::Busy { address: address() },
                &["already", "branch"],
            ),
            (
                LiveError::LateAlone { address: address() },
                &[
                    "udp://127.0.0.1:9",
                    "late",
                    "iso.run",
                    "in this process",
                    "that listens",
                ],
            ),
            (LiveError::Range { address: address() }, &["feed", "limit"]),
            (
                LiveError::Timebase {
                    why: isochrony_time::TimeError::Overflow {
                        what: "number of timebases of this process",
                    },
                },
                &["timebases", "too many feeds and signals", "restart"],
            ),
        ];
        let mut codes: Vec<_> = examples.iter().map(|(error, _)| error.code()).collect();
        for (error, words) in &examples {
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
        codes.dedup();
        assert_eq!(codes.len(), examples.len());
    }
}
