//! [`QuantileRank`]: where a quantile lies in a window.

#[derive(Debug, Clone)]
pub(super) struct QuantileRank {
    window: usize,
    at: f64,
    counted: usize,
    /// Numbers below, with the distance from the last of them.
    below: usize,
    part: f64,
}

impl QuantileRank {
    pub(super) fn new(window: usize, at: f64) -> Self {
        Self {
            window,
            at,
            counted: 0,
            below: 0,
            part: 0.0,
        }
    }

    pub(super) fn reset(&mut self) {
        self.counted = 0;
    }

    #[inline(always)]
    pub(super) fn window(&self) -> usize {
        self.window
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.counted == self.window
    }

    #[inline(always)]
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    #[inline(always)]
    pub(super) fn below(&self) -> usize {
        self.below
    }

    /// Returns whether the window grew.
    #[inline(always)]
    pub(super) fn count(&mut self) -> bool {
        let grows = !self.is_full();
        if grows {
            self.counted += 1;
            let place = self.at * (self.counted - 1) as f64;
            self.below = place as usize + 1;
            self.part = place - place.floor();
        }
        grows
    }

    #[inline(always)]
    pub(super) fn between(&self, a: f64, above: Option<f64>) -> f64 {
        let part = self.part;
        match above {
            Some(b) if part > 0.0 && b != a => {
                let step = b - a;
                if step.is_infinite() {
                    a * (1.0 - part) + b * part
                } else if part < 0.5 {
                    a + step * part
                } else {
                    b - step * (1.0 - part)
                }
            }
            _ => a,
        }
    }
}
