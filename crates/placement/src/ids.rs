//! Dense identifiers, and the interner that maps names to them.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// An immutable object: a position in the index's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// A host: one cache with some slots. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// A task: slot and generation, so that an identifier never denotes a later task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Maps names to dense identifiers and back. Reuses identifiers of removed names.
#[derive(Debug, Clone)]
pub struct Interner<K> {
    ids: FxHashMap<K, ObjectId>,
    names: Vec<Option<K>>,
    free: Vec<ObjectId>,
}

impl<K> Default for Interner<K> {
    fn default() -> Self {
        Self {
            ids: FxHashMap::default(),
            names: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<K: Hash + Eq + Clone> Interner<K> {
    /// The identifier of a name, new if necessary. `K` should be cheap to clone (`Arc<str>`): it is stored twice.
    pub fn intern(&mut self, name: K) -> ObjectId {
        if let Some(&id) = self.ids.get(&name) {
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            ObjectId((self.names.len() - 1) as u32)
        });
        self.names[id.0 as usize] = Some(name.clone());
        self.ids.insert(name, id);
        id
    }

    /// The identifier of a name, if it has one.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> Option<ObjectId>
    where
        K: Borrow<Q>,
    {
        self.ids.get(name).copied()
    }

    /// The name of an identifier.
    pub fn name(&self, id: ObjectId) -> Option<&K> {
        self.names.get(id.0 as usize)?.as_ref()
    }

    /// Removes a name. Only for objects that no host holds and no task waits for.
    pub fn remove(&mut self, id: ObjectId) -> Option<K> {
        let name = self.names.get_mut(id.0 as usize)?.take()?;
        self.ids.remove(&name);
        self.free.push(id);
        Some(name)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn names_keep_their_identifiers_and_removed_ones_are_reused() {
        let mut names: Interner<Arc<str>> = Interner::default();
        let a = names.intern("a".into());
        let b = names.intern("b".into());
        assert_eq!(names.intern("a".into()), a);
        assert_ne!(a, b);
        assert_eq!(names.get("b"), Some(b));
        assert_eq!(names.remove(a).as_deref(), Some("a"));
        assert_eq!((names.get("a"), names.name(a)), (None, None));
        assert_eq!(names.intern("c".into()), a);
        assert_eq!(names.name(a).map(|name| &**name), Some("c"));
        assert_eq!(names.len(), 2);
        assert!(!names.is_empty());
    }
}
