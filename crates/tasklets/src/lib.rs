//! Tasklets: explicit units of work over ranges of signals.
//!
//! A tasklet says what it reads, what it writes and what it does. From that follow who waits for whom ([`Graph`]), an order
//! by the place of inputs on the disk in which scratch stays within a budget ([`Serial`]), and, while workers run it, what
//! may begin next ([`Roster`]): all of it without threads, stores or time, so that it is tested as what it is.
//! J. E. Smith's Access Scheduler and Multiprocessor (2010) is where this comes from; `docs/design.md`, section 23,
//! says what is done otherwise.

mod ahead;
mod context;
mod desk;
mod earlier;
mod error;
mod executor;
mod followed;
mod graph;
mod index;
mod journal;
mod ledger;
mod order;
mod planned;
mod pool;
mod report;
mod roster;
mod run;
mod sync;
mod tasklet;
mod working;

pub use context::{Bytes, Context};
pub use error::{Cause, TaskletError};
pub use executor::{Executor, Options};
pub use graph::{Extent, Graph, Input, SignalSpec, Spec};
pub use order::{Order, Serial, Why};
pub use pool::Pool;
pub use report::{Failure, Report, TaskletReport};
pub use roster::{Next, Roster, State};
pub use run::{Progress, Visit, Worker};
pub use tasklet::{Function, Part, Returned, Tasklet};
