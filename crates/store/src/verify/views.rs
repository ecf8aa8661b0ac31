//! Verifies views against samples.

use super::{Subject, from_error, metadata};
use crate::engine::lost_commits::WriterStatus;
use crate::error::StoreError;
use crate::views::files::FOLDER;
use crate::views::maintainer::ViewMaintainer;

const REBUILD: &str = "plots may differ from the samples; `--repair` builds the views again";

pub(super) fn views(
    subject: &mut Subject<'_>,
    maintainer: &ViewMaintainer,
    deep: bool,
) -> Result<(), StoreError> {
    for (folder, expected) in maintainer.descriptions(subject.backend, subject.state.id)? {
        metadata::judge(subject, &metadata::ExpectedMetadata::view(folder, expected))?;
    }
    let backend = subject.backend;
    let settled = subject.round.writer == WriterStatus::Closed;
    let folder = subject.folder.join(FOLDER);
    match maintainer.examine(backend, subject.state.id, deep, settled) {
        Ok(None) => {}
        Ok(Some(what)) => subject.add("stale_views", folder, None, what, REBUILD, true),
        // Of the views' folder, so that later rounds are as deep.
        Err(error @ (StoreError::UnexpectedFile { .. } | StoreError::OversizedFile { .. })) => {
            let name = subject.state.name.to_string();
            let finding = from_error(&error, folder, Some(&name));
            subject.report.findings.push(finding);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
