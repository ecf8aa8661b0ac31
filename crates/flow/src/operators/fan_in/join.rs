//! Joins rows of two streams by time.

use isochrony_segment::StreamId;

use crate::operator;
use crate::operators::rows::{Axis, JoinKind, Matcher, RowBuilder};
use crate::operators::wrong_input;
use crate::plan::rows::{Fields, Rows, clock_of};
use crate::{
    Alignment, Break, Contract, InputBounds, Inputs, Item, Length, Next, OpError, OpErrorKind,
    Operator, OperatorProperties, Out, PlanError, Port, PortType, json,
};

operator! {
    /// Joins rows with those of another plan at the same time: where their ranges overlap, or the nearest.
    ///
    /// # Inputs
    /// Rows with `start` and `end`, or ranges.
    ///
    /// `other`: rows or ranges. Rows of one timebase match by their indices, others by civil time.
    ///
    /// # Returns
    /// Rows, one for each pair, with the fields of both, in the order of this plan's rows and then of the other's. Rows
    /// without a partner are left out, or have nulls, as `how` says. No edges; a row waits only as long as a partner can
    /// follow.
    ///
    /// # Conventions
    /// With a tolerance, each row matches at most one of the other plan, whose start is nearest to its own and no further
    /// away; of two equally near ones the earlier. Rows whose time is not known match none. Times of one plan's rows that
    /// decrease, as after a clock was set back, end the run with an error. A live feed that restarts may begin a little
    /// before the time that was expected of its next sample: such rows match those that end after that time.
    ///
    /// An outer join places a row of the other plan without a partner at its start, after this plan's rows with the same
    /// start; a row whose time is not known follows the row before it in its plan. Rows of an outer join have no indices,
    /// so `merge` and a further `join` refuse them.
    ///
    /// # Errors
    /// An input without `start` and `end`; inputs without a common time; two fields of one name.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> windows = iso.scan(np.arange(8), rate=100).rewindow(4)
    /// >>> windows.stats("max").join(windows.stats("min"), tolerance=0.01).select("max", "min").collect()
    ///  max  min
    ///    3    0
    ///    7    4
    /// [2 rows]
    /// ```
    pub struct Join = "join" (Inputs::Exactly(2)) {
        /// Largest distance of two rows' starts; each row then matches at most one. Left out: rows whose ranges overlap.
        tolerance: Option<Length> = "number" { unit: Seconds, range: (0.0, 1e12), default: || json!(null) },
        /// Appended to names of the other plan's fields that this one has, too.
        suffix: String = "text" { default: || json!("_right") },
        /// Which rows without a partner are kept, with nulls as the fields of the other: none ("inner"), this plan's
        /// ("left"), or those of both plans ("outer").
        how: String = "text" { choices: &["inner", "left", "outer"], default: || json!("inner") },
    }
    state {
        bound: Option<BoundState>,
    }
}

struct BoundState {
    matcher: Matcher,
    /// For inputs that are ranges.
    builders: [Option<RowBuilder>; 2],
    open_inputs: usize,
}

pub(crate) fn same_timebase(a: StreamId, b: StreamId) -> bool {
    // Timebase numbers are practically unique across stores; everything in memory shares 0.
    a.get().timebase == b.get().timebase
}

pub(super) const RATE_HINT: &str = "equal indices are equal times only at one rate: bring one of them to the rate of the other \
                          with resample(rate_hz=...), or align() it to the other";

/// Arrays in memory and feeds share a timebase, also at different rates.
pub(crate) fn same_grid(a: StreamId, b: StreamId) -> bool {
    same_timebase(a, b) && a.get().rate == b.get().rate
}

