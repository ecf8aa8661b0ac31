//! Views against samples.

use super::Subject;
use crate::error::StoreError;
use crate::views::keeper::Keeper;

const REBUILD: &str = "plots may show something else than the samples; `--repair` builds them anew";

/// The record against the signal's end; rows against samples if `deep`.
pub(super) fn views(
    subject: &mut Subject<'_>,
    keeper: &Keeper,
    deep: bool,
) -> Result<(), StoreError> {
    let backend = subject.backend;
    let found = keeper.examine(backend, subject.state.id, deep)?;
    if let Some(what) = found {
        let path = subject.folder.join("views");
        subject.add("stale_views", path, None, what, REBUILD, true);
    }
    Ok(())
}
