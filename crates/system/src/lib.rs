//! What other crates need of the operating system beyond the standard library.
//!
//! Other crates are portable: none depends on `rustix`, `libc` or `io-uring`, or reads `/proc` and `/sys`
//! (`tools/check_portability.py`). `docs/design/porting.md` lists what each module needs of another system.
//!
//! What a system cannot do does nothing, or returns `None` or `ErrorKind::Unsupported`, as each function says. The
//! crate knows neither samples nor stores, and depends on no other crate of the workspace.

pub mod affinity;
pub mod blocks;
pub mod cpu_topology;
pub mod descriptor;
pub mod folder;
pub mod folder_watch;
#[cfg_attr(not(target_os = "linux"), path = "forks_unobserved.rs")]
pub mod forks;
pub mod machine;
pub mod memory;
pub mod page_cache;
pub mod process;
pub mod read_ring;
pub mod shared_memory;
pub mod usage;
pub mod volume;
