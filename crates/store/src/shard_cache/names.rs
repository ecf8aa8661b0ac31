//! How messages and indexes name cached objects, and the processes that give pieces of them.

use isochrony_cache::ObjectKey;
use serde::{Deserialize, Serialize};

/// Host and port of a process that gives pieces.
pub type PeerAddress = (String, u16);

/// A cached object's name in messages and indexes: the first half of its key's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName(pub [u8; 16]);

impl From<&ObjectKey> for ObjectName {
    fn from(key: &ObjectKey) -> Self {
        let mut name = [0; 16];
        name.copy_from_slice(&key.digest()[..16]);
        Self(name)
    }
}
