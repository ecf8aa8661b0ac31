//! The contract between an operator and the engine (`docs/design/execution.md`, `docs/design/plans.md`).
//!
//! An operator is a struct of parameters and state. [`Operator::bind`] checks the types of its inputs and states all
//! that the engine needs ([`OperatorProperties`]); [`Operator::process`] gets one item at a time.
//!
//! The engine guarantees: an edge keeps the order of items and progress marks; [`Operator::on_break`] precedes an item
//! that does not continue the one before; [`Operator::finish`] is called once per input, after its last item; a failed
//! operator is not called again.

use crate::{Break, Item, OpError, Out, PlanError, PortType, RangeOrigin, Workspace};

/// Number of an input or output.
pub type Port = u16;

/// What happens after [`Operator::process`].
// As wide as an error, so that the result is returned in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Next {
    /// Send what is now in `*item` to output 0. The cheapest way: uses no stack.
    Forward,
    /// The item was consumed; results, if any, were emitted.
    Consumed,
    /// This input is wanted no more; `*item` is discarded.
    Done,
}

/// Result of a change of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterUpdate {
    /// The operator uses the new values.
    Applied,
    /// The engine replaces the operator by a new one, as after a break.
    Rebuild,
}

/// How an operator may be executed: by several workers on portions of a recording, or in one piece.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Contract {
    /// Each result depends on one sample or window alone.
    Stateless,
    /// Exact given this context of samples (or windows): in a contiguous range that has it, results do not depend on
    /// where reading begins or ends. Indices are the input's, scaled by [`OperatorProperties::ratio`].
    Overlap {
        /// Context before.
        before: u64,
        /// Context after.
        after: u64,
    },
    /// Exact given samples after the start of an item, as for windows: they lie on the grid of their contiguous range,
    /// wherever reading begins.
    Lookahead {
        /// Samples after an item's first.
        after: u64,
    },
    /// A recursive filter: within `rel_err` after `before` samples (or windows), given [`OperatorProperties::delay`]
    /// samples after.
    Settling {
        /// Samples of warm-up.
        before: u64,
        /// Relative error after them.
        rel_err: f64,
    },
    /// One result at the end, of partial results combined in read order by [`Operator::partial`] and
    /// [`Operator::combine`].
    Reducible {
        /// The result has the same bits wherever the input is cut: true of counts, not of sums of floats.
        exact: bool,
    },
    /// One instance, in order.
    Sequential,
}

/// How items of several inputs are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alignment {
    /// One input.
    Single,
    /// Items over the same range of indices.
    Window,
    /// In the order of their start indices; items may be split.
    Time,
    /// Whole items, in the order of their start indices.
    Begin,
    /// Whole items, in the order of civil time, for inputs of different timebases. Contiguous ranges are not announced
    /// behind it: indices have no common order.
    Civil,
    /// As `Civil` if the inputs have clocks, else as `Begin`; the output has contiguous ranges of its own.
    Resampled,
    /// In order of arrival.
    Arrival,
    /// Ranges on the last input select from the others.
    Control,
    /// Items of the only input wait until all but `delay` windows (or samples) before them were fed back.
    Loop {
        /// Most in the loop.
        delay: u64,
    },
}

/// Lower bounds of what can follow on the inputs of a fan-in; `i64::MAX` at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputBounds {
    /// Nothing that begins before this index waits or can come on the input.
    pub input: i64,
    /// The same for all inputs: an index, or civil time in ns where inputs are aligned by that.
    pub all: i64,
}

/// Indices at which an output can have items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Extent {
    /// Where the first input has, scaled by [`OperatorProperties::ratio`]; with [`Alignment::Window`], where all have.
    #[default]
    Input,
    /// Where any input has: an index can come twice.
    AnyInput,
    /// As `Input`, within this range.
    Within(std::ops::Range<i64>),
}

/// The axis along the values of a row.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum RowAxis {
    /// Unknown.
    #[default]
    Unknown,
    /// The first input's, if its rows have as many values.
    FromInput,
    /// Frequencies of a Fourier transform: NumPy's `rfftfreq`, for complex samples `fftfreq`.
    Frequencies {
        /// Transform length.
        nfft: usize,
        /// Whether the samples are complex.
        complex: bool,
    },
}

/// What an operator or source occupies during execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// A core.
    Cpu,
    /// The Python interpreter, of which there is one.
    Interpreter,
}

/// Properties of an operator, given the types of its inputs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperatorProperties {
    /// Types of the outputs.
    pub outputs: Vec<PortType>,
    /// How it may be executed.
    pub contract: Contract,
    /// Alignment of several inputs.
    pub align: Alignment,
    /// Output indices per input index: `Some((1, 1))` if equal, `Some((up, down))` if output index `j` lies at input
    /// index `j * down / up`, None if it depends on the data. Operators behind get breaks in its output indices.
    pub ratio: Option<(u64, u64)>,
    /// Samples by which the output lags behind the input.
    pub delay: i64,
    /// What it occupies.
    pub needs: Resource,
    /// See [`OperatorProperties::in_step`].
    pub in_step: bool,
    /// Memory of its tables, if a parameter determines it.
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
    /// What is before it is executed there.
    pub(crate) host: Option<std::sync::Arc<str>>,
}

impl OperatorProperties {
    /// About what most filters, detectors and transforms take.
    pub(crate) const DEFAULT_COST_NS: f64 = 2.0;

