//! Names of row fields.

use std::collections::HashSet;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

static KNOWN: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// An interned field name, so that operations are `Copy`. Names live as long as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(&'static str);

impl Name {
    /// Interns a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        // A panic leaves the set intact.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&name) = known.get(text) {
            return Self(name);
        }
        let name: &'static str = Box::leak(text.into());
        known.insert(name);
        Self(name)
    }

    /// The text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0
    }

    fn is_identifier(self) -> bool {
        let mut letters = self.0.chars();
        letters
            .next()
            .is_some_and(|c| c == '_' || c.is_alphabetic())
            && letters.all(|c| c == '_' || c.is_alphanumeric())
    }
}

/// As in Python: `r.mean`, `r["a b"]`.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_identifier() {
            write!(f, "r.{}", self.0)
        } else {
            write!(f, "r[{:?}]", self.0)
        }
    }
}
