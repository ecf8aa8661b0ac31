//! Directory tree of the simulated file system.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::Sim;
use super::node::Node;
use crate::media::Refusal;

/// Durable once every folder it names was synced afterwards.
#[derive(Debug, Clone)]
pub(super) struct NameOp {
    pub(super) change: NameChange,
    pub(super) waits_for: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Add {
        folder: usize,
        name: String,
        node: usize,
    },
    Remove {
        folder: usize,
        name: String,
    },
    Rename {
        from: (usize, String),
        to: (usize, String),
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum World {
    Live,
    Durable,
}

impl Sim {
    /// Follows links, that of the last component if `follow`; links below `root`, and everything outside, are refused.
    pub(super) fn find(
        &self,
        root: Option<&Path>,
        path: &Path,
        follow: bool,
    ) -> io::Result<Option<usize>> {
        if root.is_some_and(|root| !path.starts_with(root)) {
            return Err(Refusal::Outside { path: path.into() }.into());
        }
        let mut walked = PathBuf::from("/");
        let mut at = 0;
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            let Component::Normal(name) = component else {
                continue;
            };
            let Node::Folder { live, .. } = &self.nodes[at] else {
                return Ok(None);
            };
            walked.push(name);
            match live.get(&*name.to_string_lossy()) {
                Some(node) => at = *node,
                None => return Ok(None),
            }
            let Node::Link(target) = &self.nodes[at] else {
                continue;
            };
            if components.peek().is_none() && !follow {
                continue;
            }
            if root.is_some_and(|root| walked != root && walked.starts_with(root)) {
                let found = "a symbolic link";
                return Err(Refusal::Kind {
                    path: walked,
                    found,
                }
                .into());
            }
            match self.find(None, target, true)? {
                Some(node) => at = node,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    pub(super) fn existing(&self, root: Option<&Path>, path: &Path) -> io::Result<usize> {
        self.find(root, path, true)?
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn split(&self, root: Option<&Path>, path: &Path) -> io::Result<(usize, String)> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let name = path.file_name().ok_or_else(invalid)?;
        let folder = self.existing(root, path.parent().ok_or_else(invalid)?)?;
        self.nodes[folder].entries()?;
        Ok((folder, name.to_string_lossy().into_owned()))
    }

    pub(super) fn add(
        &mut self,
        root: Option<&Path>,
        path: &Path,
        node: Node,
    ) -> io::Result<usize> {
        let (folder, name) = self.split(root, path)?;
        self.nodes.push(node);
        let node = self.nodes.len() - 1;
        self.change_names(NameChange::Add { folder, name, node }, vec![folder])?;
        Ok(node)
    }

    pub(super) fn remove(
        &mut self,
        root: Option<&Path>,
        path: &Path,
        is_folder: bool,
    ) -> io::Result<()> {
        let (folder, name) = self.split(root, path)?;
        let node = self.find(root, path, false)?;
        let node = node.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        match (&self.nodes[node], is_folder) {
            (Node::File(_) | Node::Link(_), true) => {
                return Err(io::Error::from(io::ErrorKind::NotADirectory));
            }
            (Node::Folder { .. }, false) => {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            (Node::Folder { live, .. }, true) if !live.is_empty() => {
                return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
            }
            _ => {}
        }
        self.change_names(NameChange::Remove { folder, name }, vec![folder])
    }

    pub(super) fn rename(&mut self, root: Option<&Path>, from: &Path, to: &Path) -> io::Result<()> {
        let there = self.find(root, from, false)?;
        there.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let (from, to) = (self.split(root, from)?, self.split(root, to)?);
        let mut waits_for = vec![from.0, to.0];
        waits_for.dedup();
        self.change_names(NameChange::Rename { from, to }, waits_for)
    }

    fn change_names(&mut self, change: NameChange, waits_for: Vec<usize>) -> io::Result<()> {
        self.run(World::Live, &change)?;
        self.pending.push(NameOp { change, waits_for });
        Ok(())
    }

    pub(super) fn sync_names(&mut self, folder: usize) {
        for op in &mut self.pending {
            op.waits_for.retain(|waits| *waits != folder);
        }
        self.settle_names();
    }

    pub(super) fn sync_all_names(&mut self) {
        for op in &mut self.pending {
            op.waits_for.clear();
        }
        self.settle_names();
    }

    fn settle_names(&mut self) {
        // Durable changes without an older pending one leave the list.
        let settled = self.pending.iter().take_while(|op| op.waits_for.is_empty());
        let settled = settled.count();
        let settled: Vec<NameOp> = self.pending.drain(..settled).collect();
        for op in settled {
            let _ = self.run(World::Durable, &op.change);
        }
    }

    fn entries_of(
        &mut self,
        world: World,
        folder: usize,
    ) -> io::Result<&mut std::collections::BTreeMap<String, usize>> {
        match (&mut self.nodes[folder], world) {
            (Node::Folder { live, .. }, World::Live) => Ok(live),
            (Node::Folder { durable, .. }, World::Durable) => Ok(durable),
            (Node::File(_) | Node::Link(_), _) => {
                Err(io::Error::from(io::ErrorKind::NotADirectory))
            }
        }
    }

    /// Impossible in the durable world if what it depends on was lost.
    pub(super) fn run(&mut self, world: World, change: &NameChange) -> io::Result<()> {
        match change {
            NameChange::Add { folder, name, node } => {
                self.entries_of(world, *folder)?.insert(name.clone(), *node);
            }
            NameChange::Remove { folder, name } => {
                let node = self.entries_of(world, *folder)?.get(name).copied();
                if world == World::Live {
                    self.refuse_full(world, node)?;
                }
                // Removing a folder durably removes its content in any state.
                self.entries_of(world, *folder)?.remove(name);
            }
            NameChange::Rename { from, to } => {
                let node = self.entries_of(world, from.0)?.get(&from.1).copied();
                let node = node.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                let target = self.entries_of(world, to.0)?.get(&to.1).copied();
                self.refuse_full(world, target)?;
                self.entries_of(world, from.0)?.remove(&from.1);
                self.entries_of(world, to.0)?.insert(to.1.clone(), node);
            }
        }
        Ok(())
    }

    fn refuse_full(&mut self, world: World, node: Option<usize>) -> io::Result<()> {
        let Some(node) = node else { return Ok(()) };
        match self.entries_of(world, node) {
            Ok(entries) if !entries.is_empty() => {
                Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty))
            }
            _ => Ok(()),
        }
    }
}