    /// Stateless, one input, indices unchanged.
    ///
    /// Each worker has its own instance, which gets portions of a recording between breaks, possibly some twice when
    /// memory was short, and no end: an operator with state, or with results at the end, must set
    /// [`contract`](Self::contract). At a break it must forget all samples.
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
            host: None,
        }
    }

    /// What is before it is executed on this host.
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

    /// It needs contiguous samples although its contract does not say so; an input that repeats indices is an error.
    #[must_use]
    pub fn contiguous(mut self) -> Self {
        self.contiguous = true;
        self
    }

    /// Sets the expected time on one core, in ns for each value of the inputs: a sample, a number of a window, or a row;
    /// 0 if it only passes on what it gets, 2 unless stated. Where a plan is cut into stages depends on it, and no result.
    #[must_use]
    pub fn cost_ns(mut self, cost_ns: f64) -> Self {
        self.cost_ns = cost_ns;
        self
    }

    /// It can end before its input does.
    #[must_use]
    pub fn ends_early(mut self) -> Self {
        self.ends_early = true;
        self
    }

    pub(crate) fn closes_loop(mut self) -> Self {
        self.closes_loop = true;
        self
    }

    /// Sequential, for a reason that `explain` shows.
    pub(crate) fn sequential_because(mut self, reason: &'static str) -> Self {
        self.sequential_because = Some(reason);
        self.contract(Contract::Sequential)
    }

    /// Sets the memory of its tables, which the budget must cover.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Sets how it may be executed.
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

    /// How many items pass depends on the data.
    #[must_use]
    pub fn data_dependent(mut self) -> Self {
        self.ratio = None;
        self
    }

    /// It returns [`Next::Forward`] for every item of its only input, keeps the item's indices, and never emits, not
    /// even at breaks or the end. The engine then detects breaks and progress once for a chain of such operators and
    /// calls neither [`Operator::advance`] nor [`Operator::progress`]. Breaking this promise is an error.
    #[must_use]
    pub fn in_step(mut self) -> Self {
        self.in_step = true;
        self
    }

    /// It occupies the Python interpreter.
    #[must_use]
    pub fn in_interpreter(mut self) -> Self {
        self.needs = Resource::Interpreter;
        self
    }
}

/// Processes items. An error of any method ends the execution; the engine adds operator, range and civil time.
pub trait Operator: Send {
    /// Checks the inputs' types and returns its properties.
    ///
    /// # Errors
    /// With what was expected, what was given, and a remedy.
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError>;

    /// Processes an item, which is lent: [`Item::take`] it to keep it.
    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError>;

    /// The next item of this input does not continue the one before: emit what is complete, forget the rest.
    fn on_break(&mut self, port: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = (port, why, out);
        Ok(())
    }

    /// A contiguous range begins after the break `why` (None: the first of a scan), even if none of its items arrive
    /// here. Called after [`on_break`](Self::on_break).
    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        let _ = (origin, why);
    }

    /// Where the output may begin, as an input index, of a contiguous range that is read from `first` on.
    fn first_output(&self, first: i64) -> i64 {
        first
    }

    /// The input has ended: emit the rest.
    fn finish(&mut self, port: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = (port, out);
        Ok(())
    }

    /// Live sources have nothing now: emit what was buffered only to form larger items. Results may depend on this call
    /// only in how they are cut into items.
    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = out;
        Ok(())
    }

    /// Only for one input: nothing that begins before `upto` follows; emit what that completes. Called before
    /// [`progress`](Self::progress), and with the first index of a new clock before [`on_break`](Self::on_break).
    /// Frequency and limits depend on how the input is cut: results must not.
    fn advance(&mut self, port: Port, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = (port, upto, out);
        Ok(())
    }

    /// Only for several inputs: `port` got a progress mark or ended; emit what needs nothing more. Called before
    /// [`progress`](Self::progress) and [`finish`](Self::finish). Results may depend on this call only in how they are
    /// cut into items.
    fn raise_bounds(
        &mut self,
        port: Port,
        bounds: InputBounds,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        let _ = (port, bounds, out);
        Ok(())
    }

    /// Nothing that begins before `upto` follows on the input; of several inputs on any, or on `port` alone where civil
    /// time aligns them. Returns the same limit for the output; `i64::MIN` if unknown, as when items are buffered.
    fn progress(&mut self, port: Port, upto: i64) -> i64 {
        let _ = port;
        upto
    }

    /// Changes adjustable parameters, between items.
    fn set(
        &mut self,
        params: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<ParameterUpdate, OpError> {
        let _ = params;
        Ok(ParameterUpdate::Rebuild)
    }

    /// Announces the number of samples, so that a sink can reserve memory. Called at most once, before all items.
    fn expect(&mut self, samples: u64) {
        let _ = samples;
    }

    /// Takes the partial result since the last call, after each task, if [`Contract::Reducible`].
    fn partial(&mut self) -> Option<crate::PartialResult> {
        None
    }

    /// Adds the partial result of the next task.
    fn combine(&mut self, next: &crate::PartialResult) -> Result<(), OpError> {
        let _ = next;
        Ok(())
    }

    /// The result of a plan that ends here. Called once, after the end.
    fn result(&mut self) -> Option<crate::PlanOutput> {
        None
    }
}
