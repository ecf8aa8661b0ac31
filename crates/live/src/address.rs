//! Addresses and formats of feeds.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use isochrony_segment::ByteOrder;

use crate::LiveError;

/// Source of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// Datagrams.
    Udp(SocketAddr),
    /// Connections; one is read at a time.
    Tcp(SocketAddr),
    /// Standard input.
    Stdin,
    /// Samples from a [`Driver`](crate::Driver).
    Driven,
}

impl Address {
    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Udp(at) | Self::Tcp(at) => at.ip().is_loopback(),
            Self::Stdin | Self::Driven => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(at) => write!(f, "udp://{at}"),
            Self::Tcp(at) => write!(f, "tcp://{at}"),
            Self::Stdin => write!(f, "-"),
            Self::Driven => write!(f, "driven"),
        }
    }
}

impl FromStr for Address {
    type Err = LiveError;

    fn from_str(text: &str) -> Result<Self, LiveError> {
        let wrong = |why: &str| LiveError::Address {
            address: text.to_owned(),
            why: why.to_owned(),
        };
        if text == "-" {
            return Ok(Self::Stdin);
        }
        let (scheme, at) = text
            .split_once("://")
            .ok_or_else(|| wrong("it has no scheme"))?;
        let no_host = |why: &str| LiveError::Host {
            host: at.rsplit_once(':').map_or(at, |(host, _)| host).to_owned(),
            why: (why.strip_prefix("failed to lookup address information: "))
                .unwrap_or(why)
                .to_owned(),
        };
        let resolve = || match at.to_socket_addrs() {
            Ok(mut found) => found
                .next()
                .ok_or_else(|| no_host("the name has no address")),
            // No host and port, so nothing was looked up.
            Err(why) if why.kind() == io::ErrorKind::InvalidInput => Err(wrong(&why.to_string())),
            Err(why) => Err(no_host(&why.to_string())),
        };
        match scheme {
            "udp" => Ok(Self::Udp(resolve()?)),
            "tcp" => Ok(Self::Tcp(resolve()?)),
            other => Err(wrong(&format!("unknown scheme {other:?}"))),
        }
    }
}

/// Format of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedFraming {
    /// Frames of [`frame`](crate::frame).
    Isochrony,
    /// Datagrams of one size that begin with a packet counter.
    Counter {
        /// Size of the counter: 2, 4 or 8.
        bytes: u8,
        /// Byte order of the counter.
        order: ByteOrder,
    },
    /// Bare samples, where loss cannot be detected.
    Raw,
}

impl FeedFraming {
    const NAMES: [(&'static str, Self); 8] = [
        ("isochrony", Self::Isochrony),
        ("raw", Self::Raw),
        ("<u2", counter(2, ByteOrder::Little)),
        (">u2", counter(2, ByteOrder::Big)),
        ("<u4", counter(4, ByteOrder::Little)),
        (">u4", counter(4, ByteOrder::Big)),
        ("<u8", counter(8, ByteOrder::Little)),
        (">u8", counter(8, ByteOrder::Big)),
    ];

    /// Its name in options.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let own = Self::NAMES.iter().find(|(_, framing)| framing == self);
        own.map_or("raw", |(name, _)| name)
    }
}

const fn counter(bytes: u8, order: ByteOrder) -> FeedFraming {
    FeedFraming::Counter { bytes, order }
}

impl FromStr for FeedFraming {
    type Err = LiveError;

    fn from_str(text: &str) -> Result<Self, LiveError> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text);
        named.map(|&(_, framing)| framing).ok_or_else(|| LiveError::Option {
            option: "framing",
            got: format!("{text:?}"),
            legal: r#""isochrony", "raw", or the type of a packet counter: "<u2", ">u2", "<u4", ">u4", "<u8" or ">u8""#.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for text in ["udp://127.0.0.1:9000", "tcp://[::1]:80", "-"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "127.0.0.1:9",
            "http://127.0.0.1:9",
            "udp://127.0.0.1",
            "udp://127.0.0.1:99999",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.code(), "live_address");
        }
        for text in ["udp://nowhere.invalid:9", "tcp://nowhere.invalid:9"] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.code(), "live_host");
            let said = error.to_string();
            assert!(
                said.starts_with("cannot find the host nowhere.invalid: ")
                    && !said.contains("lookup"),
                "{said}"
            );
        }
        assert!("udp://127.8.0.1:9".parse::<Address>().unwrap().is_local());
        assert!(!"tcp://0.0.0.0:9".parse::<Address>().unwrap().is_local());
    }

    #[test]
    fn framings_have_names() {
        for (name, framing) in FeedFraming::NAMES {
            assert_eq!(name.parse::<FeedFraming>().unwrap(), framing);
            assert_eq!(framing.name(), name);
        }
        assert!(
            "vita"
                .parse::<FeedFraming>()
                .unwrap_err()
                .to_string()
                .contains(">u4")
        );
    }
}
