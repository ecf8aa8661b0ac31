use isochrony_flow::json;
use isochrony_segment::Stream;
use isochrony_time::Rate;

use super::made::{noise, resample, scan, stream};

#[test]
fn parameters_that_make_no_rate_are_refused() {
    let plan = scan(&[(0, noise(9))], 9, stream().intern());
    for (value, part) in [
        (
            json!({}),
            "resample needs rate_hz= or a ratio; give rate_hz=, or up=, down= or both",
        ),
        (
            json!({"rate_hz": 10.0, "up": 2}),
            "rate_hz=10 must be left out",
        ),
        (json!({"up": 0}), "up=0 must be"),
        (json!({"rate_hz": 0.0}), "rate_hz=0.0 must be"),
        (
            json!({"down": 2_000_000_000u64}),
            "up/down=1/2000000000 must be a ratio from",
        ),
        (json!({"up": 2, "passband": 1.5}), "passband=1.5"),
        (
            json!({"up": 2, "edges": "mirror"}),
            "one of inside, zeros, steady",
        ),
    ] {
        let error = resample(&plan, value.clone()).unwrap_err().to_string();
        assert!(
            error.contains("resample") && error.contains(part),
            "{value}: {error}"
        );
    }
    let windows = plan.rewindow(3).unwrap();
    assert_eq!(
        resample(&windows, json!({"up": 2})).unwrap_err().code(),
        "input_type"
    );
}

#[test]
fn errors_of_a_rate_name_the_parameter_that_gives_it() {
    let of_rate = |num, den| {
        let rate = Rate::new(num, den).unwrap();
        scan(&[(0, noise(9))], 9, Stream { rate, ..stream() }.intern())
    };
    let slow = of_rate(1, 1 << 40);
    for (value, parameter) in [
        (json!({"down": 1u64 << 30}), "down=1073741824"),
        (json!({"up": 3, "down": 1u64 << 30}), "up/down=3/1073741824"),
    ] {
        let error = resample(&slow, value.clone()).unwrap_err().to_string();
        assert!(error.contains(parameter), "{value}: {error}");
    }
    // A new rate of 63 bits whose ratio to the recording's has more.
    let near_one = resample(&of_rate((1 << 40) + 1, 1 << 40), json!({"rate_hz": 1.0})).unwrap();
    let error = resample(&near_one, json!({"rate_hz": 1.000_000_000_000_1})).unwrap_err();
    assert!(
        error.to_string().contains("rate_hz=1.0000000000001"),
        "{error}"
    );
}
