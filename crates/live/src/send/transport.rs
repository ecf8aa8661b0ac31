//! Socket or pipe for frames.

use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::address::Address;

/// Maximum time that a TCP listener may not read: a blocked write cannot be interrupted.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) enum Transport {
    Udp(UdpSocket),
    Tcp(TcpStream),
    /// Without the line buffer, which nobody would flush.
    Stdout(File),
}

impl Transport {
    pub(super) fn connect(address: &Address) -> io::Result<Self> {
        Ok(match *address {
            Address::Udp(to) => {
                let any: SocketAddr = match to {
                    SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
                    SocketAddr::V6(_) => ([0u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(to)?;
                Self::Udp(socket)
            }
            Address::Tcp(to) => {
                let stream = TcpStream::connect(to)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
                Self::Tcp(stream)
            }
            Address::Stdin => Self::Stdout(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Address::Driven => return Err(io::ErrorKind::AddrNotAvailable.into()),
        })
    }

    pub(super) fn is_datagram(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    pub(super) fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        match self {
            // The kernel reports a missing listener later, so such datagrams are lost.
            Self::Udp(socket) => match socket.send(frame) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
                sent => sent.map(|_| ()),
            },
            Self::Tcp(stream) => stream.write_all(frame).map_err(explain_timeout),
            Self::Stdout(out) => out.write_all(frame),
        }
    }
}

fn explain_timeout(why: io::Error) -> io::Error {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "the receiver has read nothing for {} s",
                WRITE_TIMEOUT.as_secs()
            ),
        ),
        _ => why,
    }
}
