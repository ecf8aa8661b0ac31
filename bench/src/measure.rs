//! Interleaved timing: medians and spreads of times and of their ratios.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Times of one thing, one per round.
pub struct Times(Vec<Duration>);

/// Median, and the quartiles around it.
#[derive(Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
        Self {
            median: at(0.5),
            low: at(0.25),
            high: at(0.75),
        }
    }
}

impl Times {
    pub fn seconds(&self) -> Spread {
        Spread::of(self.0.iter().map(Duration::as_secs_f64).collect())
    }
}

/// Runs the two by turns, `rounds` times after one round that does not count. Each asserts its own result.
pub fn interleave(rounds: usize, mut a: impl FnMut(), mut b: impl FnMut()) -> (Times, Times) {
    let (mut times_a, mut times_b) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let start = Instant::now();
        a();
        let middle = Instant::now();
        b();
        if round > 0 {
            times_a.push(middle - start);
            times_b.push(middle.elapsed());
        }
    }
    (Times(times_a), Times(times_b))
}

/// Lines of the report.
#[derive(Default)]
pub struct Results(Vec<Value>);

impl Results {
    /// One comparison: ratio is other / ours, so that above one is faster. `units` turns seconds into what is stated.
    #[allow(clippy::too_many_arguments)]
    pub fn compare(
        &mut self,
        name: &str,
        ours: &Times,
        other_name: &str,
        other: &Times,
        bytes: Option<u64>,
        goal: Option<(&str, bool)>,
    ) {
        let ratio = Spread::of(
            ours.0
                .iter()
                .zip(&other.0)
                .map(|(a, b)| b.as_secs_f64() / a.as_secs_f64())
                .collect(),
        );
        let (a, b) = (ours.seconds(), other.seconds());
        println!(
            "{name}: {} against {} of {other_name}; ratio {:.3} ({:.3} to {:.3}){}",
            amount(a.median, bytes),
            amount(b.median, bytes),
            ratio.median,
            ratio.low,
            ratio.high,
            goal.map_or(String::new(), |(goal, met)| format!(
                "; goal {goal}: {}",
                if met { "met" } else { "missed" }
            )),
        );
        self.0.push(json!({
            "name": name, "other": other_name, "bytes": bytes,
            "seconds": [a.median, a.low, a.high], "other_seconds": [b.median, b.low, b.high],
            "ratio": [ratio.median, ratio.low, ratio.high],
            "goal": goal.map(|(goal, _)| goal), "met": goal.map(|(_, met)| met),
        }));
    }

    pub fn to_json(&self) -> Value {
        Value::Array(self.0.clone())
    }
}

/// Median of the ratios other / ours.
pub fn ratio(ours: &Times, other: &Times) -> f64 {
    Spread::of(
        ours.0
            .iter()
            .zip(&other.0)
            .map(|(a, b)| b.as_secs_f64() / a.as_secs_f64())
            .collect(),
    )
    .median
}

fn amount(seconds: f64, bytes: Option<u64>) -> String {
    let time = if seconds < 1e-3 {
        format!("{:.1} us", seconds * 1e6)
    } else {
        format!("{:.2} ms", seconds * 1e3)
    };
    match bytes {
        Some(bytes) => format!("{time} ({:.2} GB/s)", bytes as f64 / seconds / 1e9),
        None => time,
    }
}

/// Samples that look like noise, fast to make and the same in every run.
pub fn noise(seed: u64, count: usize) -> Vec<i16> {
    let mut x = seed | 1;
    (0..count)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 52) as i16 - 2048
        })
        .collect()
}

impl From<Vec<Duration>> for Times {
    fn from(times: Vec<Duration>) -> Self {
        Self(times)
    }
}
