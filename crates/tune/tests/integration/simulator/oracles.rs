//! Closed forms and a Markov chain.

/// Mean wait in M/M/c (Erlang C); `load` is each server's utilisation.
pub(crate) fn mmc_wait(servers: u32, load: f64, service_s: f64) -> f64 {
    let offered = load * f64::from(servers);
    // Erlang B, recursive.
    let mut blocked = 1.0;
    for count in 1..=servers {
        blocked = offered * blocked / (f64::from(count) + offered * blocked);
    }
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    waits * service_s / (f64::from(servers) * (1.0 - load))
}

/// Two exponential stages with a link of `slots` items: the first stops when it is full and resumes when at most half
/// is.
pub(crate) fn tandem_throughput(first_rate: f64, second_rate: f64, slots: usize) -> f64 {
    // State: items after the first stage (one in the second), and whether the first waits.
    let most = slots + 1;
    let index = |items: usize, waits: bool| items * 2 + usize::from(waits);
    let mut share = vec![0.0; 2 * (most + 1)];
    share[index(0, false)] = 1.0;
    let step = 0.5 / (first_rate + second_rate);
    for _ in 0..200_000 {
        let mut next = share.clone();
        let mut flow = |from: usize, to: usize, rate: f64| {
            let moved = share[from] * rate * step;
            next[from] -= moved;
            next[to] += moved;
        };
        for items in 0..=most {
            // One item less: it is in the second stage.
            if items < most {
                let full = items == slots;
                flow(index(items, false), index(items + 1, full), first_rate);
            }
            for waits in [false, true] {
                if items > 0 {
                    let in_link = (items - 1).saturating_sub(1);
                    let still = waits && in_link > slots / 2;
                    flow(index(items, waits), index(items - 1, still), second_rate);
                }
            }
        }
        share = next;
    }
    let idle: f64 = share[index(0, false)] + share[index(0, true)];
    second_rate * (1.0 - idle)
}

/// 99.9 % confidence interval of 10 results: mean and half-width.
pub(crate) fn interval(results: &[f64]) -> (f64, f64) {
    const T_QUANTILE: f64 = 4.781;
    assert_eq!(results.len(), 10);
    let mean = results.iter().sum::<f64>() / 10.0;
    let variance = results.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 9.0;
    (mean, T_QUANTILE * (variance / 10.0).sqrt())
}

#[test]
fn erlang_c_gives_known_answers() {
    // One server: load / (1 - load) services. Two at half load: a third of the items waits one service.
    super::assert_close(mmc_wait(1, 0.8, 1.0), 4.0, 1e-12);
    super::assert_close(mmc_wait(2, 0.5, 1.0), 1.0 / 3.0, 1e-12);
}

#[test]
fn a_tandem_with_one_slot_has_the_throughput_of_a_finite_queue() {
    // One slot has no hysteresis: an M/M/1 queue with room for two.
    let queue = isochrony_tune::Queue::mm1(3.0, 0.25).unwrap();
    let closed = queue.with_capacity(2).unwrap().throughput();
    super::assert_close(tandem_throughput(3.0, 4.0, 1), closed, 1e-9);
    super::assert_close(tandem_throughput(1.0, 1.0, 1), 2.0 / 3.0, 1e-9);
}
