//! Windows of samples in a slice.

/// Rows of equal length at equal distances in a slice, possibly overlapping.
#[derive(Debug, Clone, Copy)]
pub struct Windows<'a, T> {
    values: &'a [T],
    width: usize,
    stride: usize,
}

impl<'a, T> Windows<'a, T> {
    /// Whole rows of `width` values, one every `stride`; none if either is zero.
    #[must_use]
    pub fn new(values: &'a [T], width: usize, stride: usize) -> Self {
        Self {
            values,
            width,
            stride,
        }
    }

    /// Values of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        if self.width == 0 || self.stride == 0 || self.values.len() < self.width {
            return 0;
        }
        (self.values.len() - self.width) / self.stride + 1
    }

    /// The rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [T]> + use<'a, T> {
        let (values, width, stride) = (self.values, self.width, self.stride);
        (0..self.count()).map(move |row| &values[row * stride..][..width])
    }
}

#[cfg(test)]
mod tests {
    use super::Windows;

    #[test]
    fn windows_overlap_and_a_short_last_one_is_left_out() {
        let samples = [1, 2, 3, 4, 5, 6];
        let rows: Vec<_> = Windows::new(&samples, 3, 2).iter().collect();
        assert_eq!(rows, [[1, 2, 3], [3, 4, 5]]);
        assert_eq!(Windows::new(&samples, 7, 1).count(), 0);
        assert_eq!(Windows::new(&samples, 0, 1).count(), 0);
        assert_eq!(Windows::new(&samples, 6, 0).count(), 0);
        assert_eq!(Windows::new(&samples, 6, 9).count(), 1);
    }
}
