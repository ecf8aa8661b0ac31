//! Cost of sync in the product: plans with it against plans cut before it, with about 1 % of samples selected.

use serde_json::{Value, json};

use crate::data::{
    CHANNELS, LOUD, STAT, audio, detect_audio, detect_only, detections, digest_range,
    silence_filter,
};
use crate::kernels::deviates;
use crate::measure::{Contestant, contest};
use crate::models::End;
use crate::product;

fn compare(
    name: &str,
    bytes: usize,
    rounds: usize,
    with: &isochrony::flow::Plan,
    cut: &isochrony::flow::Plan,
    expected: [u64; 2],
) -> Value {
    let mut both = [
        Contestant::new("with", || {
            assert_eq!(product::result(with), expected[0]);
            0
        }),
        Contestant::new("cut", || {
            assert_eq!(product::result(cut), expected[1]);
            0
        }),
    ];
    let times = contest(name, rounds, 0, &mut both);
    let ratio = times[0].ratio(&times[1]);
    println!(
        "{name}: {:.3} ({:.3} to {:.3}) of the plan cut before sync",
        ratio.0[0], ratio.0[1], ratio.0[2]
    );
    json!({
        "name": name, "other": "the plan cut before sync", "bytes": bytes,
        "seconds": times[0].spread().0, "other_seconds": times[1].spread().0, "ratio": ratio.0,
        "goal": ">= 0.95", "met": ratio.median() >= 0.95,
    })
}

/// DETECTAUDIO and SILENCEFILTER.
pub fn run(quick: bool) -> Value {
    let rounds = if quick { 1 } else { 25 };
    let channels = audio(CHANNELS, if quick { 1 << 18 } else { 1 << 22 });
    let total = channels[0].len();
    let selected: i64 = detections(&channels[0])
        .iter()
        .map(|range| range.end - range.start)
        .sum();
    let segment = isochrony::flow::SEGMENT_SAMPLES as usize;
    let live: Vec<_> = channels
        .iter()
        .map(|samples| product::recorded(&product::shared(samples)))
        .collect();
    let with = product::detect_audio_scan(&live, segment, End::Sync).expect("a plan");
    let cut = product::detect_audio_scan(&live, segment, End::Cut).expect("a plan");
    let expected = [detect_audio(&channels), detect_only(&channels)];
    let share = selected as f64 / total as f64;
    let name = format!("flow/sync/detectaudio/{:.1}%-selected", share * 100.0);
    let detect = compare(&name, CHANNELS * total * 4, rounds, &with, &cut, expected);

    // Loud windows are longer than calls, so rarer calls select as much.
    let samples = rare(&audio(1, 4 * total)[0]);
    let live = product::recorded(&product::shared(&samples));
    let windows = samples.as_chunks::<STAT>().0;
    let ranges = || {
        windows
            .iter()
            .enumerate()
            .filter(|(_, window)| deviates(&window[..], LOUD))
            .map(|(k, _)| (k * STAT) as i64)
    };
    let digest = ranges().fold(0u64, |sum, start| {
        sum.wrapping_add(digest_range(&(start..start + STAT as i64)))
    });
    let expected = [silence_filter(&samples), digest];
    let with = product::silence_filter(&live, segment, End::Sync).expect("a plan");
    let cut = product::silence_filter(&live, segment, End::Cut).expect("a plan");
    let share = ranges().count() as f64 / windows.len() as f64;
    let name = format!("flow/sync/silencefilter/{:.1}%-selected", share * 100.0);
    let bytes = size_of_val(samples.as_slice());
    json!([detect, compare(&name, bytes, rounds, &with, &cut, expected)])
}

/// Keeps the calls of one part in eight.
fn rare(samples: &[f32]) -> Vec<f32> {
    let part = samples.len() / 8;
    let quiet = |x: f32| x.clamp(-0.5, 0.5);
    samples
        .iter()
        .enumerate()
        .map(|(k, &x)| if k < part { x } else { quiet(x) })
        .collect()
}
