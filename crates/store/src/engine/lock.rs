//! The lock of the only writer, with its holder.
//!
//! The kernel's lock decides; the text only describes the holder. A closing writer clears it, so text in a free lock
//! was left by a crash.

use std::path::Path;
use std::time::{Duration, Instant};

use isochrony_system::machine::host_name;
use isochrony_system::process;
use serde::{Deserialize, Serialize};

use super::io::IoContext;
use crate::error::StoreError;
use crate::layout;
use crate::media::{Media, MediaLock, limits};

/// A reader that checks for a writer holds the lock briefly.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

const MAX_COMMAND_CHARS: usize = 100;

#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    host: String,
    pid: u32,
    boot_id: String,
    command: String,
    /// Seconds since 1970.
    since: u64,
}

impl Holder {
    fn me(media: &dyn Media) -> Self {
        let command: Vec<String> = std::env::args_os()
            .take(3)
            .map(|part| one_line(&part.to_string_lossy()))
            .collect();
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            host: host_name(),
            pid: std::process::id(),
            boot_id: media.boot_id(),
            command: command.join(" "),
            since: since.map_or(0, |since| since.as_secs()),
        }
    }
}

/// Makes one short line: a command may be a whole program (`python -c`).
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    match line.char_indices().nth(MAX_COMMAND_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

pub(super) fn acquire(
    media: &dyn Media,
    root: &Path,
) -> Result<(Box<dyn MediaLock>, bool), StoreError> {
    let path = layout::lock_file(root);
    let began = Instant::now();
    let (lock, left) = loop {
        if let Some(taken) = media.lock(&path).at("lock", &path)? {
            break taken;
        }
        if began.elapsed() > LOCK_TIMEOUT {
            return Err(StoreError::Locked {
                path: root.to_path_buf(),
                holder: holder(media, &path),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = serde_json::to_string(&Holder::me(media)).unwrap_or_default();
    lock.write(&text).at("write", &path)?;
    Ok((lock, !left.trim().is_empty()))
}

pub(crate) fn is_held(media: &dyn Media, root: &Path) -> Result<bool, StoreError> {
    if media.is_remote() {
        return Ok(false);
    }
    let path = layout::lock_file(root);
    // Opening needs write permission; without it, a possible writer must not be disturbed.
    match media.lock(&path) {
        Ok(taken) => Ok(taken.is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Ok(false),
        Err(error) => Err(error).at("lock", &path),
    }
}

fn holder(media: &dyn Media, path: &Path) -> String {
    let bytes = media
        .read(path, limits::LINE)
        .ok()
        .flatten()
        .unwrap_or_default();
    match serde_json::from_slice::<Holder>(&bytes) {
        Ok(holder) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let age = now.map_or(0, |now| now.as_secs().saturating_sub(holder.since));
            let (host, command) = (one_line(&holder.host), one_line(&holder.command));
            let pid = holder.pid;
            if holder.boot_id == media.boot_id() && host == host_name() && !process::is_running(pid)
            {
                return format!(
                    "a process that was started by process {pid}, which has ended ({command})"
                );
            }
            format!("process {pid} on {host} for {age} s ({command})")
        }
        Err(_) => "another process".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_fits_on_one_line_for_any_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let media = crate::media::disk();
        let command = format!(
            "python -c import time\n\tif True:\r\n{}",
            "x = 1\n".repeat(500)
        );
        let me = Holder {
            command,
            ..Holder::me(&*media)
        };
        std::fs::write(&path, serde_json::to_string(&me).unwrap()).unwrap();
        let told = holder(&*media, &path);
        assert!(!told.contains(['\n', '\r', '\t']), "{told}");
        assert!(
            told.contains("(python -c import time if True: x = 1 x = 1"),
            "{told}"
        );
        assert!(told.ends_with("...)") && told.len() < 300, "{told}");
        assert!(told.contains(&format!("process {} on ", std::process::id())));
        let me = Holder {
            command: "isochrony import a b".into(),
            ..me
        };
        std::fs::write(&path, serde_json::to_string(&me).unwrap()).unwrap();
        assert!(holder(&*media, &path).ends_with("(isochrony import a b)"));
    }
}
