//! Signals of a store by name.

use std::sync::PoisonError;

use super::Store;
use crate::append::SignalWriter;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::names::{Pattern, check_name, nearest};
use crate::op::{Op, SignalId};
use crate::options::CreateOptions;
use crate::scratch::Scratch;
use crate::signal::Signal;

impl Store {
    /// Names of all signals, sorted.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let catalogue = self.shared.backend.catalogue()?;
        Ok(catalogue.into_iter().map(|(_, name)| name).collect())
    }

    /// Names that match a [`Pattern`], sorted.
    ///
    /// # Errors
    /// [`StoreError::InvalidPattern`].
    pub fn find(&self, pattern: &str) -> Result<Vec<String>, StoreError> {
        let pattern = Pattern::new(pattern)?;
        let mut names = self.names()?;
        names.retain(|name| pattern.matches(name));
        Ok(names)
    }

    /// Whether the signal exists.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub fn contains(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.shared.backend.find(name)?.is_some())
    }

    /// The signal; for the writer, with uncommitted changes.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSignal`], with the nearest name.
    pub fn signal(&self, name: &str) -> Result<Signal, StoreError> {
        let id = self.id_of(name)?;
        Signal::load(&self.shared, id)
    }

    /// Handle for changing a signal.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::NoSuchSignal`].
    pub fn writer(&self, name: &str) -> Result<SignalWriter, StoreError> {
        self.shared.backend.engine("write to a signal")?;
        Ok(SignalWriter::new(&self.shared, self.id_of(name)?))
    }

    /// Creates a signal, durable with the next commit. Its folder is made at once, to detect a full disk. After a
    /// failure, nothing has changed.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`], [`StoreError::ReadOnly`], [`StoreError::InvalidName`], [`StoreError::SignalExists`]
    /// unless `overwrite` is set, [`StoreError::SignalInsideSignal`], [`StoreError::NameOfView`],
    /// [`StoreError::InvalidOption`], [`StoreError::InvalidAttributes`].
    pub fn create(&self, name: &str, options: &CreateOptions) -> Result<SignalWriter, StoreError> {
        let engine = self.shared.backend.engine_in_place("create a signal")?;
        check_name(name)?;
        self.refuse_view(name)?;
        let meta = Box::new(options.meta(name)?);
        let _whole = self
            .shared
            .gate
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let old = engine.find(name);
        if let Some(old) = old {
            if !options.overwrite {
                return Err(StoreError::SignalExists { name: name.into() });
            }
            engine.queue(Op::Remove { id: old })?;
            self.shared.mark_removed(old);
        }
        let id = engine.new_id();
        let name = name.to_owned();
        let created = engine.queue(Op::Create { id, name, meta }).and_then(|()| {
            let writer = SignalWriter::new(&self.shared, id);
            options
                .start
                .map_or(Ok(()), |start| writer.begin_at(start))?;
            Ok(writer)
        });
        if created.is_err() {
            // Neither part of a signal nor the removal of a replaced one may stay pending.
            engine.take_back(id);
            old.into_iter().for_each(|old| engine.take_back(old));
        }
        self.shared.backend.explain("create a signal", created)
    }

    /// Renames a signal; handles follow.
    ///
    /// # Errors
    /// As [`create`](Self::create), and [`StoreError::NoSuchSignal`].
    pub fn rename(&self, name: &str, to: &str) -> Result<(), StoreError> {
        let engine = self.shared.backend.engine_in_place("rename a signal")?;
        check_name(to)?;
        let id = self.id_of(name)?;
        if name == to {
            return Ok(());
        }
        self.refuse_view(to)?;
        let _whole = self
            .shared
            .gate
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        engine.queue(Op::Rename { id, to: to.into() })
    }

    /// Removes a signal with the next commit. Buffers of its samples stay valid.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::NoSuchSignal`].
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let engine = self.shared.backend.engine_in_place("remove a signal")?;
        let id = self.id_of(name)?;
        let _whole = self
            .shared
            .gate
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        engine.queue(Op::Remove { id })?;
        self.shared.mark_removed(id);
        Ok(())
    }

    /// A temporary, unlisted signal; see [`Scratch`].
    ///
    /// # Errors
    /// [`StoreError::Io`] without space.
    pub fn scratch(&self, options: &CreateOptions) -> Result<Scratch, StoreError> {
        Scratch::new(&self.shared, options)
    }

    /// Signals with uncommitted changes, and by how many samples each has grown.
    #[must_use]
    pub fn pending_signals(&self) -> Vec<(String, i64)> {
        let engine = self.shared.backend.engine("look for changes");
        engine.map_or_else(|_| Vec::new(), Engine::pending_signals)
    }

    pub(crate) fn id_of(&self, name: &str) -> Result<SignalId, StoreError> {
        if let Some(id) = self.shared.backend.find(name)? {
            return Ok(id);
        }
        let names = self.names()?;
        let near = nearest(name, names.iter().map(String::as_str));
        let hint = match near {
            _ if name.contains(['*', '?', '[']) => {
                ": that is a pattern, and find() takes those".to_owned()
            }
            Some(near) => format!("did you mean {near:?}? "),
            None => String::new(),
        };
        Err(StoreError::NoSuchSignal {
            name: name.into(),
            hint,
        })
    }
}
