//! Operators by name, for saved plans, the command line and Python.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::operator_factory::{FactoryResolver, SharedFactory};
use crate::{Declaration, OperatorType, PlanError, PortType, operators};

/// Operators' declarations and resolvers of saved factory operators, by name.
#[derive(Clone)]
pub struct Catalog {
    declared: Vec<Declaration>,
    factories: Vec<(&'static str, FactoryResolver)>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Self::standard()
    }
}

impl Catalog {
    /// This crate's operators.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            declared: operators::FAMILIES.concat(),
            factories: Vec::new(),
        }
    }

    /// Adds an operator, possibly of another crate, replacing one of the same name.
    #[must_use]
    pub fn with<O: OperatorType>(self) -> Self {
        self.with_declaration(O::DECLARATION)
    }

    /// As [`with`](Self::with), given the declaration.
    #[must_use]
    pub fn with_declaration(mut self, declaration: Declaration) -> Self {
        self.declared.retain(|known| known.name != declaration.name);
        self.declared.push(declaration);
        self
    }

    /// Sets how saved factory operators of a name are restored.
    #[must_use]
    pub fn with_factory(
        mut self,
        name: &'static str,
        resolve: impl Fn(&Map<String, Value>, &[PortType]) -> Result<SharedFactory, PlanError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.factories.retain(|known| known.0 != name);
        self.factories.push((name, Arc::new(resolve)));
        self
    }

    pub(crate) fn factory_resolver(&self, name: &str) -> Option<&FactoryResolver> {
        self.factories
            .iter()
            .find(|known| known.0 == name)
            .map(|known| &known.1)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let declared = self.declared.iter().map(|known| known.name);
        declared.chain(self.factories.iter().map(|known| known.0))
    }

    /// The operator called `name`.
    ///
    /// # Errors
    /// [`PlanError::UnknownOperator`].
    pub fn get(&self, name: &str) -> Result<&Declaration, PlanError> {
        self.declared
            .iter()
            .find(|known| known.name == name)
            .ok_or_else(|| PlanError::UnknownOperator {
                name: name.into(),
                known: self.names().collect::<Vec<_>>().join(", "),
            })
    }

    /// All declarations.
    pub fn iter(&self) -> impl Iterator<Item = &Declaration> {
        self.declared.iter()
    }
}
