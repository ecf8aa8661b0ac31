//! Reads windows and sessions from parameters.

use arrow_schema::DataType;
use isochrony_segment::StreamId;
use isochrony_time::Rate;

use super::sessions::Sessions;
use super::timed::{Span, TimedGroups};
use super::windows::Windows;
use super::{GroupBy, parameter_error};
use crate::operators::rows::Axis;
use crate::operators::wrong_input;
use crate::plan::rows::{END, START, clock_of};
use crate::{Length, PlanError, PortType};

type NamedLength = (&'static str, Length);

fn needs(needs: &str, mend: &'static str) -> PlanError {
    PlanError::NeedsParameter {
        operator: "group_by",
        needs: needs.into(),
        mend,
    }
}

/// Civil time, if lengths are times and it is known, else indices.
fn axis_of(stream: StreamId, lengths: &[NamedLength]) -> Result<Axis, PlanError> {
    let in_samples = |(_, length): &&NamedLength| matches!(length, Length::Samples(_));
    match lengths.iter().filter(in_samples).count() {
        0 => {}
        count if count == lengths.len() => return Ok(Axis::index(stream)),
        _ => {
            return Err(needs(
                &format!(
                    "needs {} and {} in the same unit",
                    lengths[0].0, lengths[1].0
                ),
                "give both as times, which follow civil time, or both in samples, which follow indices",
            ));
        }
    }
    Ok(match clock_of(stream) {
        Some(clock) => Axis::civil(stream, clock),
        None => Axis::index(stream),
    })
}

fn units((name, length): NamedLength, axis: &Axis, rate: Rate) -> Result<i64, PlanError> {
    axis.units(length)
        .filter(|&units| units > 0)
        .ok_or_else(|| {
            let got = format!("{length} at {rate} Hz");
            parameter_error(name, got, "at least one sample, and at most 2^63".into())
        })
}

impl GroupBy {
    /// None without windows or sessions.
    pub(super) fn bind_span(&self, port: &PortType) -> Result<Option<TimedGroups>, PlanError> {
        let lengths: Vec<NamedLength> = match (self.every, self.period, self.session) {
            (None, None, None) => return Ok(None),
            (Some(every), None, None) => vec![("every", every)],
            (Some(every), Some(period), None) => vec![("every", every), ("period", period)],
            (None, None, Some(session)) => vec![("session", session)],
            (Some(_), _, Some(_)) => {
                return Err(needs(
                    "takes either every= (windows of one length) or session= (windows that end at a pause)",
                    "leave one of them out",
                ));
            }
            (None, Some(_), _) => {
                return Err(needs(
                    "needs every= for the period= of its windows",
                    "give every=, the time from one window to the next",
                ));
            }
        };
        let PortType::Rows {
            fields,
            stream: Some(stream),
        } = *port
        else {
            return Err(Self::no_range(port));
        };
        let index = |name| {
            let found = fields.find(name);
            found.filter(|(_, field)| *field.data_type() == DataType::Int64)
        };
        let (Some((start, _)), Some((end, _))) = (index(START), index(END)) else {
            return Err(Self::no_range(port));
        };
        let axis = axis_of(stream, &lengths)?;
        let rate = stream.get().rate;
        let in_units = lengths.iter().map(|&length| units(length, &axis, rate));
        let in_units = in_units.collect::<Result<Vec<_>, _>>()?;
        let span = match (self.session, &in_units[..]) {
            (None, &[every]) => Span::Windows(Windows::new(every, every)),
            (None, &[every, period]) => Span::Windows(Windows::new(every, period)),
            (_, lengths) => Span::Sessions(Sessions::new(lengths[0])),
        };
        let clock = clock_of(stream);
        Ok(Some(TimedGroups::new(
            axis,
            span,
            (start, end),
            clock,
            self.most,
        )))
    }

    fn no_range(port: &PortType) -> PlanError {
        wrong_input(
            "group_by",
            "rows with their start and end, by which they belong to windows,",
            port,
            "keep start and end in select(...), or leave every= and session= out",
        )
    }
}
