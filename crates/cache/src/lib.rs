//! A cache of pieces of remote objects on a host's disk, shared by all its processes.
//!
//! An object ([`ObjectKey`]) is fetched in pieces of equal length, each wholly present or not at all. It is one sparse
//! file with its pieces at their offsets, so it can be memory-mapped ([`PinnedObject::map`]).
//!
//! ```text
//! Cache          the folder: quota, eviction, journal          Cache::open
//!   PinnedObject   an object that eviction leaves alone        Cache::pin
//!     Reservation    space for pieces that are to be fetched   PinnedObject::reserve
//!     Mapping        the object's bytes in memory              PinnedObject::map
//! ```
//!
//! Guarantees:
//! - **No unchecked bytes.** A piece becomes present after its bytes have passed a [`Check`] and are written. Every
//!   process verifies the stored CRC-32C before its first use of the piece. So a torn write, a power cut, a flipped bit
//!   or a truncated file costs a second fetch, never wrong data.
//! - **Quota.** Space is reserved before a fetch, and counts as used until the object's file is deleted.
//! - **Processes share the folder.** A kernel file lock serialises changes; reads take no lock. One process fetches a
//!   piece while others wait, and one of them takes over if it dies.
//! - **Pins and reservations end with their process**: both are kernel file locks.
//! - **Eviction deletes whole files.** It never truncates them or punches holes, so mapped bytes do not change.
//!
//! ```
//! use isochrony_cache::{Cache, CacheError, CacheOptions, Check, ObjectKey};
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path().join("cache");
//! let cache = Cache::open(&folder, CacheOptions::new(64 << 20))?;
//! let key = ObjectKey::file("https://example.org/day.raw", "\"5f3c\"");
//! let origin = vec![7u8; 3_000_000];
//! let object = cache.pin(&key, origin.len() as u64)?;
//! object.fetch(0..1_000, std::time::Duration::from_secs(30), |reservation| {
//!     for range in reservation.ranges() {
//!         let bytes = &origin[range.start as usize..range.end as usize];
//!         reservation.store(range.start, bytes, Check::Crc32c(crc32c::crc32c(bytes)))?;
//!     }
//!     Ok::<(), CacheError>(())
//! })?;
//! let mut samples = [0; 1_000];
//! object.read_at(0, &mut samples)?;
//! assert_eq!(samples, [7; 1_000]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A failing cache is not fatal: on [`CacheError::CacheFull`] or [`CacheError::DiskFull`] read the remote object
//! directly. `docs/cache.md` describes the bytes on disk, `docs/cache/failures.md` the state after each kind of crash.

mod cache;
mod changes;
mod check;
mod clear;
mod error;
mod folder;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod index;
mod info;
mod journal;
mod key;
mod known_pieces;
mod locks;
mod map;
mod object;
mod piece_table;
mod pinned;
mod ranges;
mod reservation;
mod space;
mod state;

pub use cache::{Cache, CacheOptions};
pub use changes::{Change, Manifest, ManifestEntry, Sequence};
pub use check::Check;
pub use clear::ClearReport;
pub use error::CacheError;
pub use info::CacheInfo;
pub use isochrony_placement::EvictionPolicy;
pub use key::{FileVersion, ObjectKey};
pub use map::Mapping;
pub use pinned::PinnedObject;
pub use reservation::Reservation;
