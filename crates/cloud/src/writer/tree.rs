//! `Tree`: files and folders of a store being written. Object stores have no folders.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::node::Node;
use crate::listing::{has_folder, names_in};

/// By name below the store, itself "". A folder exists if it was created or contains a file.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, Arc<Node>>,
    folders: BTreeMap<String, ()>,
}

impl Tree {
    pub(super) fn new(files: BTreeMap<String, Arc<Node>>) -> Self {
        Self {
            files,
            folders: BTreeMap::new(),
        }
    }

    pub(super) fn files(&self) -> &BTreeMap<String, Arc<Node>> {
        &self.files
    }

    pub(super) fn file(&self, name: &str) -> Option<&Arc<Node>> {
        self.files.get(name)
    }

    pub(super) fn is_folder(&self, name: &str) -> bool {
        self.folders.contains_key(name)
            || has_folder(&self.files, name)
            || has_folder(&self.folders, name)
    }

    pub(super) fn add(&mut self, name: &str, node: Arc<Node>) -> io::Result<()> {
        self.check_parent(name)?;
        self.files.insert(name.to_owned(), node);
        Ok(())
    }

    /// `false` if it existed.
    pub(super) fn make_folder(&mut self, name: &str) -> io::Result<bool> {
        if self.is_folder(name) {
            return Ok(false);
        }
        if self.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.check_parent(name)?;
        self.folders.insert(name.to_owned(), ());
        Ok(true)
    }

    pub(super) fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        if !self.is_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut names = names_in(&self.files, folder);
        // The store's own folder is in no other.
        let own = |name: &String| !name.is_empty();
        names.extend(names_in(&self.folders, folder).into_iter().filter(own));
        names.sort();
        names.dedup();
        Ok(names)
    }

    pub(super) fn remove_file(&mut self, name: &str) -> io::Result<()> {
        if self.is_folder(name) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let removed = self.files.remove(name);
        removed.ok_or(io::ErrorKind::NotFound)?;
        self.keep_parent(name);
        Ok(())
    }

    pub(super) fn remove_folder(&mut self, name: &str) -> io::Result<()> {
        if self.files.contains_key(name) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if !self.names(name)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.folders.remove(name);
        self.keep_parent(name);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.check_parent(to)?;
        if let Some(node) = self.files.get(from).cloned() {
            if self.is_folder(to) {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            self.files.remove(from);
            self.files.insert(to.to_owned(), node);
            self.keep_parent(from);
            return Ok(());
        }
        if !self.is_folder(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.files.contains_key(to) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if self.is_folder(to) && !self.names(to)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        move_below(&mut self.files, from, to);
        move_below(&mut self.folders, from, to);
        self.folders.remove(from);
        self.folders.insert(to.to_owned(), ());
        self.keep_parent(from);
        Ok(())
    }

    fn check_parent(&self, name: &str) -> io::Result<()> {
        // The store's parent folder always exists.
        match name.is_empty() || self.is_folder(parent(name)) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn keep_parent(&mut self, name: &str) {
        self.folders.insert(parent(name).to_owned(), ());
    }
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn move_below<V>(map: &mut BTreeMap<String, V>, from: &str, to: &str) {
    let begin = format!("{from}/");
    // '0' follows '/'.
    let mut below = map.split_off(&begin);
    let mut behind = below.split_off(&format!("{from}0"));
    map.append(&mut behind);
    for (name, value) in below {
        map.insert(format!("{to}/{}", &name[begin.len()..]), value);
    }
}
