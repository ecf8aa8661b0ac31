//! Owners of plans' Python objects, visible to Python's garbage collector.
//!
//! Python's collector does not see references of plans: a plan that kept a function referring to its owner would never
//! be freed. So a plan has a weak reference ([`Callable`]), and an [`Owner`], to which each later
//! [`NativePlan`](super::NativePlan) refers, keeps the function. Owners refer to their inputs' owners, so each
//! reference is counted and visited once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use isochrony_flow::{Cause, OpError, OpErrorKind};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::interpreter::attach;
use crate::memory::references;

#[derive(Clone)]
pub(crate) struct Callable(Weak<Py<PyAny>>);

impl Callable {
    pub(crate) fn get(&self) -> Result<Arc<Py<PyAny>>, OpError> {
        let message = "the plan was freed before it ran; keep a reference to it until then";
        let gone = || OpErrorKind::Failed(Cause::from(message)).into();
        self.0.upgrade().ok_or_else(gone)
    }
}

#[derive(Clone, Default)]
pub(crate) struct ObjectKeeper(Arc<Mutex<KeptObjects>>);

#[derive(Default)]
struct KeptObjects {
    objects: Vec<Arc<Py<PyAny>>>,
    owners: Vec<Py<Owner>>,
}

impl ObjectKeeper {
    pub(crate) fn keep(&self, object: Py<PyAny>) -> Callable {
        let object = Arc::new(object);
        let callable = Callable(Arc::downgrade(&object));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.objects.push(object);
        callable
    }

    pub(crate) fn keep_all_of(&self, owner: Py<Owner>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.owners.push(owner);
    }

    /// Owns the objects and the inputs' owners; None if both are empty.
    pub(crate) fn owner<'a>(
        &self,
        py: Python<'_>,
        inputs: impl IntoIterator<Item = &'a Py<Owner>>,
    ) -> PyResult<Option<Py<Owner>>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let KeptObjects {
            objects,
            owners: mut others,
        } = std::mem::take(&mut *kept);
        drop(kept);
        others.extend(inputs.into_iter().map(|input| input.clone_ref(py)));
        let mut seen = HashSet::new();
        others.retain(|other| seen.insert(other.as_ptr().addr()));
        if objects.is_empty() && others.len() < 2 {
            return Ok(others.pop());
        }
        let owner = Owner {
            objects: Mutex::new(objects),
            others: Mutex::new(others),
        };
        Py::new(py, owner).map(Some)
    }
}

/// Owns the functions of a plan's last operator, and the owners of its inputs.
#[pyclass(frozen, module = "isochrony._native", name = "_Owner")]
pub(crate) struct Owner {
    objects: Mutex<Vec<Arc<Py<PyAny>>>>,
    others: Mutex<Vec<Py<Owner>>>,
}

#[pymethods]
impl Owner {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Only attached threads take these locks, briefly.
        if let Ok(objects) = self.objects.try_lock() {
            // A run may share it (`Owner::objects_of`).
            let own = objects
                .iter()
                .filter(|object| Arc::strong_count(object) == 1);
            own.into_iter()
                .try_for_each(|object| visit.call(&**object))?;
        }
        if let Ok(others) = self.others.try_lock() {
            others.iter().try_for_each(|other| visit.call(other))?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        // Dropping may run Python code, so not under the locks.
        let objects = self.objects.lock().map(|mut all| std::mem::take(&mut *all));
        let others = self.others.lock().map(|mut all| std::mem::take(&mut *all));
        drop((objects, others));
    }
}

impl Owner {
    pub(crate) fn addresses(owner: &Py<Self>, py: Python<'_>) -> HashSet<usize> {
        let objects = Self::objects_of(py, std::iter::once(owner));
        let addresses = objects.iter().map(|object| Arc::as_ptr(object).addr());
        addresses.collect()
    }

    /// All objects that owners and their owners keep.
    ///
    /// A run holds them while it lasts, and takes and drops them while attached: if operators changed counts during a
    /// collection, the collector would see inconsistent numbers.
    pub(crate) fn objects_of<'a>(
        py: Python<'_>,
        owners: impl IntoIterator<Item = &'a Py<Self>>,
    ) -> Vec<Arc<Py<PyAny>>> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let owners = owners.into_iter().map(|owner| owner.clone_ref(py));
        let mut left: Vec<Py<Self>> = owners.collect();
        while let Some(owner) = left.pop() {
            if !seen.insert(owner.as_ptr().addr()) {
                continue;
            }
            let owner = owner.get();
            let objects = owner.objects.lock().unwrap_or_else(PoisonError::into_inner);
            found.extend(objects.iter().cloned());
            let others = owner.others.lock().unwrap_or_else(PoisonError::into_inner);
            left.extend(others.iter().map(|other| other.clone_ref(py)));
        }
        found
    }
}

impl Drop for Owner {
    /// Without recursion: the chain may be long.
    fn drop(&mut self) {
        let own = |others: &Mutex<Vec<Py<Self>>>| {
            std::mem::take(&mut *others.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let mut left = own(&self.others);
        if left.is_empty() {
            return;
        }
        attach(|py| {
            while let Some(other) = left.pop() {
                if references(other.bind(py).as_any()) == 1 {
                    left.append(&mut own(&other.get().others));
                }
            }
        });
    }
}
