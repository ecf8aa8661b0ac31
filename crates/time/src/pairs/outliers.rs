//! Outliers and scatter of points.
//!
//! Compares a point with lines through five points on either side, by medians of slopes, which tolerate one wrong point
//! in five. An outlier differs from both in the same direction by far more than is typical. If the rate steps, one side
//! still agrees; if it drifts, the point is near the line between its neighbours.

const SIDE_POINTS: usize = 5;
const MIN_SIDE_POINTS: usize = 3;
const MIN_POINTS: usize = 8;
/// In multiples of the third quartile: 5.7 standard deviations of Gaussian scatter.
const OUTLIER_THRESHOLD: f64 = 5.0;
/// Threshold of the distance from the line between neighbours.
const NEIGHBOUR_THRESHOLD: f64 = 3.0;
/// More outliers cannot be told apart.
const POINTS_PER_OUTLIER: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) half: Option<f64>,
}

pub(super) fn outliers(points: &[Candidate]) -> Vec<usize> {
    let mut used: Vec<usize> = (0..points.len()).collect();
    let mut out: Vec<usize> = Vec::new();
    if points.len() < MIN_POINTS {
        return out;
    }
    // The worst first: it may distort others.
    loop {
        let left: Vec<Candidate> = used.iter().map(|&at| points[at]).collect();
        let excess: Vec<f64> = (0..left.len()).map(|at| disagreement(&left, at)).collect();
        let beside: Vec<f64> = (0..left.len())
            .map(|at| off_neighbours(&left, at))
            .collect();
        let (far, far_beside) = (
            OUTLIER_THRESHOLD * quartile(&excess),
            NEIGHBOUR_THRESHOLD * quartile(&beside),
        );
        let is_worst = |at: usize| {
            let around = at.saturating_sub(SIDE_POINTS)..(at + SIDE_POINTS + 1).min(excess.len());
            excess[around].iter().all(|other| *other <= excess[at])
        };
        let worst: Vec<usize> = (0..left.len())
            .filter(|&at| excess[at] > far && beside[at] > far_beside && is_worst(at))
            .collect();
        if worst.is_empty() || out.len() + worst.len() > points.len() / POINTS_PER_OUTLIER {
            out.sort_unstable();
            return out;
        }
        out.extend(worst.iter().map(|&at| used[at]));
        let mut at = 0..;
        used.retain(|_| {
            at.next()
                .is_some_and(|at| worst.binary_search(&at).is_err())
        });
    }
}

/// Disagreement with both sides, beyond the uncertainties.
fn disagreement(points: &[Candidate], at: usize) -> f64 {
    let before = &points[at.saturating_sub(SIDE_POINTS)..at];
    let behind = &points[at + 1..(at + 1 + SIDE_POINTS).min(points.len())];
    let off = |side: &[Candidate]| {
        let line = median_line(side)?;
        let apart = points[at].x - line.x;
        let off = points[at].y - (line.y + line.slope * apart);
        let halves = side.iter().filter_map(|point| point.half);
        let stated = halves.fold(0.0, f64::max);
        // As uncertain as both points over their distance.
        let predicted = stated * (1.0 + 3.0 * apart.abs() / line.reach);
        let allowed = points[at].half.unwrap_or(0.0) + predicted;
        Some(off.signum() * (off.abs() - allowed).max(0.0))
    };
    match (off(before), off(behind)) {
        (Some(a), Some(b)) if a * b > 0.0 => a.abs().min(b.abs()),
        (Some(_), Some(_)) | (None, None) => 0.0,
        (Some(one), None) | (None, Some(one)) => one.abs(),
    }
}

/// Distance from the line through the two nearest points; doubled if they are on both sides, since either may be wrong.
fn off_neighbours(points: &[Candidate], at: usize) -> f64 {
    let last = points.len() - 1;
    let (a, b, weight) = match at {
        0 => (1, 2, 1.0),
        at if at == last => (last - 2, last - 1, 1.0),
        at => (at - 1, at + 1, 2.0),
    };
    let (a, b) = (points[a], points[b]);
    let on_line = a.y + (b.y - a.y) * (points[at].x - a.x) / (b.x - a.x);
    weight * (points[at].y - on_line).abs()
}

struct MedianLine {
    x: f64,
    y: f64,
    slope: f64,
    reach: f64,
}

fn median_line(points: &[Candidate]) -> Option<MedianLine> {
    if points.len() < MIN_SIDE_POINTS {
        return None;
    }
    let pairs = SIDE_POINTS * (SIDE_POINTS - 1) / 2;
    let (mut slopes, mut apart) = (Vec::with_capacity(pairs), Vec::with_capacity(pairs));
    for (k, a) in points.iter().enumerate() {
        for b in &points[k + 1..] {
            slopes.push((b.y - a.y) / (b.x - a.x));
            apart.push(b.x - a.x);
        }
    }
    let slope = median(&mut slopes);
    let x = points[points.len() / 2].x;
    let mut heights: Vec<f64> = points.iter().map(|p| p.y - slope * (p.x - x)).collect();
    let (y, reach) = (median(&mut heights), median(&mut apart));
    Some(MedianLine { x, y, slope, reach })
}

/// Half-width of points about lines between neighbours: five standard deviations, or twice the upper decile if larger
/// (outliers, long tails).
pub(super) fn scatter(points: &[Candidate]) -> f64 {
    let mut off: Vec<f64> = interpolation_errors(points).map(f64::abs).collect();
    if off.is_empty() {
        return 0.0;
    }
    off.sort_unstable_by(f64::total_cmp);
    let sigma = 1.4826 * off[off.len() / 2];
    (5.0 * sigma).max(2.0 * off[off.len() * 9 / 10])
}

/// By random scatter: a wandering clock also leaves the line between neighbours, but to one side for a while.
pub(super) fn contradicts_stated(points: &[Candidate]) -> bool {
    let beyond = points.windows(3).filter(|three| {
        let [a, b, c] = [three[0], three[1], three[2]];
        let [Some(first), Some(half), Some(last)] = [a.half, b.half, c.half] else {
            return false;
        };
        let share = (b.x - a.x) / (c.x - a.x);
        let off = b.y - (a.y + share * (c.y - a.y));
        off.abs() > half + (1.0 - share) * first + share * last
    });
    if beyond.count() * POINTS_PER_OUTLIER <= points.len() {
        return false;
    }
    // Independent points have a correlation of neighbouring errors of -2/3.
    let off: Vec<f64> = interpolation_errors(points).collect();
    let together: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let square: f64 = off.iter().map(|off| off * off).sum();
    off.len() >= 6 && together < -0.4 * square
}

/// Distances of inner points from the line between neighbours, in standard deviations of equal points.
fn interpolation_errors(points: &[Candidate]) -> impl Iterator<Item = f64> + '_ {
    points.windows(3).map(|three| {
        let share = (three[1].x - three[0].x) / (three[2].x - three[0].x);
        let between = three[0].y + share * (three[2].y - three[0].y);
        (three[1].y - between) / (1.0 + share * share + (1.0 - share) * (1.0 - share)).sqrt()
    })
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if below.len() == middle && values.len().is_multiple_of(2) {
        let lower = values[..middle].iter().copied();
        return (upper + lower.fold(f64::NEG_INFINITY, f64::max)) / 2.0;
    }
    upper
}

fn quartile(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    let at = sorted.len() * 3 / 4;
    *sorted.select_nth_unstable_by(at, f64::total_cmp).1
}
