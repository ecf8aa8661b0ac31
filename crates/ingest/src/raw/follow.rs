//! Follows a growing folder.
//!
//! By polling, which works on every file system. A poll lists changed folders and asks for the sizes of files that may
//! be incomplete.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use isochrony_runtime::POLL_INTERVAL;

use super::feed::feed;
use super::{Follow, RawOptions};
use crate::discover::{Entry, Walk};
use crate::progress::Meter;
use crate::session::Session;
use crate::{Catalogue, DiscoverOptions, IngestError, Problem};

struct PendingFile {
    entry: Result<Entry, Problem>,
    since: Instant,
    signal: String,
    ns: i64,
}

pub(crate) fn follow(
    session: &mut Session,
    root: &Path,
    options: &RawOptions,
    discovery: &DiscoverOptions,
    follow: Follow,
    meter: &mut Meter<'_>,
) -> Result<(), IngestError> {
    let mut walk = Walk::repeated(root, discovery)?;
    let mut pending: BTreeMap<String, PendingFile> = BTreeMap::new();
    // Hashes of paths that are settled.
    let mut over: HashSet<u64> = HashSet::new();
    let full = follow
        .file_samples
        .map(|samples| samples * options.spec.format.size() as u64);
    loop {
        while let Some(entry) = walk.next() {
            stop_if_interrupted(options)?;
            let path = entry
                .as_ref()
                .map_or_else(|problem| problem.path.clone(), Entry::path);
            if over.contains(&hash(&path)) || pending.contains_key(&path) {
                continue;
            }
            let found = entry.and_then(|entry| match options.layout.read(&path) {
                Ok(found) => Ok((entry, found)),
                Err(error) => Err(Problem::new(&*path, &error)),
            });
            let (entry, signal, ns) = match found {
                Ok((entry, found)) => (
                    Ok(entry),
                    found.signal,
                    found.stamp.map_or(0, |stamp| stamp.ns),
                ),
                Err(problem) => (Err(problem), String::new(), 0),
            };
            let since = Instant::now();
            pending.insert(
                path,
                PendingFile {
                    entry,
                    since,
                    signal,
                    ns,
                },
            );
        }
        let ready = take_complete(root, &mut pending, follow.settle, full);
        let mut catalogue = Catalogue::new(root, &options.layout);
        for (path, pending) in ready {
            over.insert(hash(&path));
            catalogue.add(pending.entry, &options.layout);
        }
        if !catalogue.is_empty() || !catalogue.problems().is_empty() {
            catalogue.sort();
            session.problems().extend(catalogue.take_problems());
            session.set_late_boundary()?;
            feed(session, catalogue, options, meter)?;
            session.commit()?;
        }
        let until = Instant::now() + follow.interval;
        while Instant::now() < until {
            stop_if_interrupted(options)?;
            std::thread::sleep(POLL_INTERVAL.min(follow.interval));
        }
        walk.again();
    }
}

fn stop_if_interrupted(options: &RawOptions) -> Result<(), IngestError> {
    if options.interrupt.is_requested() {
        Err(IngestError::Cancelled)
    } else {
        Ok(())
    }
}

/// Forgets vanished files, such as temporary names.
fn take_complete(
    root: &Path,
    pending: &mut BTreeMap<String, PendingFile>,
    settle: Duration,
    full: Option<u64>,
) -> BTreeMap<String, PendingFile> {
    let mut newest: BTreeMap<String, i64> = BTreeMap::new();
    for file in pending.values().filter(|file| file.entry.is_ok()) {
        let ns = newest.entry(file.signal.clone()).or_insert(file.ns);
        *ns = file.ns.max(*ns);
    }
    let now = Instant::now();
    let mut ready = BTreeMap::new();
    let mut still_waiting = BTreeMap::new();
    for (path, mut file) in std::mem::take(pending) {
        let full_path = root.join(&path);
        if full_path.symlink_metadata().is_err() {
            continue;
        }
        let mut moved = false;
        let mut complete = false;
        if let (Ok(entry), Ok(status)) = (&mut file.entry, full_path.metadata()) {
            moved = entry.size != status.len();
            entry.size = status.len();
            complete = full.is_some_and(|full| entry.size >= full);
            // One poll without growth suffices once the recorder writes another file.
            let superseded = newest
                .get(&file.signal)
                .is_some_and(|newest| *newest > file.ns);
            complete |= superseded && !moved && entry.size > 0;
        }
        if moved {
            file.since = now;
        }
        if complete || now.duration_since(file.since) >= settle {
            ready.insert(path, file);
        } else {
            still_waiting.insert(path, file);
        }
    }
    *pending = still_waiting;
    ready
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}
