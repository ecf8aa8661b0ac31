//! The contract between an operator and the runtime (`docs/design.md` 15).
//!
//! An operator is a struct with its parameters and its state. [`Operator::bind`] checks the types of
//! its inputs and states everything by which the runtime may treat it: what it gives, how it may be
//! run, who may meet whom at a fan-in. [`Operator::process`] gets one item at a time.
//!
//! The runtime guarantees: items and marks keep their order on an edge; an item that does not
//! continue the one before is announced by [`Operator::on_break`]; [`Operator::finish`] is called once
//! for each input, after its last item; an operator that failed is never called again.

use crate::{Break, Item, OpError, Out, PlanError, PortType, Workspace};

/// Number of an input or output.
pub type Port = u16;

/// What happens after [`Operator::process`].
// As wide as an error, so that the answer of every operator call comes back in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Next {
    /// What is now in `*item` goes to output 0. This costs the least: a chain uses no stack.
    Forward,
    /// The item was consumed, or what came of it was emitted.
    Consumed,
    /// No more is wanted on this input; what is in `*item` is discarded.
    Done,
}

/// What became of a change of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterUpdate {
    /// The operator has them.
    Applied,
    /// It cannot take them: one that was made with them takes its place, as after a break.
    Rebuild,
}

/// How an operator may be run; all that the runtime needs for fusion, replication and cutting an archive.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Contract {
    /// Each sample or window from itself alone.
    Stateless,
    /// Exact given so many samples, or of windows so many of these, before and after. Where a stretch goes on that long,
    /// what comes out does not depend on where reading it begins or ends; it has the indices of its input, or by
    /// [`OperatorProperties::ratio`] others.
    Overlap {
        /// Samples of context before.
        before: u64,
        /// Samples of context after.
        after: u64,
    },
    /// Exact given so many samples after the one at which an item begins, as of windows of samples: each lies on the grid of
    /// its stretch, wherever reading begins.
    Lookahead {
        /// Samples after the first of an item.
        after: u64,
    },
    /// A recursive filter: after so many samples, or windows, its result is within this relative error, given as many
    /// behind as [`OperatorProperties::delay`] says.
    Settling {
        /// Samples of warm-up.
        before: u64,
        /// Relative error after them.
        rel_err: f64,
    },
    /// Partial results that are combined in the order of reading: it gives something only at the end, and implements
    /// [`Operator::partial`] and [`Operator::combine`].
    Reducible {
        /// Whether what is combined is the same bits wherever the input was cut, as counts are and sums of floats are not.
        exact: bool,
    },
    /// One instance, in order.
    Sequential,
}

/// Which items may meet at an operator of several inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alignment {
    /// One input.
    Single,
    /// Items over the same range of indices.
    Window,
    /// In the order of the indices at which they begin.
    Time,
    /// Whole items, in the order of the indices at which they begin.
    Begin,
    /// The same by civil time: inputs of different timebases.
    Civil,
    /// As `Civil` where inputs have clocks, as `Begin` where they have none; what comes out has stretches of its own, so
    /// those of the inputs are not announced behind it.
    Resampled,
    /// As they come.
    Arrival,
    /// Ranges on the last input choose what is taken from the others.
    Control,
    /// Items of the only input wait until all but so many of the windows, or samples, before them were fed back.
    Loop {
        /// How many may be on their way round.
        delay: u64,
    },
}

/// At which indices there may be something in an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Extent {
    /// Where there is something in the first input, by [`OperatorProperties::ratio`]; where all inputs meet, in all of them.
    #[default]
    Input,
    /// Where there is something in any input, so that indices may come twice.
    AnyInput,
    /// As `Input`, but within this range only.
    Within(std::ops::Range<i64>),
}

/// What the values of a row stand for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum RowAxis {
    /// Nothing that the runtime knows.
    #[default]
    Unknown,
    /// What they stood for in the first input, if rows have as many values as there.
    FromInput,
    /// One frequency each, from a transform of so many samples: NumPy's `rfftfreq`, of complex samples `fftfreq`.
    Frequencies {
        /// Samples that were transformed at a time.
        nfft: usize,
        /// Whether they were complex.
        complex: bool,
    },
}

/// What running it occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// A core.
    Cpu,
    /// The Python interpreter, of which there is one.
    Interpreter,
}

/// An operator once the types of its inputs are known.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperatorProperties {
    /// Types of the outputs.
    pub outputs: Vec<PortType>,
    /// How it may be run.
    pub contract: Contract,
    /// Who may meet whom, if it has several inputs.
    pub align: Alignment,
    /// Indices given and taken: `Some((1, 1))` where indices stay what they are, `Some((up, down))` where index `j` of what
    /// comes out lies at `j * down / up` of what comes in; None where that depends on the data. The runtime tells what is
    /// behind of breaks in its own indices.
    pub ratio: Option<(u64, u64)>,
    /// Samples by which the output lags behind the input.
    pub delay: i64,
    /// What running it occupies.
    pub needs: Resource,
    /// See [`OperatorProperties::in_step`].
    pub in_step: bool,
    /// Memory of its tables, where that depends on a parameter.
    pub workspace: Option<Workspace>,
    /// At which indices there may be something in an output.
    pub extent: Extent,
    /// What the values of rows that come out stand for.
    pub columns: RowAxis,
    /// See [`OperatorProperties::contiguous`].
    pub contiguous: bool,
    /// See [`OperatorProperties::light`].
    pub light: bool,
    /// See [`OperatorProperties::ends_early`].
    pub ends_early: bool,
    /// Whether its last input is the loop's [`Alignment::Loop`], to which it feeds back.
    pub(crate) closes_loop: bool,
    /// Why it is [`Contract::Sequential`], for `explain()`.
    pub(crate) sequential_because: Option<&'static str>,
}

