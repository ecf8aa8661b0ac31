//! The contract between an operator and the engine (`docs/design/execution.md`, `docs/design/plans.md`).
//!
//! An operator is a struct of parameters and state. [`Operator::bind`] checks input types; [`Operator::process`] gets
//! one item at a time.
//!
//! An edge keeps items and progress marks in order; [`Operator::on_break`] precedes an item that does not continue the
//! previous one; [`Operator::finish`] is called once per input, after its last item; a failed operator is not called
//! again.

use crate::{Break, Item, OpError, Out, PlanError, PortType, RangeOrigin, Workspace};

/// Index of an input or output.
pub type Port = u16;

/// What happens after [`Operator::process`].
// As wide as an error, so the result is returned in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Next {
    /// Send `*item` to output 0. The cheapest way: uses no stack.
    Forward,
    /// Item consumed; results, if any, were emitted.
    Consumed,
    /// Input no longer wanted; `*item` is discarded.
    Done,
}

/// Result of a parameter change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterUpdate {
    /// The operator uses the new values.
    Applied,
    /// The engine replaces the operator, as after a break.
    Rebuild,
}

/// How an operator may be parallelised.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Contract {
    /// Each result depends on one sample or window.
    Stateless,
    /// Exact given this context of samples (or windows), wherever reading begins or ends. Indices are the input's,
    /// scaled by [`OperatorProperties::ratio`].
    Overlap {
        /// Context before.
        before: u64,
        /// Context after.
        after: u64,
    },
    /// Exact given samples after an item's start, as for windows on the grid of their contiguous range.
    Lookahead {
        /// Samples after an item's first.
        after: u64,
    },
    /// Recursive filter: within `rel_err` after `before` samples (or windows), given [`OperatorProperties::delay`]
    /// samples after.
    Settling {
        /// Warm-up samples.
        before: u64,
        /// Relative error after warm-up.
        rel_err: f64,
    },
    /// One result at the end, combined from partial ones in read order ([`Operator::partial`], [`Operator::combine`]), with
    /// the same bits wherever the input is cut. Plain float sums round: see [`isochrony_dsp::stats::ExactSum`] and
    /// [`isochrony_dsp::stats::IndexedSums`].
    Reducible,
    /// One instance, in order.
    Sequential,
}

/// How items of several inputs are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alignment {
    /// One input.
    Single,
    /// Items over the same index range.
    Window,
    /// By start index; items may be split.
    Time,
    /// Whole items, by start index.
    Begin,
    /// Whole items, by civil time, for different timebases. Contiguous ranges are not announced downstream: indices
    /// have no common order.
    Civil,
    /// `Civil` if the inputs have clocks, else `Begin`; the output has its own contiguous ranges.
    Resampled,
    /// In order of arrival.
    Arrival,
    /// Ranges on the last input select from the others.
    Control,
    /// Items of the only input wait until all but `delay` windows (or samples) before them were fed back.
    Loop {
        /// Maximum in the loop.
        delay: u64,
    },
}

/// Lower bounds of future items on the inputs of a fan-in; `i64::MAX` at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputBounds {
    /// No item before this index is queued or can arrive on the input.
    pub input: i64,
    /// The same for all inputs: an index, or civil time in ns with civil alignment.
    pub all: i64,
}

/// Indices at which an output can have items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Extent {
    /// As the first input, scaled by [`OperatorProperties::ratio`]; with [`Alignment::Window`], where all have items.
    #[default]
    Input,
    /// Where any input has items: an index can occur twice.
    AnyInput,
    /// As `Input`, within this range.
    Within(std::ops::Range<i64>),
}

/// Axis along the values of a row.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum RowAxis {
    /// Unknown.
    #[default]
    Unknown,
    /// As the first input, if its rows have as many values.
    FromInput,
    /// Fourier frequencies: NumPy's `rfftfreq`, for complex samples `fftfreq`.
    Frequencies {
        /// Transform length.
        nfft: usize,
        /// Whether the samples are complex.
        complex: bool,
    },
}

/// What an operator or source occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// A core.
    Cpu,
    /// The single Python interpreter.
    Interpreter,
}

