//! Model checks with loom. One binary, to link once.

/// `super::sync` of the files below.
mod sync {
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[allow(dead_code)]
#[path = "../../src/scheduler/stages/block_scheduler.rs"]
mod block_scheduler;

#[allow(dead_code)]
#[path = "../../src/engine/control/changes.rs"]
mod changes;

#[allow(dead_code)]
#[path = "../../src/scheduler/stages/fork_join.rs"]
mod fork_join;

#[allow(dead_code)]
#[path = "../../src/scheduler/stages/link.rs"]
mod link;

#[allow(dead_code)]
#[path = "../../src/scheduler/reorder.rs"]
mod reorder;

#[path = "../common/stage_model.rs"]
#[allow(dead_code)]
mod stage_model;

#[allow(dead_code)]
#[path = "../../src/scheduler/stages/stage_queue.rs"]
mod stage_queue;

#[allow(dead_code)]
#[path = "../../src/scheduler/task_queue.rs"]
mod task_queue;

mod divided;
mod parameters;
mod replicas;
mod stages;
mod tasks;

use loom::thread;
