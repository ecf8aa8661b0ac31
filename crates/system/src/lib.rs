//! What other crates need of the operating system beyond the standard library.
//!
//! Other crates are portable: none depends on `rustix`, `libc` or `io-uring`, or reads `/proc` and `/sys`
//! (`tools/check_portability.py`). `docs/design/porting.md` lists what each module needs of another system.
//!
//! | module | what it answers |
//! |---|---|
//! | [`affinity`] | Which CPUs may a thread use? |
//! | [`blocks`] | Which blocks of the disk does a file have? |
//! | [`cpu_topology`] | Which CPUs share a core, a cache, a memory node? |
//! | [`descriptor`] | Can it be read or written now? |
//! | [`folder`] | What is at this path, without following links? |
//! | [`folder_watch`] | Has something in this folder changed? |
//! | [`forks`] | Is this the process that opened it? |
//! | [`machine`] | Which machine, system and boot is this? |
//! | [`memory`] | How much memory is there, and how much is free for this process? |
//! | [`page_cache`] | What of a file is in memory, and what should be? |
//! | [`process`] | Does a process run, and how did it end? |
//! | [`read_ring`] | Which file reads are complete? |
//! | [`shared_memory`] | Where do two processes exchange samples? |
//! | [`usage`] | What has a thread used? |
//! | [`volume`] | On which file system is it? |
//!
//! What a system cannot do does nothing, or returns `None` or `ErrorKind::Unsupported`, as each function says; callers
//! have another way. The crate knows neither samples nor stores, and depends on no other crate of the workspace.

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
