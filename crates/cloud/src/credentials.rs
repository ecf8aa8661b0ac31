//! Distinguishes missing credentials from other failures.
//!
//! Without variables, a client asks its cloud's metadata service. Elsewhere that error looks like any failed request,
//! so it is marked at its origin.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::CredentialProvider;

/// A failure to get credentials.
#[derive(Debug, thiserror::Error)]
#[error("no credentials")]
pub(crate) struct CredentialsError(#[source] pub(crate) object_store::Error);

/// Marks errors of another provider.
#[derive(Debug)]
pub(crate) struct MarkedProvider<T>(Arc<dyn CredentialProvider<Credential = T>>);

impl<T> MarkedProvider<T> {
    pub(crate) fn new(inner: &Arc<dyn CredentialProvider<Credential = T>>) -> Arc<Self> {
        Arc::new(Self(inner.clone()))
    }
}

#[async_trait]
impl<T: std::fmt::Debug + Send + Sync + 'static> CredentialProvider for MarkedProvider<T> {
    type Credential = T;

    async fn get_credential(&self) -> object_store::Result<Arc<T>> {
        let found = self.0.get_credential().await;
        found.map_err(|error| object_store::Error::Generic {
            store: "credentials",
            source: Box::new(CredentialsError(error)),
        })
    }
}
