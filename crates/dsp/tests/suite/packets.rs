//! Packet recovery against slow definitions.

use isochrony_dsp::DspError;
use isochrony_dsp::packets::{Combiner, ErrorCounts, Recovery, is_intact, residual};
use proptest::prelude::*;

/// Bit by bit: reflected, polynomial 0x04C11DB7, initial and final inversion.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let low = crc & 1 == 1;
            crc >>= 1;
            if low {
                crc ^= 0xEDB8_8320;
            }
        }
    }
    !crc
}

fn packet(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32(bytes).to_le_bytes()].concat()
}

fn flipped(packet: &[u8], bits: &[usize]) -> Vec<u8> {
    let mut broken = packet.to_vec();
    for bit in bits {
        broken[bit / 8] ^= 1 << (bit % 8);
    }
    broken
}

fn bit(packet: &[u8], at: usize) -> bool {
    packet[at / 8] >> (at % 8) & 1 == 1
}

#[test]
fn a_packet_is_intact_where_the_standard_check_says_so() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    let whole = packet(b"123456789");
    assert!(is_intact(&whole));
    for at in 0..8 * whole.len() {
        assert!(!is_intact(&flipped(&whole, &[at])), "bit {at}");
    }
    assert_eq!(residual(&[0; 4]), None);
    assert_eq!(residual(&[]), None);
}

fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let (ma, mb) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let sum =
        |f: &dyn Fn(f64, f64) -> f64| -> f64 { a.iter().zip(b).map(|(x, y)| f(*x, *y)).sum() };
    let both = sum(&|x, y| (x - ma) * (y - mb));
    both / (sum(&|x, _| (x - ma).powi(2)) * sum(&|_, y| (y - mb).powi(2))).sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn errors_are_counted_bit_by_bit(
        heard in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 13), prop::collection::vec(
                prop::option::weighted(0.8, prop::collection::vec(0..136_usize, 0..6)), 4)),
            1..6),
    ) {
        let mut counts = ErrorCounts::new(4);
        let mut wrong: Vec<Vec<Option<Vec<f64>>>> = vec![Vec::new(); 4];
        for (bytes, errors) in &heard {
            let sent = packet(bytes);
            let copies: Vec<Option<Vec<u8>>> =
                errors.iter().map(|bits| bits.as_ref().map(|bits| flipped(&sent, bits))).collect();
            let lent: Vec<Option<&[u8]>> = copies.iter().map(Option::as_deref).collect();
            let known = lent.iter().flatten().any(|copy| *copy == sent);
            prop_assert_eq!(counts.add(&lent), known);
            if known {
                for (wrong, copy) in wrong.iter_mut().zip(&copies) {
                    wrong.push(copy.as_ref().map(|copy| {
                        (0..136).map(|at| f64::from(u8::from(bit(copy, at) != bit(&sent, at)))).collect()
                    }));
                }
            }
        }
        let mut matrix = [0.0; 16];
        counts.matrix(&mut matrix);
        for i in 0..4 {
            for j in 0..4 {
                let both = wrong[i].iter().zip(&wrong[j]).filter_map(|(a, b)| a.as_ref().zip(b.as_ref()));
                let (a, b): (Vec<f64>, Vec<f64>) =
                    both.flat_map(|(a, b)| a.iter().copied().zip(b.iter().copied())).unzip();
                let expected = if i == j { a.iter().sum::<f64>() / a.len() as f64 } else { pearson(&a, &b) };
                let got = matrix[4 * i + j];
                prop_assert!(
                    (got - expected).abs() < 1e-12 || got.is_nan() && (expected.is_nan() || !expected.is_finite()),
                    "{i} {j}: {got} {expected}"
                );
            }
        }
        counts.clear();
        counts.matrix(&mut matrix);
        prop_assert!(matrix.iter().all(|number| number.is_nan()));
    }

    // Recovers packets with few disputed bits, and never invents one.
    #[test]
    fn disputed_bits_are_found(
        bytes in prop::collection::vec(any::<u8>(), 1..60),
        errors in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 1..4), 2..5),
        clusters in prop::collection::vec(0..3_u32, 5),
    ) {
        let sent = packet(&bytes);
        let copies: Vec<Vec<u8>> = errors
            .iter()
            .map(|bits| flipped(&sent, &bits.iter().map(|bit| bit.index(8 * sent.len())).collect::<Vec<_>>()))
            .collect();
        let lent: Vec<Option<&[u8]>> = copies.iter().map(|copy| Some(copy.as_slice())).collect();
        let rates = vec![0.01; lent.len()];
        let mut combiner = Combiner::new(sent.len(), &clusters[..lent.len()], &rates, 16).unwrap();
        let mut made = vec![0; sent.len()];
        let how = combiner.combine(&lent, &mut made);
        // Errors shared by all copies are undisputed.
        let unseen = (0..8 * sent.len()).any(|at| copies.iter().all(|copy| bit(copy, at) != bit(&sent, at)));
        if unseen {
            prop_assert_eq!(how, Recovery::Lost);
        } else {
            prop_assert!(how != Recovery::Lost);
            prop_assert_eq!(made, sent);
        }
    }
}

