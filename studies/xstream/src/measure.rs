//! Contests: `rounds` times by turns, each result asserted before its time counts.

use std::time::Instant;

use serde_json::{Value, json};

/// Median and quartiles.
#[derive(Debug, Clone, Copy)]
pub struct Spread(pub [f64; 3]);

impl Spread {
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
        Self([at(0.5), at(0.25), at(0.75)])
    }

    pub fn median(self) -> f64 {
        self.0[0]
    }
}

/// A name, and an action that returns its result.
pub struct Contestant<'a> {
    pub name: String,
    pub run: Box<dyn FnMut() -> u64 + 'a>,
}

impl<'a> Contestant<'a> {
    pub fn new(name: impl Into<String>, run: impl FnMut() -> u64 + 'a) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// Times of one contestant, one a round.
pub struct Times {
    pub name: String,
    pub seconds: Vec<f64>,
}

impl Times {
    pub fn spread(&self) -> Spread {
        Spread::of(self.seconds.clone())
    }

    /// Ratios of the other's time to this one's by round: above 1 this one is faster.
    pub fn ratio(&self, other: &Self) -> Spread {
        Spread::of(
            self.seconds
                .iter()
                .zip(&other.seconds)
                .map(|(a, b)| b / a)
                .collect(),
        )
    }
}

/// Runs all by turns after a warm-up round.
pub fn contest(
    what: &str,
    rounds: usize,
    expected: u64,
    contestants: &mut [Contestant<'_>],
) -> Vec<Times> {
    let mut times: Vec<Times> = contestants
        .iter()
        .map(|contestant| Times {
            name: contestant.name.clone(),
            seconds: Vec::new(),
        })
        .collect();
    for round in 0..=rounds {
        for (contestant, times) in contestants.iter_mut().zip(&mut times) {
            let start = Instant::now();
            let result = (contestant.run)();
            let spent = start.elapsed().as_secs_f64();
            assert_eq!(
                result, expected,
                "{what}: {} differs from the plain loop",
                contestant.name
            );
            if round > 0 {
                times.seconds.push(spent);
            }
        }
    }
    times
}

/// Millions of samples per second of each, with its ratio to the reference: above 1, the contestant is faster.
pub fn rates(times: &[Times], samples: u64, reference: &str) -> Vec<Value> {
    let base = times.iter().find(|times| times.name == reference);
    let each = times.iter().map(|one| {
        let rate = Spread::of(
            one.seconds
                .iter()
                .map(|s| samples as f64 / s / 1e6)
                .collect(),
        );
        let ratio = base.map(|base| one.ratio(base).0);
        json!({"name": one.name, "msamples": rate.0, "against_reference": ratio})
    });
    each.collect()
}

/// Prints a line for each.
pub fn show(what: &str, rates: &[Value]) {
    for one in rates {
        let number = |key: &str, at: usize| one[key][at].as_f64().unwrap_or(f64::NAN);
        println!(
            "{what} {}: {:.1} Msamples/s ({:.1} to {:.1}); {:.2} of the reference",
            one["name"].as_str().unwrap_or(""),
            number("msamples", 0),
            number("msamples", 1),
            number("msamples", 2),
            number("against_reference", 0),
        );
    }
}
