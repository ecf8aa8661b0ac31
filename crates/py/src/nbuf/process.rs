//! Native processors and a Python function, in one pass over the bytes.

use std::sync::Mutex;

use isochrony_bytes::Outcome;
use isochrony_nbuf::{
    BlockProcessor, BufferOutput, Cause, Identity, NativeProcessors, RecordBlock,
};
use pyo3::prelude::*;

use super::function::Function;
use super::remote::Accumulator;
use super::remote::{RemoteCalls, RemoteWorker};
use crate::errors::{PackageError, Result};

pub(super) struct Processor {
    native: Option<NativeProcessors>,
    function: Option<Function>,
}

pub(super) fn parse(names: &[String]) -> Result<Option<NativeProcessors>> {
    if names.is_empty() {
        return Ok(None);
    }
    let parsed = NativeProcessors::parse(names);
    Ok(Some(parsed.map_err(|error| {
        PackageError::new("OptionError", error.code(), error.to_string())
    })?))
}

impl Processor {
    pub(super) fn new(
        names: &[String],
        function: Option<Py<PyAny>>,
        batch: bool,
        initial: Option<Py<PyAny>>,
        combine: Option<Py<PyAny>>,
        remote: Option<RemoteCalls>,
        views: Vec<Option<Py<PyAny>>>,
    ) -> Result<Self> {
        let mut native = parse(names)?;
        let function = function.map(|function| Function {
            function,
            batch,
            sums: initial.zip(combine),
            remote,
            views,
            total: Mutex::new(None),
        });
        if function.is_some()
            && let Some(processors) = native.take()
        {
            if processors.makes_output() {
                let message = "both a function and a native processor make output; leave one of them out, or run twice";
                return Err(
                    PackageError::new("OptionError", "bad_option", message.to_owned()).into(),
                );
            }
            native = Some(processors.without_copy());
        }
        Ok(Self { native, function })
    }

    pub(super) fn outcomes(&self) -> Vec<(String, Outcome)> {
        self.native
            .as_ref()
            .map(NativeProcessors::outcomes)
            .unwrap_or_default()
    }

    pub(super) fn total(&self, py: Python<'_>, complete: bool) -> PyResult<Option<Py<PyAny>>> {
        self.function
            .as_ref()
            .map_or(Ok(None), |function| function.total(py, complete))
    }

    pub(super) fn close(&self) {
        if let Some(remote) = self.function.as_ref().and_then(|one| one.remote.as_ref()) {
            remote.close();
        }
    }

    fn native_lanes(&self) -> usize {
        self.native.as_ref().map_or(0, BlockProcessor::lanes)
    }
}

pub(super) struct Scratch {
    native: Option<<NativeProcessors as BlockProcessor>::Scratch>,
    remote: Option<RemoteWorker>,
    sum: Accumulator,
}

impl BlockProcessor for Processor {
    type Scratch = Scratch;

    fn new_scratch(&self) -> Scratch {
        Scratch {
            native: self.native.as_ref().map(BlockProcessor::new_scratch),
            remote: (self.function.as_ref())
                .and_then(|function| function.remote.as_ref().map(RemoteCalls::worker)),
            sum: None,
        }
    }

    fn execute(
        &self,
        scratch: &mut Scratch,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> std::result::Result<(), Cause> {
        if let (Some(native), Some(parts)) = (&self.native, &mut scratch.native) {
            native.execute(parts, block, out)?;
        }
        match (&self.function, &self.native) {
            (Some(function), _) => {
                function.execute(&mut scratch.remote, &mut scratch.sum, block, out)
            }
            (None, Some(_)) => Ok(()),
            (None, None) => Identity.execute(&mut (), block, out),
        }
    }

    fn lanes(&self) -> usize {
        let sums = self
            .function
            .as_ref()
            .is_some_and(|function| function.sums.is_some());
        self.native_lanes() + usize::from(sums)
    }

    fn join(
        &self,
        lane: usize,
        scratch: &mut Scratch,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> std::result::Result<(), Cause> {
        match (&self.native, &mut scratch.native, &self.function) {
            (Some(native), Some(parts), _) if lane < native.lanes() => {
                native.join(lane, parts, block, out)
            }
            (_, _, Some(function)) => function.join(&mut scratch.sum),
            _ => Ok(()),
        }
    }

    fn trailing_output<'w>(&self, scratch: &'w Scratch) -> [&'w [u8]; 2] {
        match (&self.native, &scratch.native) {
            (Some(native), Some(parts)) => native.trailing_output(parts),
            _ => [&[], &[]],
        }
    }

    fn finish(&self, write: &mut dyn FnMut(&[u8])) -> std::result::Result<(), Cause> {
        self.native
            .as_ref()
            .map_or(Ok(()), |native| native.finish(write))
    }

    fn scratch_bytes(&self, buffer: usize) -> usize {
        let native = self
            .native
            .as_ref()
            .map_or(0, |native| native.scratch_bytes(buffer));
        // A function sees a copy; worker processes return own memory.
        let copies = match &self.function {
            None => 0,
            Some(Function { remote: None, .. }) => 1,
            Some(_) => 2,
        };
        native + copies * buffer
    }

    fn shared_bytes(&self) -> usize {
        self.native.as_ref().map_or(0, BlockProcessor::shared_bytes)
    }

    fn needs_single_output(&self) -> bool {
        self.native
            .as_ref()
            .is_some_and(BlockProcessor::needs_single_output)
    }

    fn needs_staging(&self) -> bool {
        self.function.is_some()
            || self
                .native
                .as_ref()
                .is_some_and(BlockProcessor::needs_staging)
    }

    fn is_join_bound(&self) -> bool {
        self.native
            .as_ref()
            .is_some_and(BlockProcessor::is_join_bound)
    }

    fn is_cut_invariant(&self) -> bool {
        let of_records = |function: &Function| !function.batch && function.sums.is_none();
        self.function.as_ref().is_none_or(of_records)
            && self
                .native
                .as_ref()
                .is_none_or(BlockProcessor::is_cut_invariant)
    }

    fn is_order_invariant(&self) -> bool {
        self.function.is_none()
    }
}