/// Whether threads of a stage can share an operator's work by keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyReplicas {
    /// Not an operator that has keys.
    NoKeys,
    /// It divides its calls among [`PartExecutor`](crate::engine::PartExecutor).
    Possible,
    /// Why one thread is as fast.
    Useless(&'static str),
}

/// Properties of an operator, given the types of its inputs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperatorProperties {
    /// Types of the outputs.
    pub outputs: Vec<PortType>,
    /// Parallelisation contract.
    pub contract: Contract,
    /// Input alignment.
    pub align: Alignment,
    /// Output indices per input index: `Some((up, down))` if output index `j` lies at input index `j * down / up`, None
    /// if data-dependent. Downstream breaks are in output indices.
    pub ratio: Option<(u64, u64)>,
    /// Output lag in samples.
    pub delay: i64,
    /// Occupied resource.
    pub needs: Resource,
    /// See [`OperatorProperties::in_step`].
    pub in_step: bool,
    /// Memory of its tables, if set by a parameter.
    pub workspace: Option<Workspace>,
    /// Indices at which an output can have items.
    pub extent: Extent,
    /// Axis along a row's values.
    pub row_axis: RowAxis,
    /// See [`OperatorProperties::contiguous`].
    pub contiguous: bool,
    /// See [`OperatorProperties::cost_ns`].
    pub cost_ns: f64,
    /// See [`OperatorProperties::ends_early`].
    pub ends_early: bool,
    /// Feeds back to its last input, the loop's [`Alignment::Loop`].
    pub(crate) closes_loop: bool,
    pub(crate) sequential_because: Option<&'static str>,
    pub(crate) by_key: KeyReplicas,
    /// Host that executes everything upstream.
    pub(crate) host: Option<std::sync::Arc<str>>,
}

impl OperatorProperties {
    /// Typical of filters, detectors and transforms.
    pub(crate) const DEFAULT_COST_NS: f64 = 2.0;

    /// Defaults: stateless, one input, indices unchanged.
    ///
    /// Each worker's instance gets portions between breaks, some possibly twice, and no end: an operator with state, or
    /// with results at the end, must set [`contract`](Self::contract). At a break it must forget all samples.
    #[must_use]
    pub fn new(outputs: impl IntoIterator<Item = PortType>) -> Self {
        Self {
            outputs: outputs.into_iter().collect(),
            contract: Contract::Stateless,
            align: Alignment::Single,
            ratio: Some((1, 1)),
            delay: 0,
            needs: Resource::Cpu,
            in_step: false,
            workspace: None,
            extent: Extent::Input,
            row_axis: RowAxis::Unknown,
            contiguous: false,
            cost_ns: Self::DEFAULT_COST_NS,
            ends_early: false,
            closes_loop: false,
            sequential_because: None,
            by_key: KeyReplicas::NoKeys,
            host: None,
        }
    }

    #[must_use]
    pub(crate) fn on_host(mut self, host: &str) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Sets the indices at which an output can have items.
    #[must_use]
    pub fn extent(mut self, extent: Extent) -> Self {
        self.extent = extent;
        self
    }

    /// Sets the axis along a row's values.
    #[must_use]
    pub fn row_axis(mut self, row_axis: RowAxis) -> Self {
        self.row_axis = row_axis;
        self
    }

    /// Requires contiguous samples beyond its contract: an input that repeats indices is an error.
    #[must_use]
    pub fn contiguous(mut self) -> Self {
        self.contiguous = true;
        self
    }

    /// Sets the expected ns on one core per input value (sample, window number or row): 0 if it only passes items on;
    /// default 2. Never affects results.
    #[must_use]
    pub fn cost_ns(mut self, cost_ns: f64) -> Self {
        self.cost_ns = cost_ns;
        self
    }

    /// Can end before its input.
    #[must_use]
    pub fn ends_early(mut self) -> Self {
        self.ends_early = true;
        self
    }

    pub(crate) fn closes_loop(mut self) -> Self {
        self.closes_loop = true;
        self
    }

    pub(crate) fn by_key(mut self, by_key: KeyReplicas) -> Self {
        self.by_key = by_key;
        self
    }

