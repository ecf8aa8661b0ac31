//! The simulated volume, and locks on it.

use std::io;
use std::path::{Path, PathBuf};

use super::SimMedia;
use super::node::Node;
use crate::media::{Access, Media, MediaLock, Site, Volume};

/// Available in every other boot, so that both kinds of sync are tested.
#[derive(Debug)]
pub(super) struct SimVolume(pub(super) SimMedia);

impl Volume for SimVolume {
    fn break_even_syncs(&self) -> usize {
        1
    }

    fn holds(&self, path: &Path) -> bool {
        matches!(self.0.stat(path), Ok(Some(_)))
    }

    fn sync(&self, site: Site) -> io::Result<()> {
        let note = || format!("sync volume {site:?}");
        self.0.change(false, note, |sim| {
            let fails = sim.sync_fails();
            let ignored = sim.note_sync(site);
            let mut dice = sim.dice.clone();
            for node in &mut sim.nodes {
                match node {
                    Node::File(file) if fails => file.fail_sync(&mut dice),
                    Node::File(file) if !ignored => file.sync(),
                    _ => {}
                }
            }
            sim.dice = dice;
            if fails {
                return Err(io::Error::other("input/output error (simulated)"));
            }
            if !ignored {
                sim.sync_all_names();
            }
            Ok(())
        })
    }
}

#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) media: SimMedia,
    pub(super) path: PathBuf,
}

impl MediaLock for SimLock {
    fn write(&self, text: &str) -> io::Result<()> {
        let file = self.media.open(&self.path, Access::Create)?;
        file.write_at(0, text.as_bytes())?;
        file.set_len(text.len() as u64)
    }

    fn release(&self) {
        if let Ok(mut sim) = self.media.sim() {
            sim.locked.remove(&self.path);
        }
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.release();
    }
}