impl OperatorProperties {
    /// Stateless, one input, indices as they are. On several cores such an operator is made once for each worker, given
    /// portions of a recording between breaks, where memory was short perhaps some again, and never told of the end: one that remembers, or that gives something only
    /// at the end, must say so by [`contract`](Self::contract). At a break it must forget all that it knows of samples.
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
            columns: RowAxis::Unknown,
            contiguous: false,
            light: false,
            ends_early: false,
            closes_loop: false,
            sequential_because: None,
        }
    }

    /// States at which indices there may be something in an output.
    #[must_use]
    pub fn extent(mut self, extent: Extent) -> Self {
        self.extent = extent;
        self
    }

    /// States what the values of rows that come out stand for.
    #[must_use]
    pub fn row_axis(mut self, columns: RowAxis) -> Self {
        self.columns = columns;
        self
    }

    /// It makes something of samples that follow one another, though its contract does not say so: of inputs in which
    /// indices come twice it can make nothing.
    #[must_use]
    pub fn contiguous(mut self) -> Self {
        self.contiguous = true;
        self
    }

    /// It computes next to nothing, so that to hand its results to another thread costs more.
    #[must_use]
    pub fn light(mut self) -> Self {
        self.light = true;
        self
    }

    /// It may want no more before its input ends.
    #[must_use]
    pub fn ends_early(mut self) -> Self {
        self.ends_early = true;
        self
    }

    pub(crate) fn closes_loop(mut self) -> Self {
        self.closes_loop = true;
        self
    }

    /// One instance, in order, for this reason.
    pub(crate) fn sequential_because(mut self, reason: &'static str) -> Self {
        self.sequential_because = Some(reason);
        self.contract(Contract::Sequential)
    }

    /// States the memory of its tables, which a run must have room for.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Sets how it may be run.
    #[must_use]
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// Sets who may meet whom.
    #[must_use]
    pub fn align(mut self, align: Alignment) -> Self {
        self.align = align;
        self
    }

    /// How much goes through depends on the data, as in a filter.
    #[must_use]
    pub fn data_dependent(mut self) -> Self {
        self.ratio = None;
        self
    }

    /// It answers every item of its only input with [`Next::Forward`], leaves the indices of the item as they are, and
    /// emits nothing, at breaks and at the end neither. The runtime need not look for breaks between operators in step:
    /// it looks before the first of them and tells all, and what it knows of progress before the first holds behind the
    /// last, so that [`Operator::progress`] is not asked. One that breaks this promise ends the run.
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

/// Something that processes items.
pub trait Operator: Send {
    /// Checks the inputs' types and says what comes of them.
    ///
    /// # Errors
    /// A [`PlanError`] that names what was expected, what was given, and how to mend it.
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError>;

    /// Processes an item of an input. The item is lent: [`Item::take`] it to keep it.
    ///
    /// # Errors
    /// Ends the run; the runtime adds the operator's name, the range and the civil time.
    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError>;

    /// What comes next on this input does not continue what came before: emit what is complete, forget the rest.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn on_break(&mut self, port: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = (port, why, out);
        Ok(())
    }

    /// A stretch begins, whose samples are counted from `anchor`, behind `why`; None: it is the first of a scan. Told behind
    /// [`on_break`](Self::on_break), to who must know where stretches begin also where none of their items come.
    fn begins(&mut self, anchor: i64, why: Option<&Break>) {
        let _ = (anchor, why);
    }

    /// The input has ended: emit what is left.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn finish(&mut self, port: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = (port, out);
        Ok(())
    }

    /// The sources have nothing for now, as live ones do: what is held back only to go on together goes on now. Results
    /// must not depend on whether this is called, but for how they are cut into items.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let _ = out;
        Ok(())
    }

    /// Nothing that begins before `upto` follows on the input: the index for which the same is true of the output.
    /// `i64::MIN`: nothing is known, as for an operator that holds items back.
    fn progress(&mut self, port: Port, upto: i64) -> i64 {
        let _ = port;
        upto
    }

    /// Parameters that are declared adjustable have other values from now on; between bursts.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn set(
        &mut self,
        params: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<ParameterUpdate, OpError> {
        let _ = params;
        Ok(ParameterUpdate::Rebuild)
    }

    /// So many samples will come, as far as it is known: a sink may set memory aside. Said at most once, before all items.
    fn expect(&mut self, samples: u64) {
        let _ = samples;
    }

    /// What it has gathered since it was made, or since this was last asked, of an operator that is
    /// [`Contract::Reducible`]; it forgets it. Asked for behind each task of a run on several cores.
    fn partial(&mut self) -> Option<crate::PartialResult> {
        None
    }

    /// Adds what another of its kind gathered of what comes next.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn combine(&mut self, next: &crate::PartialResult) -> Result<(), OpError> {
        let _ = next;
        Ok(())
    }

    /// What a sink has gathered; asked for once, after the end.
    fn result(&mut self) -> Option<crate::PlanOutput> {
        None
    }
}
