//! Values of which each process has its own: a forked one makes them anew.
//!
//! A forked process has one thread, the one that forked it: the other process's runtime does not run there, its
//! connections are shared with it, and a lock that was held at that moment is held for ever. So what depends on them is
//! made again, and nothing of the parent's is locked on the way.

use std::sync::OnceLock;

/// A list that is never changed but at its end, so that who reads it waits for nobody.
#[derive(Debug)]
pub(crate) struct PerProcess<T>(OnceLock<Box<Own<T>>>);

#[derive(Debug)]
struct Own<T> {
    process: u32,
    value: T,
    next: PerProcess<T>,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The value of this process, made when it is first asked for. Two threads that ask first at a time make one each,
    /// and one of them is kept.
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
            let own = Box::new(Own {
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
    fn a_value_is_made_once_and_a_failure_is_not_kept() {
        let values = PerProcess::new();
        assert_eq!(values.get(|| Err::<u8, _>("no luck")), Err("no luck"));
        assert_eq!(values.get(|| Ok::<_, ()>(7)), Ok(&7));
        assert_eq!(values.get(|| Ok::<_, ()>(8)), Ok(&7));
    }
}
