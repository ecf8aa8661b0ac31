//! Reproduces the error table of `queueing`.

use isochrony_tune::Queue;

use super::simulator::{Interval, Station, Times};

const LOADS: [f64; 4] = [0.5, 0.8, 0.95, 1.25];
const CAPACITIES: [usize; 3] = [2, 5, 10];

const ITEMS: usize = 10_000;

fn table() -> Vec<Vec<f64>> {
    let text = include_str!("../../../src/queueing/mod.rs");
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("//! | arrival scv |"))
        .skip(2);
    let cells = |line: &str| {
        line.split('|')
            .filter_map(|cell| cell.trim().parse().ok())
            .collect()
    };
    rows.map_while(|line| line.starts_with("//! |").then(|| cells(line)))
        .collect()
}

fn times(scv: f64) -> Times {
    match scv {
        0.0 => Times::Constant,
        scv if scv <= 1.0 => Times::Erlang((1.0 / scv).round() as u32),
        scv => Times::Hyperexponential(scv),
    }
}

/// In percent, with half the width of its interval.
fn error(model: f64, simulated: Interval) -> (f64, f64) {
    let percent = 100.0 / simulated.mean;
    (
        (model - simulated.mean) * percent,
        simulated.half_width * percent,
    )
}

#[test]
fn documented_errors_are_those_against_the_simulation() {
    let table = table();
    assert_eq!(table.len(), 9);
    let mut found = String::new();
    let mut wrong = Vec::new();
    for row in &table {
        let mut cells = Vec::new();
        for (kind, waits) in [("lost", false), ("waits", true)] {
            for capacity in CAPACITIES {
                let errors = LOADS.map(|load| {
                    let station = Station {
                        load,
                        arrivals: times(row[0]),
                        service: times(row[1]),
                    };
                    let queue = Queue::gg1(load, 1.0, row[0], row[1]).unwrap();
                    let model = queue.with_capacity(capacity).unwrap().throughput();
                    let simulated = match waits {
                        true => station.wait(capacity - 2, ITEMS, 7),
                        false => station.lose(capacity, ITEMS, 7).throughput,
                    };
                    error(model, simulated)
                });
                let (largest, half_width) = errors
                    .into_iter()
                    .max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
                    .unwrap();
                let stated = row.get(2 + cells.len()).copied().unwrap_or(f64::NAN);
                // Half a percent for rounding.
                if !((largest - stated).abs() <= 0.5 + half_width && half_width < 2.5) {
                    wrong.push(format!(
                        "{row:?} {kind} {capacity}: {largest} ± {half_width}, stated {stated}"
                    ));
                }
                cells.push(format!("{}", largest.round() + 0.0));
            }
        }
        found += &format!("//! | {} | {} | {} |\n", row[0], row[1], cells.join(" | "));
    }
    assert!(
        wrong.is_empty(),
        "the table should be\n{found}{}",
        wrong.join("\n")
    );
}
