//! Interleaved timing: medians and spreads of times and ratios.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Times of one thing, one per round.
#[derive(Default)]
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

    /// Adds further rounds.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Difference to the other in seconds, per round and divided by `parts`.
    pub fn beyond(&self, other: &Self, parts: f64) -> Spread {
        let each = self.0.iter().zip(&other.0);
        Spread::of(
            each.map(|(a, b)| (a.as_secs_f64() - b.as_secs_f64()) / parts)
                .collect(),
        )
    }
}

/// Order of `count` things in a round. Over as many rounds (twice as many if odd) each follows each other as often
/// (Williams 1949), so after-effects such as a busy disk or a cold cache fall to all alike.
pub fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    let back = count % 2 == 1 && round / count.max(1) % 2 == 1;
    (0..count).map(move |turn| {
        let turn = if back { count - 1 - turn } else { turn };
        // 0, 1, n - 1, 2, n - 2, ...
        let step = if turn % 2 == 1 {
            turn.div_ceil(2)
        } else {
            count - turn / 2
        };
        (step + round) % count
    })
}

/// Runs all by turns in `order`, `rounds` times after a warm-up round. Each asserts its own result.
pub fn turns<const N: usize>(rounds: usize, all: [&mut dyn FnMut(); N]) -> [Times; N] {
    let mut times = std::array::from_fn(|_| Times::default());
    for round in 0..=rounds {
        for which in order(N, round) {
            let start = Instant::now();
            all[which]();
            let spent = start.elapsed();
            if round > 0 {
                times[which].0.push(spent);
            }
        }
    }
    times
}

/// [`turns`] of two.
pub fn interleave(rounds: usize, mut a: impl FnMut(), mut b: impl FnMut()) -> (Times, Times) {
    turns(rounds, [&mut a, &mut b]).into()
}

/// Lines of the report.
#[derive(Default)]
pub struct Results(Vec<Value>);

impl Results {
    /// Records a comparison. The ratio is other / ours: above 1 is faster. `units` per round give the rate.
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

    /// Records a figure in nanoseconds; `goal`: its maximum.
    pub fn nanoseconds(&mut self, name: &str, what: &str, seconds: Spread, goal: f64) {
        let each = [seconds.median, seconds.low, seconds.high].map(|seconds| seconds * 1e9);
        let met = each[0] <= goal;
        println!(
            "{name}: {:.2} ns {what} ({:.2} to {:.2}); goal <= {goal}: {}",
            each[0],
            each[1],
            each[2],
            if met { "met" } else { "missed" }
        );
        self.0.push(json!({
            "name": name, "what": what, "nanoseconds": each, "goal": format!("<= {goal} ns"), "met": met,
        }));
    }

    /// Records a table, with the paper's figures, and a `goal` and whether it is met, if any.
    pub fn table(
        &mut self,
        name: &str,
        title: &str,
        head: &[&str],
        rows: &[Vec<String>],
        goal: Option<(&str, bool)>,
    ) {
        println!("{name}: {title}");
        println!("  {}", head.join(" | "));
        for row in rows {
            println!("  {}", row.join(" | "));
        }
        if let Some((goal, met)) = goal {
            println!("  goal {goal}: {}", if met { "met" } else { "missed" });
        }
        self.0.push(json!({
            "name": name, "goal": goal.map(|(goal, _)| goal), "met": goal.map(|(_, met)| met),
            "table": {"title": title, "head": head, "rows": rows},
        }));
    }

    /// Records a row of the grid of streams: seconds by number of workers.
    pub fn grid(
        &mut self,
        source: &str,
        memory: usize,
        order: &str,
        bytes: usize,
        workers: &[usize],
        seconds: &[Spread],
    ) {
        let each = seconds.iter().map(|one| [one.median, one.low, one.high]);
        let each: Vec<_> = each.collect();
        let said: Vec<_> = each.iter().map(|one| format!("{:.4}", one[0])).collect();
        let kib = memory >> 10;
        println!("nbuf/grid/{source}/{kib} KiB/{order}: {} s", said.join(" "));
        self.0.push(json!({
            "name": "nbuf/grid", "met": null, "source": source, "memory": memory, "order": order, "bytes": bytes,
            "workers": workers, "grid": each,
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

/// Reproducible samples that look like noise.
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

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn each_follows_each_other_as_often() {
        for count in 2..9 {
            let mut follows = vec![vec![0; count]; count];
            for round in 0..2 * count {
                let turns: Vec<_> = order(count, round).collect();
                let mut sorted = turns.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..count), "{turns:?}");
                for pair in turns.windows(2) {
                    follows[pair[0]][pair[1]] += 1;
                }
            }
            for (before, row) in follows.iter().enumerate() {
                for (after, &times) in row.iter().enumerate() {
                    assert_eq!(times, if before == after { 0 } else { 2 });
                }
            }
        }
    }
}
