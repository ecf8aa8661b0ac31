//! Files and folders of the simulation.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::Dice;

#[derive(Debug, Clone)]
pub(super) enum FileOp {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

#[derive(Debug, Clone, Default)]
pub(super) struct FileNode {
    pub(super) live: Vec<u8>,
    /// Content at the last sync.
    pub(super) durable: Vec<u8>,
    pub(super) pending: Vec<FileOp>,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(FileNode),
    Folder {
        live: BTreeMap<String, usize>,
        durable: BTreeMap<String, usize>,
    },
    Link(PathBuf),
}

impl Node {
    pub(super) fn folder() -> Self {
        Self::Folder {
            live: BTreeMap::new(),
            durable: BTreeMap::new(),
        }
    }

    pub(super) fn file_node() -> Self {
        Self::File(FileNode::default())
    }

    pub(super) fn file(&self) -> io::Result<&FileNode> {
        match self {
            Self::File(file) => Ok(file),
            _ => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        }
    }

    pub(super) fn file_mut(&mut self) -> io::Result<&mut FileNode> {
        match self {
            Self::File(file) => Ok(file),
            _ => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        }
    }

    pub(super) fn entries(&self) -> io::Result<&BTreeMap<String, usize>> {
        match self {
            Self::Folder { live, .. } => Ok(live),
            _ => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        }
    }
}

fn run(bytes: &mut Vec<u8>, op: &FileOp) {
    match op {
        FileOp::SetLen(len) => bytes.resize(*len as usize, 0),
        FileOp::Write(offset, new) => write(bytes, *offset as usize, new),
    }
}

fn write(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

impl FileNode {
    pub(super) fn apply(&mut self, op: FileOp) {
        run(&mut self.live, &op);
        self.pending.push(op);
    }

    pub(super) fn sync(&mut self) {
        // Equal to replaying pending operations, unless an earlier sync failed: then the lost part stays lost.
        for op in self.pending.drain(..) {
            run(&mut self.durable, &op);
        }
    }

    /// The kernel marks the pages clean, so no later sync writes them.
    pub(super) fn fail_sync(&mut self, dice: &mut Dice) {
        self.settle(dice, 50);
    }

    /// Makes a random part of pending operations durable and drops the rest.
    fn settle(&mut self, dice: &mut Dice, keep: u64) {
        for op in self.pending.drain(..) {
            if dice.chance(keep) {
                run(&mut self.durable, &op);
                continue;
            }
            let FileOp::Write(offset, new) = &op else {
                continue;
            };
            // A third of the lost writes are torn.
            if keep > 0 && dice.chance(33) {
                let from = dice.below(new.len() as u64) as usize;
                let to = from + dice.below((new.len() - from) as u64 + 1) as usize;
                let (from, to) = if dice.chance(50) { (0, to) } else { (from, to) };
                write(&mut self.durable, *offset as usize + from, &new[from..to]);
            }
        }
    }

    pub(super) fn cut(&mut self, dice: &mut Dice, keep: u64) {
        self.settle(dice, keep);
        self.live.clone_from(&self.durable);
    }
}
