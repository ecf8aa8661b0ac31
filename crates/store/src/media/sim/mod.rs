//! A simulated file system that loses, tears and reorders unsynced writes.
//!
//! The *live* state is what system calls see; the *durable* one holds what was synced, with later writes per file and
//! renames of the whole tree. A power cut keeps a random part of these, with torn writes. The engine may rely only on
//! this:
//! - syncing a file makes its earlier writes and its length durable, not its name;
//! - syncing a folder makes earlier changes of its entries durable; a rename needs both folders;
//! - a rename is atomic;
//! - everything else is kept, lost or torn, in any order.
//!
//! A handle fails after a power cut or a kill; [`SimMedia::restart`] gives a new one. The seed determines all
//! randomness.

mod faults;
mod names;
mod node;
mod power;
mod process;
mod volume;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Kind, Media, MediaFile, MediaLock, Site, Volume, limits};
pub use faults::{Dice, Faults};
use names::NameOp;
use node::{FileOp, Node};
use process::Process;
use volume::{SimLock, SimVolume};

#[derive(Debug, Clone)]
struct Sim {
    seed: u64,
    boot: u64,
    running: bool,
    nodes: Vec<Node>,
    pending: Vec<NameOp>,
    locked: BTreeSet<PathBuf>,
    dice: Dice,
    faults: Faults,
    changes: u64,
    syncs: BTreeSet<Site>,
    trace: Option<Vec<String>>,
}

/// The simulated file system. Clones share it.
#[derive(Debug, Clone)]
pub struct SimMedia {
    sim: Arc<Mutex<Sim>>,
    boot: u64,
    /// Links are refused below it, and nothing is visible outside.
    root: Option<PathBuf>,
    process: Arc<Process>,
}

impl SimMedia {
    /// An empty file system.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let sim = Sim {
            seed,
            boot: 0,
            running: true,
            nodes: vec![Node::folder()],
            pending: Vec::new(),
            locked: BTreeSet::new(),
            dice: Dice(seed),
            faults: Faults::default(),
            changes: 0,
            syncs: BTreeSet::new(),
            trace: None,
        };
        Self {
            sim: Arc::new(Mutex::new(sim)),
            boot: 0,
            root: None,
            process: Arc::default(),
        }
    }

    /// A handle of another process that is killed before this change, counted from 0 over the life of the medium.
    #[must_use]
    pub fn process(&self, ends_at: Option<u64>) -> Self {
        Self {
            process: Arc::new(Process::ending(ends_at)),
            ..self.clone()
        }
    }

    /// A handle of another process, before whose given call, counted from 0, `by` runs.
    #[must_use]
    pub fn interrupted(&self, call: u64, by: impl FnOnce() + Send + 'static) -> Self {
        Self {
            process: Arc::new(Process::interrupted(call, Box::new(by))),
            ..self.clone()
        }
    }

    /// Whether [`interrupted`](Self::interrupted) has run `by`.
    #[must_use]
    pub fn was_interrupted(&self) -> bool {
        self.process.was_interrupted()
    }

    /// An independent copy, without open files.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut sim = self.any().clone();
        sim.locked.clear();
        Self {
            sim: Arc::new(Mutex::new(sim)),
            boot: self.boot,
            root: self.root.clone(),
            process: Arc::default(),
        }
    }

    /// Makes everything durable.
    pub fn settle(&self) {
        let mut sim = self.any();
        for node in &mut sim.nodes {
            if let Node::File(file) = node {
                file.sync();
            }
        }
        sim.sync_all_names();
    }

    /// The engine's trait object.
    #[must_use]
    pub fn media(&self) -> Arc<dyn Media> {
        Arc::new(self.clone())
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As a system call.
    pub fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let note = || format!("link {}", path.display());
        let node = Node::Link(target.to_path_buf());
        self.change(true, note, |sim| sim.add(None, path, node).map(drop))
    }

    pub fn set_faults(&self, faults: Faults) {
        self.any().faults = faults;
    }

    /// Number of changes so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.any().changes
    }

    /// Whether the power is on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.any().running
    }

    /// Sites that have synced so far.
    #[must_use]
    pub fn syncs(&self) -> BTreeSet<Site> {
        self.any().syncs.clone()
    }

    /// Starts recording changes; gives those recorded so far.
    pub fn trace(&self) -> Vec<String> {
        self.any().trace.replace(Vec::new()).unwrap_or_default()
    }

    /// Cuts the power if on, and restarts with a random part of unsynced changes.
    #[must_use]
    pub fn restart(&self) -> Self {
        let mut sim = self.any();
        sim.cut();
        sim.running = true;
        sim.boot += 1;
        sim.locked.clear();
        Self {
            sim: self.sim.clone(),
            boot: sim.boot,
            root: self.root.clone(),
            process: Arc::default(),
        }
    }

    /// Kills this handle's process: nothing is lost, its calls fail, its locks are free.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut sim = self.any();
        sim.locked.clear();
        // The boot id stays; only handles distinguish processes.
        sim.boot += 1 << 32;
        sim.running = true;
        Self {
            sim: self.sim.clone(),
            boot: sim.boot,
            root: self.root.clone(),
            process: Arc::default(),
        }
    }

    fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    fn find(&self, path: &Path) -> io::Result<Option<usize>> {
        self.sim()?.find(self.root(), path, true)
    }

    fn any(&self) -> MutexGuard<'_, Sim> {
        self.sim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sim(&self) -> io::Result<MutexGuard<'_, Sim>> {
        self.process.call();
        let sim = self.any();
        if sim.running && sim.boot == self.boot {
            Ok(sim)
        } else {
            Err(io::Error::other("the power is off"))
        }
    }

    /// Counts a change; the power may fail before or after it.
    fn change<T>(
        &self,
        needs_space: bool,
        note: impl FnOnce() -> String,
        act: impl FnOnce(&mut Sim) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut sim = self.sim()?;
        let number = sim.changes;
        self.process.check(number)?;
        sim.changes += 1;
        if let Some(trace) = &mut sim.trace {
            trace.push(format!("{number} {}", note()));
        }
        let full = sim.faults.full;
        if needs_space && full.is_some_and(|(from, count)| (from..from + count).contains(&number)) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if sim.faults.fail_at == Some(number) {
            return Err(io::Error::other("input/output error (simulated)"));
        }
        if sim.faults.cut_at != Some(number) {
            return act(&mut sim);
        }
        if sim.dice.chance(50) {
            let _ = act(&mut sim);
        }
        sim.running = false;
        Err(io::Error::other("the power went"))
    }
}

