//! N-buffering: reads, processes and writes any byte stream with all cores, in bounded memory.
//!
//! Each *worker* carries one buffer through the states of the paper's figure 7: it reads whole records, executes a
//! [`BlockProcessor`] and writes the output. A buffer stays in one core's cache.
//!
//! ```text
//!         inputs                     processor                      outputs
//!  ┌───────────────────┐   ┌───────────────────────────────┐   ┌─────────────────┐
//!  │ StreamReader:     │   │ execute:         join:        │   │ SharedOutputs:  │
//!  │ one worker        │   │ in parallel, or  in order, one│   │ one worker      │
//!  │ at a time         │   │ in stream order  per lane     │   │ per output      │
//!  └───────────────────┘   └───────────────────────────────┘   └─────────────────┘
//!       w3 fills #7          w1 executes #6   w0 joins #5          w2 writes #4
//! ```
//!
//! - **Order** ([`Order`]): the four configurations of table 2; see `turns` for the queue. Order-invariant processors
//!   ([`BlockProcessor::is_order_invariant`]) are executed in parallel anyway.
//! - **Records** ([`Framing`]) are never split.
//! - **Memory** ([`Options::memory`]) bounds buffers, staged output and processors. Input memory is processed in place.
//! - **Tuning** ([`Options::tuning`]) changes workers and buffers during the stream.
//! - **Accumulators** are joined in stream order ([`BlockProcessor::join`]), so results do not depend on workers.
//! - **Outputs** ([`Output`]): none, one or several; see [`BufferOutput`].
//! - **Errors**: the first in stream order stops the execution; ordered output before it is written.
//!
//! ```
//! use isochrony_nbuf::{BufferOutput, Framing, Input, Options, Output, PerRecord, run};
//!
//! let text = b"3\n1\n4\n1\n5\n";
//! let odd = PerRecord(|line: &[u8], out: &mut BufferOutput<'_>| {
//!     Ok(if line[0] % 2 == 1 { out.write(0, line)? })
//! });
//! let mut found = Vec::new();
//! let options = Options { framing: Framing::Delimited(b"\n".to_vec()), ..Options::default() };
//! let report = run(&options, vec![Input::bytes(text)], &odd, vec![Output::writer(&mut found)], &mut |_| true)?;
//! assert_eq!(found, b"3\n1\n1\n5\n");
//! assert_eq!((report.records, report.outputs[0].bytes), (5, 8));
//! # Ok::<(), isochrony_nbuf::StreamFailure>(())
//! ```
//!
//! Source: A. Thegler, Automatic n-buffering for Big Data processing, 2015: sections 3.1 (requirements), 3.2 (states,
//! queues) and 6 (extensions).

mod buffer_output;
mod buffer_sizes;
mod descriptor;
mod error;
mod framing;
mod input;
mod native;
mod options;
mod output;
mod prefix;
mod processor;
mod record_reader;
mod report;
mod run;
mod shared_outputs;
mod staging;
mod stream_reader;
mod tunable_sizes;
mod tuning;
mod turns;
mod worker;

use isochrony_runtime::sync;

pub use buffer_output::BufferOutput;
pub use error::{Cause, LocatedError, NbufError, StoppedError, StreamFailure};
pub use framing::{Framing, Records};
pub use input::Input;
pub use isochrony_runtime::{Progress, WorkerReport};
pub use isochrony_tune::{TuningMode, TuningReport};
pub use native::NativeProcessors;
pub use options::{Merge, Options, Order};
pub use output::Output;
pub use prefix::{Prefix, PrefixFault};
pub use processor::{BlockProcessor, Identity, PerRecord, RecordBlock};
pub use report::{
    InputReport, OutputReport, Report, StateSpan, StateTimes, StreamWorkerReport, WorkerState,
};
pub use run::{check, run};