    pub(crate) fn sequential_because(mut self, reason: &'static str) -> Self {
        self.sequential_because = Some(reason);
        self.contract(Contract::Sequential)
    }

    /// Sets the table memory, which the budget must cover.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Sets the parallelisation contract.
    #[must_use]
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// Sets the alignment of several inputs.
    #[must_use]
    pub fn align(mut self, align: Alignment) -> Self {
        self.align = align;
        self
    }

    /// The number of output items depends on the data.
    #[must_use]
    pub fn data_dependent(mut self) -> Self {
        self.ratio = None;
        self
    }

    /// Returns [`Next::Forward`] for every item of its only input, keeps indices, and never emits, not even at breaks
    /// or the end; else the run fails. The engine detects breaks and progress once for a chain of such operators and
    /// skips [`Operator::advance`] and [`Operator::progress`].
    #[must_use]
    pub fn in_step(mut self) -> Self {
        self.in_step = true;
        self
    }

    /// Occupies the Python interpreter.
    #[must_use]
    pub fn in_interpreter(mut self) -> Self {
        self.needs = Resource::Interpreter;
        self
    }
}

/// Processes items. An error of any method ends the execution; the engine adds operator, range and civil time.
pub trait Operator: Send {
    /// Checks input types and returns the properties.
    ///
    /// # Errors
    /// States what was expected, what was given, and a remedy.
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError>;

    /// Processes a borrowed item; [`Item::take`] keeps it.
    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError>;

    /// The next item does not continue the previous one: emit what is complete, drop the rest.
    fn on_break(&mut self, port: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = (port, why, out);
        Ok(())
    }

    /// A contiguous range begins after the break `why` (None: the scan's first), even without items here. Called after
    /// [`on_break`](Self::on_break).
    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        let _ = (origin, why);
    }

    /// First possible output, as an input index, of a contiguous range read from `first`.
    fn first_output(&self, first: i64) -> i64 {
        first
    }

    /// The input has ended: emit the rest.
    fn finish(&mut self, port: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = (port, out);
        Ok(())
    }

    /// Live sources have nothing now: emit what was buffered only to form larger items. May affect only the splitting
    /// into items.
    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = out;
        Ok(())
    }

    /// Single input only: nothing before `upto` follows; emit what that completes. Called before
    /// [`progress`](Self::progress), and with the first index of a new clock before [`on_break`](Self::on_break).
    /// Results must not depend on its frequency or limits.
    fn advance(&mut self, port: Port, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = (port, upto, out);
        Ok(())
    }

    /// Several inputs only: `port` got a progress mark or ended; emit what needs nothing more. Called before
    /// [`progress`](Self::progress) and [`finish`](Self::finish). May affect only the splitting into items.
    fn raise_bounds(
        &mut self,
        port: Port,
        bounds: InputBounds,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        let _ = (port, bounds, out);
        Ok(())
    }

    /// Nothing before `upto` follows on any input (with civil alignment: on `port`). Returns the output's bound;
    /// `i64::MIN` if unknown, as when items are buffered.
    fn progress(&mut self, port: Port, upto: i64) -> i64 {
        let _ = port;
        upto
    }

    /// The input goes back, but the operator has ended and gets no more of it.
    #[doc(hidden)]
    fn rewinds_after_end(&mut self) {}

    /// Changes adjustable parameters, between items.
    fn set(
        &mut self,
        params: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<ParameterUpdate, OpError> {
        let _ = params;
        Ok(ParameterUpdate::Rebuild)
    }

    /// Announces the sample count, for reserving memory. Called at most once, before all items.
    fn expect(&mut self, samples: u64) {
        let _ = samples;
    }

    /// Takes the partial result after each task ([`Contract::Reducible`]).
    fn partial(&mut self) -> Option<crate::PartialResult> {
        None
    }

    /// Adds the next task's partial result.
    fn combine(&mut self, next: &crate::PartialResult) -> Result<(), OpError> {
        let _ = next;
        Ok(())
    }

    /// Result of a plan that ends here. Called once, after the end.
    fn result(&mut self) -> Option<crate::PlanOutput> {
        None
    }
}
