//! What was sent, from the copies of several receivers.

use super::{CHECK_BYTES, residual, word, words};
use crate::DspError;

/// The smallest error rate that counts: one wrong bit in a billion.
const LEAST_RATE: f64 = 1e-9;

/// Most bits that are tried both ways: a million combinations.
const MOST_SEARCHED: u32 = 20;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// The copy of this receiver is intact.
    Intact {
        /// Number of the receiver.
        receiver: usize,
    },
    /// The clusters' votes are intact.
    Voted,
    /// They are after bits were decided against the vote.
    Searched {
        /// How many.
        flipped: u32,
    },
    /// Nothing that agrees with the check was found.
    Lost,
}

/// Puts packets together from copies with errors.
///
/// An intact copy is taken as it is, that of the receiver with the lowest error rate first. Else bits in which all copies
/// agree stay, and the others are voted on: within a cluster each copy weighs ln((1 - p) / p), p its receiver's error
/// rate; what the cluster decides weighs as much as its best copy, once, since errors in a cluster are not independent.
/// That is the likelier bit where receivers of a cluster err together and clusters independently. If the result does not
/// agree with the packet's check, the bits with the closest votes are tried both ways, all combinations, and of those
/// that agree the likeliest is taken (Chase 1972). A wrong packet passes once in 2^(32 - searched) such tries.
///
/// ```
/// use isochrony_dsp::packets::{Combiner, Recovery};
/// let mut packet = *b"weather: fair....";
/// let check = crc32fast::hash(&packet[..13]).to_le_bytes();
/// packet[13..].copy_from_slice(&check);
/// let [mut together, mut alone] = [packet; 2];
/// together[3] ^= 0b11; // two receivers at one place
/// alone[9] ^= 1; // and one elsewhere
/// let mut combiner = Combiner::new(17, &[0, 0, 1], &[1e-2, 1e-2, 1e-2], 8)?;
/// let mut sent = [0; 17];
/// let how = combiner.combine(&[Some(&together), Some(&together), Some(&alone)], &mut sent);
/// assert_eq!(how, Recovery::Searched { flipped: 2 });
/// assert_eq!(sent, packet);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Combiner {
    bytes: usize,
    /// Receivers by cluster, the best of each first; for each the number of its cluster and its weight.
    voters: Vec<Voter>,
    /// Receivers from the lowest error rate on.
    order: Vec<usize>,
    /// What each bit changes in the residual.
    syndromes: Vec<u32>,
    search: u32,
    /// Bits in which copies differ, a word for each 64.
    differ: Vec<u64>,
    /// Bits that were voted on, and by how much.
    disputed: Vec<Disputed>,
}

#[derive(Debug, Clone, Copy)]
struct Voter {
    receiver: usize,
    cluster: u32,
    weight: f64,
}

#[derive(Debug, Clone, Copy)]
struct Disputed {
    bit: usize,
    margin: f64,
}

impl Combiner {
    /// For packets of `bytes` bytes, check included, of receivers in `clusters` (a number for each), which have
    /// `error_rates` (bits wrong of bits heard; less than 1e-9 counts as that). `search`: how many bits are tried both
    /// ways, up to 20; 0: none.
    ///
    /// # Errors
    /// [`DspError::Parameter`]: no receiver, packets of fewer than 5 bytes, not as many rates as receivers, a rate outside
    /// of 0 to 0.5, more bits than 20.
    pub fn new(
        bytes: usize,
        clusters: &[u32],
        error_rates: &[f64],
        search: u32,
    ) -> Result<Self, DspError> {
        let refuse = |parameter, got, allowed: &str| {
            Err(DspError::Parameter {
                operator: "combine_packets",
                parameter,
                got,
                allowed: allowed.into(),
            })
        };
        if bytes <= CHECK_BYTES {
            let allowed = "at least 5 bytes: one beside the check of 4";
            return refuse("window", bytes.to_string(), allowed);
        }
        if clusters.is_empty() || clusters.len() != error_rates.len() {
            let got = format!("{} of {} receivers", error_rates.len(), clusters.len());
            return refuse("error_rates", got, "a rate for each receiver");
        }
        if let Some(rate) = error_rates.iter().find(|rate| !(0.0..0.5).contains(*rate)) {
            let allowed =
                "from 0 to below 0.5: a receiver that is wrong half the time says nothing";
            return refuse("error_rates", rate.to_string(), allowed);
        }
        if search > MOST_SEARCHED {
            return refuse("search", search.to_string(), "at most 20 bits");
        }
        let mut order: Vec<usize> = (0..clusters.len()).collect();
        order.sort_by(|&a, &b| error_rates[a].total_cmp(&error_rates[b]));
        let mut voters: Vec<Voter> = order
            .iter()
            .map(|&receiver| {
                let rate = error_rates[receiver].max(LEAST_RATE);
                Voter {
                    receiver,
                    cluster: clusters[receiver],
                    weight: ((1.0 - rate) / rate).ln(),
                }
            })
            .collect();
        voters.sort_by_key(|voter| voter.cluster);
        Ok(Self {
            bytes,
            voters,
            order,
            syndromes: syndromes(bytes),
            search,
            differ: vec![0; bytes.div_ceil(8)],
            disputed: Vec::new(),
        })
    }