struct Lcg(u64);

impl Lcg {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }
}

// Without a search, against an enumeration of sender's bit and clusters' errors.
#[test]
fn the_vote_is_the_likelier_bit_if_clusters_err_jointly() {
    let mut chance = Lcg(7);
    let clusters = [0, 0, 0, 1, 2, 2];
    let of_cluster = [0.02, 0.001, 0.1];
    let rates = clusters.map(|cluster: u32| of_cluster[cluster as usize]);
    let mut combiner = Combiner::new(40, &clusters, &rates, 0).unwrap();
    for _ in 0..200 {
        let words: Vec<Vec<u8>> = (0..3)
            .map(|_| (0..40).map(|_| chance.below(256) as u8).collect())
            .collect();
        let copies: Vec<Option<&[u8]>> = clusters
            .iter()
            .map(|&cluster| Some(&words[cluster as usize][..]))
            .collect();
        let mut made = vec![0; 40];
        assert_eq!(combiner.combine(&copies, &mut made), Recovery::Lost);
        for at in 0..320 {
            let likelihood = |sent: bool| -> f64 {
                let one = |(rate, word): (&f64, &Vec<u8>)| {
                    if bit(word, at) == sent {
                        1.0 - rate
                    } else {
                        *rate
                    }
                };
                of_cluster.iter().zip(&words).map(one).product()
            };
            assert_eq!(
                bit(&made, at),
                likelihood(true) > likelihood(false),
                "bit {at}"
            );
        }
    }
}

#[test]
fn missing_copies_have_no_vote() {
    let sent = packet(b"all quiet");
    let wrong = flipped(&sent, &[5]);
    let mut combiner = Combiner::new(sent.len(), &[0, 1, 2], &[1e-3; 3], 4).unwrap();
    let mut made = vec![0; sent.len()];
    assert_eq!(
        combiner.combine(&[None, None, None], &mut made),
        Recovery::Lost
    );
    assert_eq!(
        combiner.combine(&[None, Some(&wrong), None], &mut made),
        Recovery::Lost
    );
    let how = combiner.combine(&[None, Some(&wrong), Some(&sent)], &mut made);
    assert_eq!((how, &made), (Recovery::Intact { receiver: 2 }, &sent));
    // Three outvote each other's errors.
    let copies = [[3], [77], [40]].map(|bits| flipped(&sent, &bits));
    let lent = [Some(&copies[0][..]), Some(&copies[1]), Some(&copies[2])];
    let how = combiner.combine(&lent, &mut made);
    assert_eq!((how, &made), (Recovery::Voted, &sent));
}

#[test]
fn rejects_invalid_receivers_and_packets() {
    let refusal = |result: Result<Combiner, DspError>| result.map(drop).unwrap_err().to_string();
    assert_eq!(
        refusal(Combiner::new(4, &[0], &[0.1], 0)),
        "combine_packets: window=4 must be at least 5 bytes: one byte and the checksum of 4 bytes; change window"
    );
    assert_eq!(
        refusal(Combiner::new(40, &[0, 1], &[0.1], 0)),
        "combine_packets: error_rates=[0.1] must be one rate per receiver, 2 in all; change error_rates"
    );
    for rate in [0.5, -0.1, f64::NAN] {
        assert!(refusal(Combiner::new(40, &[0], &[rate], 0)).contains("from 0 to below 0.5"));
    }
    assert!(refusal(Combiner::new(40, &[0], &[0.1], 21)).contains("at most 20 bits"));
    assert!(refusal(Combiner::new(40, &[], &[], 0)).contains("one rate per receiver"));
}
