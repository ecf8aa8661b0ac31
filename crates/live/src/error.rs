//! What can go wrong when listening begins or samples are sent.

use std::io;

/// An error of this crate: what, where, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// An address that is none.
    #[error(
        "{address:?} is no address to listen at: {why}; give udp://HOST:PORT, tcp://HOST:PORT or - for standard input"
    )]
    Address {
        /// As given.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// An address that others than this machine can reach.
    #[error(
        "{address} can be reached from other machines, and whoever reaches it can send samples; listen at 127.0.0.1, or allow it with anyone=True (ListenOptions::anyone)"
    )]
    Exposed {
        /// Where it would listen.
        address: String,
    },
    /// The system refuses.
    #[error("{doing} {address}: {why}; {remedy}")]
    Socket {
        /// What was tried.
        doing: &'static str,
        /// Where.
        address: String,
        /// What the system says.
        why: io::Error,
        /// What may help.
        remedy: &'static str,
    },
    /// A number outside what is possible.
    #[error("{option}={got} is refused; give {legal}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Its value.
        got: String,
        /// What is possible.
        legal: String,
    },
    /// A second run over the same feed.
    #[error(
        "a plan runs over {address} already, and each sample arrives once; branch that plan instead, or listen at another port"
    )]
    Busy {
        /// Where it listens.
        address: String,
    },
    /// Only a range of a feed was asked for.
    #[error(
        "{address} is a feed: there are no earlier samples to go to, and ranges of it cannot be read; take the range out, or use limit"
    )]
    Range {
        /// Where it listens.
        address: String,
    },
    /// There is no timebase left for it.
    #[error("the feed can have no timebase: {why}; listen in a new process")]
    Timebase {
        /// What the table of timebases says.
        why: isochrony_time::TimeError,
    },
}

impl LiveError {
    /// Stable name of the kind of error, in snake_case.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address { .. } => "live_address",
            Self::Exposed { .. } => "live_exposed",
            Self::Socket { .. } => "live_socket",
            Self::Option { .. } => "live_option",
            Self::Busy { .. } => "live_busy",
            Self::Range { .. } => "live_range",
            Self::Timebase { .. } => "live_timebase",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_what_where_and_how_to_mend_it() {
        let address = || "udp://127.0.0.1:9".to_owned();
        let examples: [(LiveError, &[&str]); 7] = [
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
            (LiveError::Range { address: address() }, &["feed", "limit"]),
            (
                LiveError::Timebase {
                    why: isochrony_time::TimeError::Overflow {
                        what: "number of timebases of this process",
                    },
                },
                &["timebases", "new process"],
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