    /// Puts a packet together from its copies, None of receivers that have none. What it is, unless it is lost, is in
    /// `packet` then; of one that is lost, the vote.
    ///
    /// # Panics
    /// Where copies are not as many as receivers, or they and `packet` are not as long as was said.
    pub fn combine(&mut self, copies: &[Option<&[u8]>], packet: &mut [u8]) -> Recovery {
        assert_eq!(copies.len(), self.order.len(), "one copy for each receiver");
        assert_eq!(packet.len(), self.bytes);
        let mut best = None;
        for &receiver in &self.order {
            let Some(copy) = copies[receiver] else {
                continue;
            };
            assert_eq!(copy.len(), self.bytes);
            if residual(copy) == Some(0) {
                packet.copy_from_slice(copy);
                return Recovery::Intact { receiver };
            }
            best = best.or(Some(copy));
        }
        let Some(best) = best else {
            return Recovery::Lost;
        };
        packet.copy_from_slice(best);
        self.vote(best, copies, packet);
        match residual(packet) {
            Some(0) => Recovery::Voted,
            Some(wrong) => self.search(wrong, packet),
            None => Recovery::Lost,
        }
    }

    /// Decides the bits in which copies differ.
    fn vote(&mut self, best: &[u8], copies: &[Option<&[u8]>], packet: &mut [u8]) {
        self.differ.fill(0);
        for copy in copies.iter().flatten() {
            for (differ, (a, b)) in self.differ.iter_mut().zip(words(copy).zip(words(best))) {
                *differ |= a ^ b;
            }
        }
        self.disputed.clear();
        for (at, &differ) in self.differ.iter().enumerate() {
            let mut left = differ;
            while left != 0 {
                let place = left.trailing_zeros();
                left &= left - 1;
                let support = self.support(copies, at, place);
                let own = word(best, at) >> place & 1 == 1;
                let bit = 64 * at + place as usize;
                // Where votes balance, the best copy is right.
                let one = if support == 0.0 { own } else { support > 0.0 };
                if one != own {
                    packet[bit / 8] ^= 1 << (bit % 8);
                }
                self.disputed.push(Disputed {
                    bit,
                    margin: support.abs(),
                });
            }
        }
    }

    /// By how much a bit is likelier to be 1 than 0: the logarithm of the odds.
    fn support(&self, copies: &[Option<&[u8]>], at: usize, place: u32) -> f64 {
        let mut support = 0.0;
        let heard = |voter: &Voter| copies[voter.receiver].map(|copy| (voter.weight, copy));
        for cluster in self.voters.chunk_by(|a, b| a.cluster == b.cluster) {
            let mut best: Option<(f64, f64)> = None;
            let mut sum = 0.0;
            for (weight, copy) in cluster.iter().filter_map(heard) {
                let sign = match word(copy, at) >> place & 1 {
                    1 => 1.0,
                    _ => -1.0,
                };
                best = best.or(Some((weight, sign)));
                sum += weight * sign;
            }
            // A balanced cluster says what its best receiver says.
            if let Some((weight, sign)) = best {
                let decided = if sum == 0.0 { sign } else { f64::signum(sum) };
                support += weight * decided;
            }
        }
        support
    }

    /// Tries the bits with the closest votes both ways.
    fn search(&mut self, wrong: u32, packet: &mut [u8]) -> Recovery {
        let closest = |a: &Disputed, b: &Disputed| {
            let nearer = a.margin.total_cmp(&b.margin);
            nearer.then(a.bit.cmp(&b.bit))
        };
        let tried = (self.search as usize).min(self.disputed.len());
        if tried == 0 {
            return Recovery::Lost;
        }
        self.disputed.select_nth_unstable_by(tried - 1, closest);
        let bits = &mut self.disputed[..tried];
        bits.sort_unstable_by(closest);
        // In the order of a Gray code one bit changes from one combination to the next.
        let mut left = wrong;
        let mut found: Option<(f64, u32)> = None;
        for step in 1..1_u32 << tried {
            left ^= self.syndromes[bits[step.trailing_zeros() as usize].bit];
            if left != 0 {
                continue;
            }
            let chosen = step ^ (step >> 1);
            let one = |(at, bit): (usize, &Disputed)| match chosen >> at & 1 {
                1 => bit.margin,
                _ => 0.0,
            };
            let cost = bits.iter().enumerate().map(one).sum();
            if found.is_none_or(|(least, _)| cost < least) {
                found = Some((cost, chosen));
            }
        }
        let Some((_, chosen)) = found else {
            return Recovery::Lost;
        };
        for (at, Disputed { bit, .. }) in bits.iter().enumerate() {
            if chosen >> at & 1 == 1 {
                packet[bit / 8] ^= 1 << (bit % 8);
            }
        }
        Recovery::Searched {
            flipped: chosen.count_ones(),
        }
    }
}

/// What each bit of a packet changes in its residual.
fn syndromes(bytes: usize) -> Vec<u32> {
    // The linear part of the CRC of one byte, with which it is carried on over a further byte of zeros.
    let zero = crc32fast::hash(&[0]);
    let table: [u32; 256] = std::array::from_fn(|byte| crc32fast::hash(&[byte as u8]) ^ zero);
    let mut syndromes = vec![0; 8 * bytes];
    let (checked, check) = syndromes.split_at_mut(8 * (bytes - CHECK_BYTES));
    for (bit, syndrome) in check.iter_mut().enumerate() {
        *syndrome = 1 << bit;
    }
    let mut of_byte: [u32; 8] = std::array::from_fn(|bit| table[1 << bit]);
    for byte in checked.rchunks_exact_mut(8) {
        byte.copy_from_slice(&of_byte);
        of_byte = of_byte.map(|crc| crc >> 8 ^ table[(crc & 0xff) as usize]);
    }
    syndromes
}
