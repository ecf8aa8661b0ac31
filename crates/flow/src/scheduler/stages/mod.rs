//! Runs what no task can compute in stages: parts of the plan that work at the same time, each in order.
//!
//! ```text
//!  +------------------+  link  +-----------------------+  link  +----------------------------+
//!  | scan -> low-pass | =====> | power, power          | =====> | threshold -> sink, Python  |
//!  +------------------+        +-----------------------+        +----------------------------+
//!     a stage is a graph           replicas compute blocks of      only the caller's thread
//!     that the engine              the input at the same time      executes this one
//!     executes depth first
//!
//!  StagePool:  caller's thread, helpers:  take a ready stage -> execute a burst -> put it back
//!  A stage waits:   for input   when all its links are empty, and no live source has anything;
//!                   for room    when a link behind it is full;
//!                   for a core  when it is ready, and all threads compute something else.
//!  Memory budget:   what is in a link counts for the stage that made it, until the next one drops it. A plan is cut
//!                   only if the largest item of each link fits ([`link_room`]), or if its cells show in results.
//! ```
//!
//! **Results have the same bits as in one thread.** On each edge an operator gets the same samples, breaks and marks in
//! the same order; replicas may cut items elsewhere. Two stages have one link, which keeps the order of all edges
//! between them. Inputs of a fan-in from the same source leave one stage; different sources are asked in the order of
//! one thread. Replicas compute what has the same bits wherever its input is cut, and, within a granted tolerance, what
//! settles: in cells that depend on samples alone ([`cell`]), also with one worker. Operators that write or call Python
//! stay in the caller's thread. A `group_by` with keys works in order, and divides each of its calls: other threads add
//! to some of its groups meanwhile, and the call ends when all have ([`stage_helpers`], [`fork_join`]). So it emits, fails
//! and asks for memory as in one thread.
//!
//! **No deadlock.** Suppose that no thread computes, no stage is ready, and no live source is waited for.
//! 1. A link accepts every batch; its writer ends its burst after the item that filled it. So a waiting stage holds no
//!    thread (exception below), and a ready one runs as soon as a permitted thread is free.
//! 2. A stage waits for room only while a link to a later stage is full. A path of full links ends, at the latest at
//!    the last stage, at a stage that has input and waits for no room: it waits for another, empty link. Notices of
//!    progress keep their place behind items: whoever reads a full link has no use for a later notice, and a writer
//!    with a second, empty link waits for room only as long as the reader of the full one does not run.
//! 3. A stage waits for an empty link only if no other link of it depends on the same sources (`is_alone`); else it
//!    takes what comes, and operators with several inputs do not read such links (`piling_up`). A path of empty
//!    links upwards ends at a stage that waits for room, since a source that is not live always has something.
//! 4. So there is a cycle of stages that each wait for one source alone while they have input from another: the source
//!    waited for has no room because of the next stage. Two paths through such stages then connect the sources. Such
//!    stages become one (`waiting_in_a_cycle`), unless they all read the same edge of a source.
//!    Each then waits for the source that lags behind: it has read all of that source and not all of the other. In the
//!    cycle each source lags behind the next (or is equal and ranks before it), and the last behind the first: a
//!    contradiction.
//! 5. Replicas hold no lock while they compute. The oldest block is in flight and will be completed, or is complete,
//!    and then a replica is ready or waits for room (`block_scheduler`). One that finds no room, or too many blocks in
//!    front, is woken when something has been sent. If a slot of a cluster is lost, another slot or a replica computes
//!    its block.
//! 6. A call that divided its work computes what no helper has taken, and waits only for parts that are being
//!    computed. These wait for nothing: they lock nothing but what they update, and ask for no memory.
//!
//! Exception: an item whose results fill a link twice over keeps its thread inside an operator. The thread then
//! executes other stages, except those it depends on, which would wait for it; if nobody computes or can, it goes on
//! without room (`StageQueue::wait_suspended`).
//!
//! **Interrupts.** Sources stop, and stages go on with what these gave before, for a moment ([`drain`]).
//!
//! **Errors.** What a stage gave before it failed reaches the next one, followed by a stand-in
//! ([`OpErrorKind::StageFailed`](crate::OpErrorKind)), which ranks like the error and is replaced by it in the end.

mod active_threads;
mod arrivals;
mod block;
mod block_scheduler;
mod block_subgraph;
mod block_subgraphs;
mod cell;
mod cell_groups;
mod cut_choice;
mod drain;
mod fork_join;
mod homes;
mod input_cutter;
mod link;
mod link_reader;
mod link_room;
mod link_writer;
mod obstacles;
mod pool;
mod remote_blocks;
mod remote_replicas;
mod replicated;
mod replicated_io;
mod run;
mod running_stages;
mod stage_builder;
mod stage_choice;
mod stage_costs;
mod stage_graph;
mod stage_helpers;
mod stage_plan;
mod stage_queue;
mod stage_weights;
mod thread_use;

pub(super) use block::StreamBlock;
pub(super) use block_subgraphs::block_subgraphs;
pub(super) use cut_choice::{choose_cuts, measured_ns};
pub(super) use replicated::compute_block;
pub(super) use run::run;
pub(super) use stage_plan::StagePlan;
pub(super) use thread_use::cpu_time;

use super::sync;