impl Operator for Join {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let tolerance = match self.tolerance {
            None => None,
            Some(Length::Seconds(seconds)) => Some(seconds),
            // The rates may differ.
            Some(samples @ Length::Samples(_)) => {
                return Err(PlanError::Parameter {
                    operator: "join",
                    parameter: "tolerance",
                    got: samples.to_string(),
                    legal: "a time, such as \"20ms\": rows of two plans may differ in rate".into(),
                });
            }
        };
        let mut builders = [None, None];
        let mut sides = Vec::with_capacity(2);
        for (port, builder) in inputs.iter().zip(&mut builders) {
            let side = match port {
                PortType::Rows {
                    fields,
                    stream: Some(stream),
                } if ["start", "end"]
                    .iter()
                    .all(|name| fields.find(name).is_some()) =>
                {
                    (*fields, *stream)
                }
                PortType::Ranges { stream } => {
                    let (rows, port) = RowBuilder::bind("join", port, [])?;
                    *builder = Some(rows);
                    match port {
                        PortType::Rows { fields, .. } => (fields, *stream),
                        _ => continue,
                    }
                }
                other => {
                    return Err(wrong_input(
                        "join",
                        "rows with their start and end, or ranges,",
                        other,
                        "keep start and end in select(...), and join before group_by(...) and before an outer join",
                    ));
                }
            };
            sides.push(side);
        }
        let &[(left, first), (right, second)] = &sides[..] else {
            return Err(PlanError::Inputs {
                operator: "join",
                expected: "2".into(),
                got: sides.len(),
            });
        };
        let by_index = same_grid(first, second);
        let axis = |stream: StreamId| match (by_index, clock_of(stream)) {
            (true, _) => Some(Axis::index(stream)),
            (false, Some(clock)) => Some(Axis::civil(stream, clock)),
            (false, None) => None,
        };
        let (Some(a), Some(b)) = (axis(first), axis(second)) else {
            return Err(PlanError::InputsDiffer {
                operator: "join",
                first: inputs[0].to_string(),
                port: 1,
                other: inputs[1].to_string(),
                mend: if same_timebase(first, second) {
                    RATE_HINT
                } else {
                    "they have different timebases and one of them knows no civil time by which they could meet; store \
                     both with start=, or join rows of one signal"
                },
            });
        };
        let kind = match self.how.as_str() {
            "left" => JoinKind::Left,
            "outer" => JoinKind::Outer,
            _ => JoinKind::Inner,
        };
        let left_fields = left.schema().fields().iter().map(|f| f.as_ref().clone());
        let mut all: Vec<_> = left_fields
            .map(|field| match kind {
                JoinKind::Outer => field.with_nullable(true),
                _ => field,
            })
            .collect();
        for field in right.schema().fields() {
            let mut name = field.name().clone();
            if left.find(&name).is_some() {
                name += &self.suffix;
            }
            if all.iter().any(|other| *other.name() == name) {
                return Err(PlanError::FieldTwice {
                    operator: "join",
                    field: name,
                });
            }
            let nullable = field.is_nullable() || kind != JoinKind::Inner;
            all.push(
                field
                    .as_ref()
                    .clone()
                    .with_name(name)
                    .with_nullable(nullable),
            );
        }
        let fields = Fields::intern(all);
        self.bound = Some(BoundState {
            matcher: Matcher::new(kind, fields, [(left, a), (right, b)], tolerance),
            builders,
            open_inputs: 2,
        });
        let port = PortType::Rows {
            fields,
            stream: (kind != JoinKind::Outer).then_some(first),
        };
        let align = if by_index {
            Alignment::Begin
        } else {
            Alignment::Civil
        };
        let properties = OperatorProperties::new([port])
            .contract(Contract::Sequential)
            .cost_ns(50.0);
        Ok(properties.align(align).data_dependent())
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(Next::Done);
        };
        let rows = match (item.take(), &mut bound.builders[usize::from(port)]) {
            (Item::Rows(rows), None) => Some(rows),
            (Item::Ranges(ranges), Some(builder)) => {
                ranges
                    .ranges
                    .iter()
                    .for_each(|range| builder.add_range(range));
                builder.take([])?
            }
            (other, _) => {
                return Err(OpErrorKind::WrongItem {
                    expected: "rows",
                    got: other.kind(),
                }
                .into());
            }
        };
        if let Some(rows) = rows {
            bound.matcher.add(usize::from(port), rows)?;
            emit(bound.matcher.take_matches(false)?, out)?;
            out.holds(bound.matcher.bytes())?;
        }
        Ok(Next::Consumed)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        bound.open_inputs -= 1;
        // Queued items follow the end of their input: only the last end counts.
        if bound.open_inputs == 0 {
            emit(bound.matcher.take_matches(true)?, out)?;
        }
        Ok(())
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        match why {
            Break::Rewind => bound.matcher.rewind(),
            // Marks must not overtake the rows before them: rows of two clocks do not match.
            Break::ClockStep { .. } => emit(bound.matcher.end_clock()?, out)?,
            _ => {}
        }
        Ok(())
    }

    fn raise_bounds(
        &mut self,
        port: Port,
        bounds: InputBounds,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        let Some(state) = &mut self.bound else {
            return Ok(());
        };
        if port == 0 {
            state.matcher.raise_left_index(bounds.input);
        }
        if state.matcher.raise_watermark(bounds.all) {
            emit(state.matcher.take_matches(false)?, out)?;
            out.holds(state.matcher.bytes())?;
        }
        Ok(())
    }

    fn progress(&mut self, _: Port, _: i64) -> i64 {
        self.bound
            .as_ref()
            .map_or(i64::MIN, |bound| bound.matcher.progress())
    }
}

fn emit(rows: Option<Rows>, out: &mut Out<'_>) -> Result<(), OpError> {
    match rows {
        Some(rows) => out.emit(0, &mut rows.into()),
        None => Ok(()),
    }
}
