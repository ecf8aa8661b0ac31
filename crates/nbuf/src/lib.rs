//! N-buffering: read, process and write any byte stream with all cores, in bounded memory.
//!
//! A run has *workers*. Each owns one buffer and carries it through the states of the paper's figure 7: it reads whole
//! records into it, executes a [`Process`] on them, writes what comes of it, and begins again. While one worker reads,
//! others execute or write, so that inputs, cores and outputs are busy at the same time, and nothing is handed from
//! thread to thread: the buffer stays in one core's cache.
//!
//! - **Order** ([`Order`]): the four configurations of table 2. An ordered execution takes turns, an ordered output is
//!   written in the order of reading; see `turns` for the queue. Order is what the caller relies on, not what the runtime
//!   does: processors in which nobody could see the order ([`Process::order_does_not_show`]) are executed in parallel.
//! - **Records** ([`Framing`]) are never split. The last may be short and is passed with its length.
//! - **Memory** ([`Options::memory`]) bounds buffers, staged output and what processors say they need. Memory and
//!   regular files need none of it for input of their own accord: slices are lent, not copied ([`Input::bytes`]).
//! - **Accumulators**: a worker's scratch holds those of its buffer; [`Process::join`] adds them to the stream's, in
//!   stream order, so that results do not depend on the number of workers.
//! - **Output** ([`Output`]): none, one or several. A processor puts bytes to any of them ([`Out::put`]) or hands on the
//!   whole buffer ([`Out::forward`]).
//! - **Ends**: when all inputs have ended and all is written. The first error in stream order stops it: what comes before
//!   is still written if output is ordered, threads are joined, and [`Failure`] has error and report.
//!
//! ```
//! use isochrony_nbuf::{Framing, Input, Options, Output, PerRecord, run};
//!
//! let text = b"3\n1\n4\n1\n5\n";
//! let odd = PerRecord(|line: &[u8], out: &mut isochrony_nbuf::Out<'_>| {
//!     Ok(if line[0] % 2 == 1 { out.put(0, line)? })
//! });
//! let mut found = Vec::new();
//! let options = Options { framing: Framing::Delimited(b"\n".to_vec()), ..Options::default() };
//! let report = run(&options, vec![Input::bytes(text)], &odd, vec![Output::writer(&mut found)], &mut |_| true)?;
//! assert_eq!(found, b"3\n1\n1\n5\n");
//! assert_eq!((report.records, report.outputs[0].bytes), (5, 8));
//! # Ok::<(), isochrony_nbuf::Failure>(())
//! ```
//!
//! Source: A. Thegler, Automatic n-buffering for Big Data processing, 2015; its sections 3.1 (requirements), 3.2 (states,
//! queues), 6 (what it left out).

mod descriptor;
mod error;
mod feed;
mod framing;
mod input;
mod native;
mod options;
mod out;
mod output;
mod process;
mod reading;
mod report;
mod run;
mod sizes;
mod turns;
mod worker;
mod writing;

use isochrony_runtime::sync;

pub use error::{Cause, Failure, Located, NbufError, Stopped};
pub use framing::{Framing, Prefix, Records};
pub use input::Input;
pub use isochrony_runtime::{Progress, WorkerReport};
pub use native::Native;
pub use options::{Merge, Options, Order};
pub use out::Out;
pub use output::Output;
pub use process::{Block, Copy, PerRecord, Process};
pub use report::{InputReport, OutputReport, Report, State, States, StreamWorkerReport, Visit};
pub use run::{check, run};
