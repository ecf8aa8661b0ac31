//! Sums in lanes: every bit depends on the length alone.

/// A multiple of every vector width.
pub(crate) const LANES: usize = 16;

/// Value `i` belongs to lane `i % LANES`; lanes are added pairwise.
#[inline(always)]
pub(crate) fn lanes<T: Copy>(values: &[T], term: impl Fn(usize, T) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (groups, rest) = values.as_chunks::<LANES>();
    for (group, values) in groups.iter().enumerate() {
        for (lane, &value) in values.iter().enumerate() {
            sums[lane] += term(group * LANES + lane, value);
        }
    }
    for (lane, &value) in rest.iter().enumerate() {
        sums[lane] += term(groups.len() * LANES + lane, value);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}
