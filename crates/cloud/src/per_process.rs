//! Values that a forked process creates anew.
//!
//! There, the parent's runtime does not run, connections are shared, and a held lock stays held for ever. So values are
//! created again, without any lock of the parent.

use std::sync::OnceLock;

/// An append-only list, so that readers never wait.
#[derive(Debug)]
pub(crate) struct PerProcess<T>(OnceLock<Box<ProcessValue<T>>>);

#[derive(Debug)]
struct ProcessValue<T> {
    process: u32,
    value: T,
    next: PerProcess<T>,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Created on first use; of concurrent ones, one is kept.
    pub(crate) fn get<E>(&self, mut make: impl FnMut() -> Result<T, E>) -> Result<&T, E> {
        let process = std::process::id();
        let mut link = self;
        let mut made = None;
        loop {
            if let Some(own) = link.0.get() {
                if own.process == process {
                    return Ok(&own.value);
                }
                link = &own.next;
                continue;
            }
            let value = match made.take() {
                Some(value) => value,
                None => make()?,
            };
            let next = Self::new();
            let own = Box::new(ProcessValue {
                process,
                value,
                next,
            });
            if let Err(own) = link.0.set(own) {
                made = Some(own.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_created_once_and_failures_are_not_cached() {
        let values = PerProcess::new();
        assert_eq!(values.get(|| Err::<u8, _>("no luck")), Err("no luck"));
        assert_eq!(values.get(|| Ok::<_, ()>(7)), Ok(&7));
        assert_eq!(values.get(|| Ok::<_, ()>(8)), Ok(&7));
    }
}
