//! A signal's clock with corrections: recorded times, then their fits.

use std::path::Path;

use isochrony_time::{
    Empirical, FitShape, Fixed, PointFit, PointFitOptions, PointPair, RunId, TimeError,
};

use crate::clock;
use crate::error::StoreError;
use crate::op::{CorrectionPointRow, CorrectionRow};
use crate::state::{CORRECTIONS, SignalState};

/// Version of the rules of the fit. A change that alters times needs a new number.
pub const METHOD: u8 = 1;

/// Unit of stored wander: parts of the rate.
pub(super) const WANDER_PARTS: f64 = 1e12;

/// `None` without civil time.
pub(crate) fn empirical(state: &SignalState) -> Result<Option<Empirical>, StoreError> {
    let Some(recorded) = clock::empirical(state)? else {
        return Ok(None);
    };
    let latest_first = state.corrections.active().rev();
    let fits: Vec<(Option<u32>, PointFit)> = latest_first
        .map(|row| Ok((row.run, fit(state, &recorded, row)?)))
        .collect::<Result<_, StoreError>>()?;
    if fits.is_empty() {
        return Ok(Some(recorded));
    }
    let of_run = |run: RunId| {
        let mut fits = fits.iter();
        let found = fits.find(|(of, _)| of.is_none_or(|of| of == run.0))?;
        Some(found.1.metric())
    };
    Ok(Some(recorded.corrected(of_run)?))
}

pub(super) fn fit(
    state: &SignalState,
    recorded: &Empirical,
    row: &CorrectionRow,
) -> Result<PointFit, StoreError> {
    if row.method != METHOD {
        return Err(StoreError::NewerFormat {
            path: Path::new(&*state.name).join(CORRECTIONS),
            what: "fit",
            got: row.method.into(),
            supported: METHOD.into(),
        });
    }
    let pair = |point: &CorrectionPointRow| {
        let from = value(point.from);
        let from = match point.from_time {
            true => from,
            false => recorded.time_of(from)?.value,
        };
        Ok(PointPair {
            from,
            to: value(point.civil),
            uncertainty: point.uncertainty.map(value),
        })
    };
    let pairs: Vec<PointPair> = row
        .points
        .iter()
        .map(pair)
        .collect::<Result<_, TimeError>>()?;
    let options = PointFitOptions {
        shape: match row.shape {
            1 => Some(FitShape::Line),
            2 => Some(FitShape::Pieces),
            _ => None,
        },
        wander: row.wander_ppt as f64 / WANDER_PARTS,
    };
    let fit = PointFit::new(&pairs, &options)?;
    if !fit.metric().rises() {
        // Two clocks never run in opposite directions.
        let last = pairs.len() - 1;
        return Err(TimeError::NotMonotone {
            before: 0,
            after: last,
            before_to: pairs[0].to,
            after_to: pairs[last].to,
            falls: false,
        }
        .into());
    }
    Ok(fit)
}

pub(super) fn value((whole, frac): (i64, u32)) -> Fixed {
    Fixed::from_parts(whole, frac)
}
