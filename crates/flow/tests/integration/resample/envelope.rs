use isochrony_flow::{json, operators};

use super::made::{array, params, scan, stream};

#[test]
fn the_envelope_of_a_stream_is_the_amplitude_of_its_sine_and_begins_anew_behind_gaps() {
    let sine = |start: i64, count: i64| {
        let at = |i: i64| 2.5 * (0.2 * std::f64::consts::PI * i as f64 + 0.4).cos();
        (start, (start..start + count).map(at).collect::<Vec<f64>>())
    };
    // Few taps, and so many that transforms apply them.
    for (low, attenuation) in [(80.0, 40.0), (10.0, 60.0)] {
        let stretches = [sine(-40, 3000), sine(3010, 2000)];
        let envelope = |cut| {
            let plan = scan(&stretches, cut, stream().intern());
            let params = params(json!({"low_hz": low, "attenuation_db": attenuation}));
            array(&plan.then::<operators::StreamEnvelope>(params).unwrap())
        };
        let whole = envelope(5000);
        assert_eq!(whole.parts.len(), 2);
        let taps = isochrony_dsp::filter::hilbert("envelope", attenuation, low, 1000.0)
            .unwrap()
            .len() as u64;
        let half = taps as i64 / 2;
        assert_eq!(
            whole.parts,
            [
                (-40 + half, 3000 - taps + 1),
                (3010 + half, 2000 - taps + 1)
            ]
        );
        let off = whole
            .to_vec::<f64>()
            .unwrap()
            .into_iter()
            .map(|y| (y / 2.5 - 1.0).abs());
        assert!(off.fold(0.0, f64::max) < 1.005 * 10f64.powf(-attenuation / 20.0));
        for cut in [7, 640] {
            assert_eq!(envelope(cut), whole, "{cut}");
        }
    }
}
