use super::*;
use isochrony_time::{Fixed, Rate};
use proptest::prelude::*;

fn limits(stream: bool) -> ScreenLimits {
    ScreenLimits {
        rate: Rate::new(1000, 1).unwrap(),
        step_ns: 1e7,
        reorder: Duration::from_millis(50),
        is_connection: stream,
        number_bits: 64,
        max_pending_bytes: 1 << 20,
        counter_origin: None,
        absolute_counts: false,
    }
}

fn counted(bits: u32) -> ScreenLimits {
    ScreenLimits {
        number_bits: bits,
        counter_origin: Some(1 << 20),
        ..limits(false)
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn claim(session: u32, number: u64) -> FrameClaim {
    FrameClaim {
        session,
        number,
        length: 10,
        samples_per_number: 1,
        gap: 0,
        time: Some(Fixed::from_int(number.min(1 << 40) as i64 * 1_000_000)),
        step: false,
        end: false,
    }
}

fn packet(number: u64) -> FrameClaim {
    FrameClaim {
        length: 1,
        samples_per_number: 10,
        time: None,
        ..claim(0, number)
    }
}

#[derive(Default)]
struct VerdictLog {
    out: Vec<ScreenVerdict<u64>>,
}

impl VerdictLog {
    fn push(&mut self, screen: &mut FrameScreen<u64>, claim: FrameClaim, at: u64) {
        screen.push(claim, claim.number, 100, ms(at), &mut self.out);
    }

    fn admitted(&self) -> Vec<u64> {
        let admitted = self.out.iter().filter_map(|verdict| match verdict {
            ScreenVerdict::Admitted { frame, .. } => Some(*frame),
            ScreenVerdict::Rejected(..) => None,
        });
        admitted.collect()
    }

    fn rejected(&self) -> Vec<(RejectReason, u64)> {
        let rejected = self.out.iter().filter_map(|verdict| match verdict {
            ScreenVerdict::Rejected(why, frame) => Some((*why, *frame)),
            ScreenVerdict::Admitted { .. } => None,
        });
        rejected.collect()
    }

    fn session_starts(&self) -> Vec<u64> {
        let starts = self.out.iter().filter_map(|verdict| match verdict {
            ScreenVerdict::Admitted {
                frame,
                starts_session: true,
                ..
            } => Some(*frame),
            _ => None,
        });
        starts.collect()
    }
}

#[test]
fn one_frame_with_a_far_counter_or_stamp_changes_nothing_wherever_it_comes() {
    let late = |claim: FrameClaim| FrameClaim {
        time: Some(Fixed::from_int(i64::MAX)),
        ..claim
    };
    for far in [
        claim(7, 1 << 61),
        claim(7, 1 << 40),
        claim(7, 50_000),
        late(claim(7, 100)),
        late(claim(7, 110)),
        late(claim(7, 1 << 50)),
        FrameClaim {
            step: true,
            ..late(claim(7, 100))
        },
        FrameClaim {
            end: true,
            length: 0,
            ..claim(7, 50_000)
        },
    ] {
        let (mut screen, mut seen) = (FrameScreen::new(limits(false)), VerdictLog::default());
        for k in 0..20 {
            seen.push(&mut screen, claim(7, 10 * k), 10 * k);
            if k == 10 {
                screen.push(far, u64::MAX, 100, ms(101), &mut seen.out);
            }
        }
        screen.finish(ms(1000), &mut seen.out);
        let expected: Vec<u64> = (0..20).map(|k| 10 * k).collect();
        assert_eq!(seen.admitted(), expected, "{far:?}");
        assert_eq!(
            seen.rejected(),
            [(RejectReason::Malformed, u64::MAX)],
            "{far:?}"
        );
        assert!(seen.session_starts().is_empty());
    }
}

#[test]
fn three_agreeing_frames_are_admitted_without_loss() {
    for stream in [false, true] {
        let (mut screen, mut seen) = (FrameScreen::new(limits(stream)), VerdictLog::default());
        let numbers: Vec<u64> = (0..5).chain(100_000..100_005).map(|k| 10 * k).collect();
        for (at, &number) in (0..).zip(&numbers) {
            seen.push(&mut screen, claim(7, number), 10 * at);
        }
        assert_eq!(seen.admitted(), numbers);
    }
}

#[test]
fn late_frames_from_before_a_clock_step_are_not_lost() {
    let (mut screen, mut seen) = (FrameScreen::new(limits(false)), VerdictLog::default());
    // Up to five places late, and the clock is set back by an hour.
    let place = |k: u64| 5 * (k / 5) + (4 * k + 2) % 5;
    for at in 0..200 {
        let k = place(at);
        let set = if k >= 97 { 3_600_000_000_000 } else { 0 };
        let time = Fixed::from_int(10 * k as i64 * 1_000_000 - set);
        let stamped = FrameClaim {
            time: Some(time),
            ..claim(7, 10 * k)
        };
        seen.push(&mut screen, stamped, 10 * at);
    }
    screen.finish(ms(5000), &mut seen.out);
    let mut admitted = seen.admitted();
    admitted.sort_unstable();
    assert_eq!(admitted, (0..200).map(|k| 10 * k).collect::<Vec<_>>());
    assert!(seen.rejected().is_empty() && seen.session_starts().is_empty());
}

#[test]
fn endless_repetitions_are_rejected_while_the_feed_continues() {
    let (mut screen, mut seen) = (FrameScreen::new(limits(false)), VerdictLog::default());
    for session in [7, 8] {
        for k in 0..200 {
            let at = 3000 * u64::from(session) + 10 * k;
            seen.push(&mut screen, claim(session, 10 * k), at);
            if k > 5 {
                let end = FrameClaim {
                    end: true,
                    length: 0,
                    ..claim(session, 1 << 40)
                };
                screen.push(end, u64::MAX, 100, ms(at), &mut seen.out);
            }
        }
    }
    screen.finish(ms(60_000), &mut seen.out);
    let once: Vec<u64> = (0..200).map(|k| 10 * k).collect();
    assert_eq!(seen.admitted(), [once.clone(), once].concat());
    assert_eq!(seen.session_starts(), [0]);
}

#[test]
fn frames_more_frequent_than_the_feed_are_rejected_and_a_jump_among_late_frames_is_admitted() {
    let (mut screen, mut seen) = (FrameScreen::new(limits(false)), VerdictLog::default());
    for k in 0..200 {
        seen.push(&mut screen, claim(7, 10 * k), 10 * k);
        // Before, the feed cannot be identified.
        let twice = [2 * k, 2 * k + 1].into_iter().filter(|_| k > 5);
        for far in twice.map(|far| claim(7, (1 << 30) + 10 * far)) {
            screen.push(far, u64::MAX, 100, ms(10 * k), &mut seen.out);
        }
    }
    screen.finish(ms(60_000), &mut seen.out);
    let once: Vec<u64> = (0..200).map(|k| 10 * k).collect();
    assert_eq!(seen.admitted(), once);

    let (mut screen, mut seen) = (FrameScreen::new(limits(false)), VerdictLog::default());
    let jumped = 100_000;
    let numbers = [0, 10, 20, 40, jumped, 30, jumped + 10, 60, 50].into_iter();
    let numbers: Vec<u64> = numbers.chain((2..5).map(|k| jumped + 10 * k)).collect();
    for (at, &number) in (0..).zip(&numbers) {
        seen.push(&mut screen, claim(7, number), 10 * at);
    }
    let mut admitted = seen.admitted();
    admitted.sort_unstable();
    let mut expected = numbers;
    expected.sort_unstable();
    assert_eq!(admitted, expected);
}

#[test]
fn declared_gaps_and_clock_steps_are_trusted() {
    let (mut screen, mut seen) = (FrameScreen::new(limits(true)), VerdictLog::default());
    seen.push(&mut screen, claim(7, 0), 0);
    let behind_gap = FrameClaim {
        gap: 64,
        time: Some(Fixed::from_int(86_400_000_000_000)),
        ..claim(7, 74)
    };
    seen.push(&mut screen, behind_gap, 1);
    let set = FrameClaim {
        step: true,
        time: Some(Fixed::from_int(5)),
        ..claim(7, 84)
    };
    seen.push(&mut screen, set, 2);
    assert_eq!(seen.admitted(), [0, 74, 84]);
}

#[test]
fn unconfirmed_frames_are_kept_for_connections_and_refused_for_datagrams() {
    for (stream, expected) in [(true, 3), (false, 2)] {
        let (mut screen, mut seen) = (FrameScreen::new(limits(stream)), VerdictLog::default());
        for number in [0, 10, 1 << 30] {
            seen.push(&mut screen, claim(7, number), 100);
        }
        screen.finish(ms(200), &mut seen.out);
        assert_eq!(seen.admitted().len(), expected);
    }
}

#[test]
fn another_sender_waits_until_the_first_is_silent_and_loses_nothing() {
    let (mut screen, mut seen) = (FrameScreen::new(limits(false)), VerdictLog::default());
    for k in 0..5 {
        seen.push(&mut screen, claim(7, 10 * k), 10 * k);
    }
    for k in 0..100 {
        seen.push(&mut screen, claim(8, 10 * k + 1), 500 + 10 * k);
    }
    let expected: Vec<u64> = (0..5)
        .map(|k| 10 * k)
        .chain((0..100).map(|k| 10 * k + 1))
        .collect();
    assert_eq!(seen.admitted(), expected);
    assert_eq!(seen.session_starts(), [1]);
    assert_eq!(screen.pending_bytes(), 0);
}

#[test]
fn another_sender_is_foreign_while_the_first_goes_on() {
    let (mut screen, mut seen) = (FrameScreen::new(limits(false)), VerdictLog::default());
    for k in 0..500 {
        seen.push(&mut screen, claim(7, 10 * k), 10 * k);
        seen.push(&mut screen, claim(8, 10 * k), 10 * k);
    }
    screen.finish(ms(5000), &mut seen.out);
    assert_eq!(seen.admitted().len(), 500);
    assert_eq!(
        seen.rejected(),
        (0..500)
            .map(|k| (RejectReason::Foreign, 10 * k))
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_single_sender_of_few_frames_is_admitted() {
    let (mut screen, mut seen) = (FrameScreen::new(limits(false)), VerdictLog::default());
    seen.push(&mut screen, claim(7, 5), 0);
    assert!(seen.admitted().is_empty());
    screen.tick(ms(60), &mut seen.out);
    assert_eq!(seen.admitted(), [5]);
    // A forged first frame does not lock a sender out.
    for k in 0..3 {
        seen.push(&mut screen, claim(8, 10 * k), 70 + k);
    }
    assert_eq!(seen.admitted(), [5, 0, 10, 20]);
}

#[test]
fn a_restarted_counter_begins_a_run_without_loss_and_late_packets_do_not() {
    for bits in [16, 32, 64] {
        let (mut screen, mut seen) = (FrameScreen::new(counted(bits)), VerdictLog::default());
        for k in 0..300 {
            seen.push(&mut screen, packet(k + 1000), 10 * k);
        }
        for k in 0..20 {
            seen.push(&mut screen, packet(k), 4000 + 10 * k);
        }
        assert_eq!(seen.admitted().len(), 320, "{bits}");
        assert_eq!(seen.session_starts(), [0]);
        assert!(seen.rejected().is_empty());
        seen.push(&mut screen, packet(1100), 5000);
        screen.finish(ms(9000), &mut seen.out);
        assert!(seen.rejected().len() <= 1);
    }
}

#[test]
fn wrapped_counts_continue() {
    let (mut screen, mut seen) = (FrameScreen::new(counted(16)), VerdictLog::default());
    for k in 0..200_000u64 {
        seen.push(&mut screen, packet(k & 0xffff), 10 * k);
    }
    let counts: Vec<u64> = seen
        .out
        .iter()
        .filter_map(|verdict| match verdict {
            ScreenVerdict::Admitted { count, .. } => Some(*count),
            ScreenVerdict::Rejected(..) => None,
        })
        .collect();
    assert_eq!(counts.len(), 200_000);
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

#[test]
fn a_jump_over_a_century_is_never_admitted() {
    let (mut screen, mut seen) = (FrameScreen::new(limits(true)), VerdictLog::default());
    seen.push(&mut screen, claim(7, 0), 0);
    for k in 0..20 {
        let jump = FrameClaim {
            gap: 1 << 45,
            time: None,
            ..claim(7, (1 << 45) + 10 + 10 * k)
        };
        seen.push(&mut screen, jump, k);
    }
    screen.finish(ms(100), &mut seen.out);
    assert_eq!(seen.admitted(), [0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_feed_among_any_noise_is_admitted_whole(
        noise in prop::collection::vec((0u64..400, any::<u32>(), 0..MAX_COUNT, any::<Option<i64>>(), any::<bool>()), 0..200),
        swaps in prop::collection::vec(any::<bool>(), 400),
    ) {
        let (mut screen, mut seen) = (FrameScreen::new(ScreenLimits { max_pending_bytes: 5000, ..limits(false) }), VerdictLog::default());
        let mut order: Vec<u64> = (0..400).collect();
        for at in (4..399).filter(|&at| swaps[at]) {
            order.swap(at, at + 1);
        }
        for (at, k) in (0..).zip(order) {
            seen.push(&mut screen, claim(7, 10 * k), at);
            for (_, session, number, time, end) in noise.iter().filter(|(when, ..)| *when == at && at > 3) {
                let far = number.saturating_mul(1 << 30).min(MAX_COUNT - 100);
                let noise = FrameClaim {
                    session: *session,
                    number: far,
                    length: 0,
                    time: time.map(Fixed::from_int),
                    end: *end,
                    ..claim(0, 0)
                };
                screen.push(noise, u64::MAX, 100, ms(at), &mut seen.out);
            }
            prop_assert!(screen.pending_bytes() <= 5000);
        }
        screen.finish(ms(5000), &mut seen.out);
        let mut admitted = seen.admitted();
        admitted.sort_unstable();
        admitted.dedup();
        let ours: Vec<u64> = (0..400).map(|k| 10 * k).collect();
        prop_assert_eq!(admitted, ours);
        prop_assert_eq!(screen.pending_bytes(), 0);
    }
}
