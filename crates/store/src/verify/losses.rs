//! Permanent losses: lost commits, and samples that a repair gave up.

use std::ops::Range;

use isochrony_time::Fixed;
use serde_json::Value;

use super::metadata::ATTRIBUTES_LOST;
use super::repair_notes::{self, ReportedLosses};
use super::{Finding, Report, replaced_metadata};
use crate::engine::lost_commits::{self, LogState, LostCommit, WriterStatus};
use crate::error::StoreError;
use crate::layout::log_file;
use crate::op::SAMPLES_LOST;
use crate::signal::Signal;
use crate::store::Store;

pub(super) const REMEDY: &str = "restore .isochrony from a copy made after that commit; or let `--repair` go on without it: what it \
                               appended becomes a gap, with an event";

/// A loss that a repair accepted: samples, a commit that changed something else, or the store's attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Empty for the store's attributes, or if the lost commit names no signal.
    pub signal: String,
    /// First to last lost sample.
    pub range: Range<i64>,
    /// Lost samples; the rest was a gap before.
    pub samples: i64,
    /// Civil times of their start and end, if known.
    pub civil: Option<(Fixed, Fixed)>,
    /// Code of the finding.
    pub reason: String,
}

impl Store {
    /// Acknowledged commits that the redo log lacks. Readers show signals as before them; opening for writing fails
    /// until a repair. Empty beside an active writer.
    ///
    /// # Errors
    /// [`StoreError::DamagedFile`], [`StoreError::Io`].
    pub fn lost_commits(&self) -> Result<Vec<Finding>, StoreError> {
        let media = self.shared().backend.media();
        let mut report = Report::default();
        if !self.is_writable() && lost_commits::writer(&*media, self.path())? != WriterStatus::Alive
        {
            for commit in LogState::read(&*media, self.path())?.lost {
                add(self, &commit, &mut report);
            }
        }
        Ok(report.findings)
    }
}

pub(super) fn add(store: &Store, commit: &LostCommit, report: &mut Report) {
    let range = &commit.range;
    let signal = store.signal(&commit.signal).ok();
    let (log, path) = (log_path(store), commit.path.display());
    let what = if !range.is_empty() {
        let Range { start, end } = range;
        format!("{path} counts samples {start}..{end} that it does not have")
    } else if commit.path != log {
        format!("{path} is newer than the log")
    } else if commit.signal.is_empty() {
        "its last record is damaged; nothing else names the signal that it changed".into()
    } else {
        "its last record, which changed the signal, is damaged; nothing else says what it changed"
            .into()
    };
    report.findings.push(Finding {
        code: "lost_commit",
        path: log,
        signal: Some(commit.signal.clone()).filter(|name| !name.is_empty()),
        range: (!range.is_empty()).then(|| range.clone()),
        civil: signal.and_then(|signal| civil(&signal, range)),
        what: format!("the redo log lost a commit that was acknowledged: {what}"),
        mend: REMEDY.into(),
        repairable: true,
    });
}

fn log_path(store: &Store) -> std::path::PathBuf {
    let media = store.shared().backend.media();
    match crate::engine::manifest::Manifest::read(&*media, store.path()) {
        Ok(Some(manifest)) => log_file(store.path(), manifest.generation),
        _ => crate::layout::engine_folder(store.path()),
    }
}

fn civil(signal: &Signal, range: &Range<i64>) -> Option<(Fixed, Fixed)> {
    if range.is_empty() {
        return None;
    }
    let start = signal.time_of(range.start).ok()?.value;
    Some((start, signal.end_of_sample(range.end - 1).ok()?))
}

/// Losses in events or, after an unfinished repair, those it began with.
pub(super) fn reported(store: &Store) -> Result<ReportedLosses, StoreError> {
    let media = store.shared().backend.media();
    match repair_notes::read(&*media, store.path())? {
        Some(noted) => Ok(noted),
        None => known(store),
    }
}

/// No event can record it.
pub(super) fn is_unnamed(finding: &Finding) -> bool {
    finding.code == "lost_commit" && finding.signal.is_none()
}

/// Losses recorded in events.
pub(super) fn known(store: &Store) -> Result<ReportedLosses, StoreError> {
    let media = store.shared().backend.media();
    let mut known = ReportedLosses {
        replaced_metadata: replaced_metadata::count(&*media, store.path())?,
        ..ReportedLosses::default()
    };
    for signal in signals(store) {
        let id = signal.state().id.0;
        let events = signal.state().events.iter();
        known.events.extend(
            events
                .filter(|event| event.kind == SAMPLES_LOST)
                .map(|event| (id, event.id)),
        );
    }
    Ok(known)
}

/// Losses in events that are not in `known`.
pub(super) fn since(store: &Store, known: &ReportedLosses) -> Result<Vec<Loss>, StoreError> {
    let mut losses = Vec::new();
    if known.must_report_lost_commit {
        losses.push(Loss {
            signal: String::new(),
            range: 0..0,
            samples: 0,
            civil: None,
            reason: "lost_commit".into(),
        });
    }
    let media = store.shared().backend.media();
    if replaced_metadata::count(&*media, store.path())? > known.replaced_metadata {
        losses.push(Loss {
            signal: String::new(),
            range: 0..0,
            samples: 0,
            civil: None,
            reason: ATTRIBUTES_LOST.into(),
        });
    }
    for signal in signals(store) {
        let id = signal.state().id.0;
        for event in signal.state().events.iter() {
            if event.kind != SAMPLES_LOST || known.events.contains(&(id, event.id)) {
                continue;
            }
            let fields: Value = serde_json::from_str(&event.fields).unwrap_or_default();
            let range = event.start..event.end;
            losses.push(Loss {
                signal: signal.name().into(),
                samples: fields["samples"].as_i64().unwrap_or(0),
                civil: civil(&signal, &range),
                reason: fields["reason"].as_str().unwrap_or_default().into(),
                range,
            });
        }
    }
    Ok(losses)
}

fn signals(store: &Store) -> impl Iterator<Item = Signal> + '_ {
    let all = store.shared().backend.catalogue().unwrap_or_default();
    all.into_iter()
        .filter_map(|(id, _)| Signal::load(store.shared(), id).ok())
}
