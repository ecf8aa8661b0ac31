//! Open files, pipes and sockets: waiting, writing without blocking, sending to another process.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg};

/// Which can be read without blocking, or are at their end. Waits up to `timeout`; a signal ends the wait: none.
///
/// # Errors
/// Of the system.
pub fn poll_readable(files: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    poll_ready(files, PollFlags::IN, timeout)
}

/// Whether it can be written without blocking, or never again. Waits up to `timeout`; a signal ends the wait.
///
/// # Errors
/// Of the system.
pub fn poll_writable(file: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    Ok(poll_ready(&[file], PollFlags::OUT, timeout)?[0])
}

fn poll_ready(
    files: &[BorrowedFd<'_>],
    events: PollFlags,
    timeout: Duration,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = files
        .iter()
        .map(|file| PollFd::from_borrowed_fd(*file, events))
        .collect();
    // Without end if too long for the system.
    let timeout = Timespec::try_from(timeout).ok();
    match poll(&mut polled, timeout.as_ref()) {
        // Hung up, invalid or failed is ready: the next call returns the error.
        Ok(_) => Ok(polled.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; files.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the other end is closed or the descriptor fails.
pub fn wait_until_closed(socket: impl AsFd) {
    let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    loop {
        let mut polled = [PollFd::new(&socket, PollFlags::empty())];
        // A signal may interrupt it.
        if poll(&mut polled, None).is_ok() && polled[0].revents().intersects(closed) {
            return;
        }
    }
}

/// Reopens a pipe for writing without blocking: the flag on the given description would affect all who share it.
/// Returns the given one if the system refuses.
#[must_use]
pub fn reopen_nonblocking(pipe: File) -> File {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    opened.unwrap_or(pipe)
}

/// Makes reads and writes of an open file block, for all who share its description.
///
/// # Errors
/// Of the system.
pub fn set_blocking(file: &File) -> io::Result<()> {
    let flags = fcntl_getfl(file)?;
    Ok(fcntl_setfl(file, flags - OFlags::NONBLOCK)?)
}

/// Sends bytes to a socket without blocking. A closed peer is an error, no signal.
///
/// # Errors
/// Of the system; `WouldBlock` if the socket takes nothing now.
pub fn send_nonblocking(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(
        socket,
        bytes,
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
    )?)
}

/// Sends an open file, with one byte, to the process at the other end.
///
/// # Errors
/// Of the system.
pub fn send_file(socket: &UnixStream, file: &File) -> io::Result<()> {
    let descriptors = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::io::retry_on_intr(|| {
        sendmsg(
            socket,
            &[IoSlice::new(&[0])],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )
    })?;
    Ok(())
}

/// Whether an error means that this process has too many open files.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;
    use std::time::Instant;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    use super::*;

    #[test]
    fn waits_for_what_can_be_read_and_no_longer() {
        let ((empty, to_empty), (full, mut to_full)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let files = [empty.as_fd(), full.as_fd()];
        let begun = Instant::now();
        let short = Duration::from_millis(20);
        assert_eq!(poll_readable(&files, short).unwrap(), [false, false]);
        assert!(begun.elapsed() >= short);
        to_full.write_all(b"x").unwrap();
        let long = Duration::from_secs(60);
        assert_eq!(poll_readable(&files, long).unwrap(), [false, true]);
        // The end of a pipe can be read.
        drop(to_empty);
        assert_eq!(poll_readable(&files, Duration::ZERO).unwrap(), [true, true]);
        assert!(begun.elapsed() < long);
    }

    #[test]
    fn a_full_pipe_does_not_block_once_it_is_reopened() {
        let (mut from, to) = io::pipe().unwrap();
        let mut to = reopen_nonblocking(File::from(OwnedFd::from(to)));
        let part = vec![7; 1 << 16];
        let error = loop {
            if let Err(error) = to.write(&part) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(!poll_writable(to.as_fd(), Duration::ZERO).unwrap());
        assert!(from.read(&mut vec![0; 1 << 16]).unwrap() > 0);
        assert!(poll_writable(to.as_fd(), Duration::from_secs(60)).unwrap());
    }

    #[test]
    fn a_full_socket_does_not_block() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let part = vec![7; 1 << 16];
        let mut sent = 0;
        let error = loop {
            match send_nonblocking(&ours, &part) {
                Ok(bytes) => sent += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(sent > 0);
        drop(theirs);
        let error = send_nonblocking(&ours, &part).unwrap_err();
        assert!(matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        ));
    }

    #[test]
    fn the_end_of_a_socket_is_noticed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let waiter = std::thread::spawn(move || wait_until_closed(ours));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        drop(theirs);
        waiter.join().unwrap();
    }

    #[test]
    fn a_file_that_is_sent_is_the_same_file() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send_file(&ours, &file).unwrap();
        let mut byte = [1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [io::IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        assert_eq!(
            recvmsg(&theirs, &mut into, &mut ancillary, flags)
                .unwrap()
                .bytes,
            1
        );
        let mut messages = ancillary.drain();
        let Some(RecvAncillaryMessage::ScmRights(mut files)) = messages.next() else {
            panic!("no file came");
        };
        let received = File::from(files.next().unwrap());
        received.write_all_at(b"shared", 0).unwrap();
        let mut text = [0; 6];
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"shared");
        assert_eq!(byte, [0]);
    }

    #[test]
    fn too_many_open_files_are_told_from_other_errors() {
        assert!(is_out_of_descriptors(&Errno::MFILE.into()));
        assert!(!is_out_of_descriptors(&Errno::NFILE.into()));
        assert!(!is_out_of_descriptors(&io::ErrorKind::NotFound.into()));
    }
}
