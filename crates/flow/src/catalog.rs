//! Operators by name: what a saved plan, the command line and Python choose from.

use crate::{Declaration, Declared, PlanError, ops};

/// Declarations of operators, by name.
#[derive(Debug, Clone)]
pub struct Catalog(Vec<Declaration>);

impl Default for Catalog {
    fn default() -> Self {
        Self::standard()
    }
}

impl Catalog {
    /// The operators of this crate.
    #[must_use]
    pub fn standard() -> Self {
        Self(ops::ALL.to_vec())
    }

    /// Adds an operator, also one of the user's own crate; one of the same name is replaced.
    #[must_use]
    pub fn with<O: Declared>(mut self) -> Self {
        self.0.retain(|known| known.name != O::DECLARATION.name);
        self.0.push(O::DECLARATION);
        self
    }

    /// The operator of a name.
    ///
    /// # Errors
    /// [`PlanError::UnknownOperator`].
    pub fn get(&self, name: &str) -> Result<&Declaration, PlanError> {
        self.0
            .iter()
            .find(|known| known.name == name)
            .ok_or_else(|| PlanError::UnknownOperator {
                name: name.into(),
                known: self
                    .0
                    .iter()
                    .map(|known| known.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }

    /// All declarations.
    pub fn iter(&self) -> impl Iterator<Item = &Declaration> {
        self.0.iter()
    }
}
