//! Tapers: factors by which the samples of a window are multiplied before it is transformed.

/// A taper of `width` factors, periodic, as it is used for spectra. None if there is none of that name.
pub fn taper(name: &str, width: usize) -> Option<Vec<f64>> {
    // Sums of cosines; signs alternate.
    let terms: &[f64] = match name {
        "boxcar" => &[1.0],
        "hann" => &[0.5, 0.5],
        "hamming" => &[0.54, 0.46],
        "blackman" => &[0.42, 0.5, 0.08],
        _ => return None,
    };
    let factor = |at: usize| {
        let phase = 2.0 * std::f64::consts::PI * at as f64 / width as f64;
        let terms = terms.iter().enumerate();
        terms
            .map(|(k, a)| {
                let cosine = a * (k as f64 * phase).cos();
                if k % 2 == 0 { cosine } else { -cosine }
            })
            .sum()
    };
    Some((0..width).map(factor).collect())
}
