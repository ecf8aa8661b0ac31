//! Storage medium for stores in object storage (`s3://`, `gs://`, `az://`) and on web servers (`https://`).
//!
//! [`register`] makes URLs valid store paths. Such stores are read-only. MANIFEST and redo log are requested each time,
//! everything else is listed once and read in that version (`If-Match`).
//!
//! [`stat_object`], [`ObjectReader`] and [`put_object`] are for objects outside stores.
//!
//! ```text
//!  store ──▶ CloudMedia ──▶ Session (one per process) ── Listing │ BlockCache (32 MiB)
//!               │                                           │        │
//!               ▼                                           ▼        ▼
//!           CloudFile ── parts of 8 MiB ──────────────▶ Requests ── driver thread ──▶ object_store
//! ```

mod blocks;
mod client;
mod credentials;
mod driver;
mod error;
mod file;
mod listing;
mod media;
mod objects;
mod per_process;
mod read_ahead;
mod remote_store;
mod requests;
mod session;
mod signal_read_ahead;
mod upload;
mod writer;

use std::io;
use std::sync::Arc;

use isochrony_store::media::Media;

pub use error::CloudError;
pub use media::CloudMedia;
pub use objects::{ObjectReader, ObjectVersion, put_object, stat_object};
pub use writer::CloudWriter;

/// Makes URLs valid store paths in this process. Starts nothing; may be called again.
pub fn register() {
    isochrony_store::media::remote::register(open, open_writer);
}

fn open_writer(url: &str) -> io::Result<Arc<dyn Media>> {
    Ok(Arc::new(CloudMedia::open(url)?.writer()?))
}

fn open(url: &str) -> io::Result<Arc<dyn Media>> {
    Ok(Arc::new(CloudMedia::open(url)?))
}