#[derive(Debug)]
struct SimFile {
    media: SimMedia,
    node: usize,
}

impl MediaFile for SimFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let sim = self.media.sim()?;
        let live = &sim.nodes[self.node].file()?.live;
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(live.len());
        let count = bytes.len().min(live.len() - from);
        bytes[..count].copy_from_slice(&live[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let note = || format!("write #{} {offset}+{}", self.node, bytes.len());
        self.media.change(true, note, |sim| {
            let op = FileOp::Write(offset, bytes.to_vec());
            sim.nodes[self.node].file_mut()?.apply(op);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let note = || format!("set length #{} {len}", self.node);
        self.media.change(true, note, |sim| {
            sim.nodes[self.node].file_mut()?.apply(FileOp::SetLen(len));
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        let sim = self.media.sim()?;
        Ok(sim.nodes[self.node].file()?.live.len() as u64)
    }

    fn sync(&self, site: Site) -> io::Result<()> {
        let note = || format!("sync #{} {site:?}", self.node);
        self.media.change(false, note, |sim| {
            let fails = sim.sync_fails();
            let mut dice = sim.dice.clone();
            let ignored = sim.note_sync(site);
            let file = sim.nodes[self.node].file_mut()?;
            if fails {
                file.fail_sync(&mut dice);
                sim.dice = dice;
                return Err(io::Error::other("input/output error (simulated)"));
            }
            if !ignored {
                file.sync();
            }
            Ok(())
        })
    }
}

impl Sim {
    fn note_sync(&mut self, site: Site) -> bool {
        self.syncs.insert(site);
        self.faults.ignore == Some(site)
    }

    fn sync_fails(&mut self) -> bool {
        match &mut self.faults.fail_sync {
            Some(0) => {
                self.faults.fail_sync = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

impl Media for SimMedia {
    fn rooted(&self, root: &Path) -> Arc<dyn Media> {
        Arc::new(Self {
            root: Some(root.to_path_buf()),
            ..self.clone()
        })
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>> {
        let found = self.find(path)?;
        let node = match (found, access) {
            (Some(_), Access::CreateNew) => {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists));
            }
            (Some(node), _) => {
                self.sim()?.nodes[node].file()?;
                node
            }
            (None, Access::Read | Access::Write) => {
                return Err(io::Error::from(io::ErrorKind::NotFound));
            }
            (None, Access::Create | Access::CreateNew) => {
                let note = || format!("create {}", path.display());
                self.change(true, note, |sim| {
                    sim.add(self.root(), path, Node::file_node())
                })?
            }
        };
        Ok(Arc::new(SimFile {
            media: self.clone(),
            node,
        }))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Kind>> {
        let Some(node) = self.find(path)? else {
            return Ok(None);
        };
        Ok(match &self.sim()?.nodes[node] {
            Node::File(file) => Some(Kind::File(file.live.len() as u64)),
            Node::Folder { .. } => Some(Kind::Folder),
            Node::Link(_) => None,
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let sim = self.sim()?;
        let node = sim.existing(self.root(), folder)?;
        Ok(sim.nodes[node].entries()?.keys().cloned().collect())
    }

    fn make_folder(&self, path: &Path) -> io::Result<bool> {
        let found = self.find(path)?;
        if let Some(node) = found {
            self.sim()?.nodes[node].entries()?;
            return Ok(false);
        }
        let note = || format!("make folder {}", path.display());
        self.change(true, note, |sim| sim.add(self.root(), path, Node::folder()))?;
        Ok(true)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let note = || format!("rename {} {}", from.display(), to.display());
        self.change(false, note, |sim| sim.rename(self.root(), from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let note = || format!("remove {}", path.display());
        self.change(false, note, |sim| sim.remove(self.root(), path, false))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let note = || format!("remove folder {}", path.display());
        self.change(false, note, |sim| sim.remove(self.root(), path, true))
    }

    fn sync_folder(&self, path: &Path, site: Site) -> io::Result<()> {
        let note = || format!("sync folder {} {site:?}", path.display());
        self.change(false, note, |sim| {
            let folder = sim.existing(self.root(), path)?;
            sim.nodes[folder].entries()?;
            if sim.sync_fails() {
                return Err(io::Error::other("input/output error (simulated)"));
            }
            if !sim.note_sync(site) {
                sim.sync_names(folder);
            }
            Ok(())
        })
    }

    fn volume(&self, _root: &Path) -> io::Result<Option<Box<dyn Volume>>> {
        let has_one = self.sim()?.seed.wrapping_add(self.boot) & 1 == 1;
        Ok(has_one.then(|| Box::new(SimVolume(self.clone())) as Box<dyn Volume>))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>> {
        if self.sim()?.locked.contains(path) {
            return Ok(None);
        }
        self.open(path, Access::Create)?;
        self.sim()?.locked.insert(path.to_path_buf());
        let text = self.read(path, limits::LINE)?.unwrap_or_default();
        let lock = SimLock {
            media: self.clone(),
            path: path.to_path_buf(),
        };
        Ok(Some((
            Box::new(lock),
            String::from_utf8_lossy(&text).into_owned(),
        )))
    }

    fn network(&self, path: &Path) -> io::Result<Option<&'static str>> {
        match self.stat(path)? {
            Some(_) => Ok(None),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn remove_all(&self, path: &Path) -> io::Result<()> {
        let found = self.sim()?.find(self.root(), path, false)?;
        let Some(node) = found else { return Ok(()) };
        if !matches!(self.sim()?.nodes[node], Node::Folder { .. }) {
            return self.remove_file(path);
        }
        for name in self.list(path)? {
            self.remove_all(&path.join(name))?;
        }
        self.remove_folder(path)
    }

    fn boot_id(&self) -> String {
        // Kills change only the upper half.
        format!("sim-{}", self.boot & 0xffff_ffff)
    }

    fn has_background(&self) -> bool {
        false
    }
}
