//! Errors of listening and sending.

use std::io;

/// An error of listening or sending.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// Invalid address.
    #[error(
        "{address:?} is not a feed address: {why}; give udp://HOST:PORT, tcp://HOST:PORT, or - for standard input or output"
    )]
    Address {
        /// As given.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// Address that other machines can reach.
    #[error(
        "{address} would accept samples from any machine in the network; listen at 127.0.0.1, or allow other machines with anyone=True (in Rust: ListenOptions::anyone)"
    )]
    Exposed {
        /// Listening address.
        address: String,
    },
    /// Refused by the operating system.
    #[error("{doing} {address} failed: {why}; {remedy}")]
    Socket {
        /// Attempted action.
        doing: &'static str,
        /// Address.
        address: String,
        /// System error.
        why: io::Error,
        /// What may help.
        remedy: &'static str,
    },
    /// Invalid option.
    #[error("{option}={got} is refused; give {legal}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Its value.
        got: String,
        /// Valid values.
        legal: String,
    },
    /// Second run of the same feed.
    #[error(
        "a plan is already reading {address}, and each sample arrives only once; use several branches of that plan, or listen at another port"
    )]
    Busy {
        /// Listening address.
        address: String,
    },
    /// Late samples of a feed that nothing reads here.
    #[error(
        "no plan reads {address} in this process, so no sample of it can be found late here; run the plan of late samples together with one of the feed, as in iso.run(plan, late) (in Rust: Plan::run_all), both in the process that listens"
    )]
    LateAlone {
        /// Listening address.
        address: String,
    },
    /// Requested range of a feed.
    #[error(
        "{address} is a live feed, so a range of its indices cannot be read; leave out the range, or end the plan with limit(n)"
    )]
    Range {
        /// Listening address.
        address: String,
    },
    /// The process is out of timebases.
    #[error(
        "this process has opened too many feeds and signals to open another feed: {why}; restart the program and listen again"
    )]
    Timebase {
        /// Reason.
        why: isochrony_time::TimeError,
    },
}

impl LiveError {
    /// Stable snake_case code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address { .. } => "live_address",
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
        let examples: [(LiveError, &[&str]); 8] = [
            (
                LiveError::Address {
                    address: "x".into(),
                    why: "no scheme".into(),
                },
                &["\"x\"", "no scheme", "udp://HOST:PORT"],
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
