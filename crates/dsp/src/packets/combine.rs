//! Recovery of a packet from several copies.

use super::{CHECK_BYTES, residual, word, words};
use crate::DspError;

const MIN_ERROR_RATE: f64 = 1e-9;

/// A million combinations.
const MAX_SEARCHED: u32 = 20;

/// How a packet was recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// A copy was intact.
    Intact {
        /// Its receiver.
        receiver: usize,
    },
    /// The clusters' votes match the checksum.
    Voted,
    /// Votes match after a search.
    Searched {
        /// Bits decided against the vote.
        flipped: u32,
    },
    /// Nothing matches the checksum.
    Lost,
}

/// Recovers packets from copies with errors.
///
/// Takes the intact copy of the best receiver. Otherwise bits in which copies differ are voted on: within a cluster a
/// copy weighs ln((1 - p) / p), with p its receiver's error rate; the cluster's decision weighs as much as its best
/// copy, since its errors are correlated. This is the likelier bit if clusters err independently. If the checksum
/// fails, all combinations of the closest votes are tried, and the likeliest that passes is taken (Chase 1972). A wrong
/// packet passes once in 2^(32 - searched) tries.
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
    /// Receivers by cluster, the best of each first.
    voters: Vec<Voter>,
    order: Vec<usize>,
    syndromes: Vec<u32>,
    search: u32,
    differ: Vec<u64>,
    disputed: Vec<DisputedBit>,
}

#[derive(Debug, Clone, Copy)]
struct Voter {
    receiver: usize,
    cluster: u32,
    weight: f64,
}

#[derive(Debug, Clone, Copy)]
struct DisputedBit {
    bit: usize,
    margin: f64,
}

impl Combiner {
    /// For packets of `bytes` bytes with checksum; `clusters` and `error_rates` (wrong bits per bit, at least 1e-9) are
    /// per receiver. `search`: bits to search, 0 to 20.
    ///
    /// # Errors
    /// [`DspError::Parameter`] for no receiver, packets of fewer than 5 bytes, another number of rates, a rate outside
    /// 0 to 0.5, or a `search` above 20.
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
            let allowed = "at least 5 bytes: one byte and the checksum of 4 bytes";
            return refuse("window", bytes.to_string(), allowed);
        }
        if clusters.is_empty() || clusters.len() != error_rates.len() {
            let allowed = format!("one rate per receiver, {} in all", clusters.len());
            return refuse("error_rates", format!("{error_rates:?}"), &allowed);
        }
        if let Some(rate) = error_rates.iter().find(|rate| !(0.0..0.5).contains(*rate)) {
            let allowed = "from 0 to below 0.5: a receiver that is wrong half the time carries no information";
            return refuse("error_rates", rate.to_string(), allowed);
        }
        if search > MAX_SEARCHED {
            return refuse("search", search.to_string(), "at most 20 bits");
        }
        let mut order: Vec<usize> = (0..clusters.len()).collect();
        order.sort_by(|&a, &b| error_rates[a].total_cmp(&error_rates[b]));
        let mut voters: Vec<Voter> = order
            .iter()
            .map(|&receiver| {
                let rate = error_rates[receiver].max(MIN_ERROR_RATE);
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

    /// Recovers `packet` from one copy, or None, per receiver. A lost packet is the vote.
    ///
    /// # Panics
    /// If copies and receivers differ in number, or a length is not that of a packet.
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
                // Ties go to the best copy.
                let one = if support == 0.0 { own } else { support > 0.0 };
                if one != own {
                    packet[bit / 8] ^= 1 << (bit % 8);
                }
                self.disputed.push(DisputedBit {
                    bit,
                    margin: support.abs(),
                });
            }
        }
    }

    /// Log odds that a bit is 1.
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
            if let Some((weight, sign)) = best {
                let decided = if sum == 0.0 { sign } else { f64::signum(sum) };
                support += weight * decided;
            }
        }
        support
    }

    fn search(&mut self, wrong: u32, packet: &mut [u8]) -> Recovery {
        let closest = |a: &DisputedBit, b: &DisputedBit| {
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
        // A Gray code.
        let mut left = wrong;
        let mut found: Option<(f64, u32)> = None;
        for step in 1..1_u32 << tried {
            left ^= self.syndromes[bits[step.trailing_zeros() as usize].bit];
            if left != 0 {
                continue;
            }
            let chosen = step ^ (step >> 1);
            let one = |(at, bit): (usize, &DisputedBit)| match chosen >> at & 1 {
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
        for (at, DisputedBit { bit, .. }) in bits.iter().enumerate() {
            if chosen >> at & 1 == 1 {
                packet[bit / 8] ^= 1 << (bit % 8);
            }
        }
        Recovery::Searched {
            flipped: chosen.count_ones(),
        }
    }
}

fn syndromes(bytes: usize) -> Vec<u32> {
    // Linear part of the CRC of a byte: advances it over a zero byte.
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
