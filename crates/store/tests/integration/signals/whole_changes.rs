//! Threads that read through a writer's handle see each change as a whole or not at all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use isochrony_store::Signal;
use isochrony_store::media::sim::{Faults, SimMedia};

use super::*;

const STEPS: usize = 1500;
const READERS: usize = 2;
const SAMPLE: i64 = SECOND / 1000;

struct EndReaders<'a>(&'a AtomicBool);

impl Drop for EndReaders<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit) as i64
    }
}

struct Changes {
    dice: Dice,
    now: i64,
    next_sample: i16,
}

impl Changes {
    fn new() -> Self {
        Self {
            dice: Dice(7),
            now: 0,
            next_sample: 0,
        }
    }

    fn samples(&mut self) -> Vec<i16> {
        let count = 1 + self.dice.below(20);
        (0..count)
            .map(|_| {
                self.next_sample = self.next_sample.wrapping_add(7) & 0x7fff;
                self.next_sample
            })
            .collect()
    }

    /// Appends with and without stamps, gaps, clock steps, late samples, events.
    fn make(&mut self, writer: &SignalWriter) {
        let samples = self.samples();
        let taken = samples.len() as i64 * SAMPLE;
        let length = 1 + self.dice.below(9);
        match self.dice.below(12) {
            0 | 1 => _ = writer.append(&samples).unwrap(),
            2 => _ = writer.append_at(&samples, &exact(self.now)).unwrap(),
            3 | 4 => {
                self.now += (5 + length) * SAMPLE;
                _ = writer.append_at(&samples, &exact(self.now)).unwrap();
            }
            5 => {
                self.now -= SECOND;
                _ = writer.append_at(&samples, &exact(self.now)).unwrap();
            }
            6 => {
                self.now += length * SAMPLE;
                let (bytes, stamp) = (bytes(&samples), exact(self.now));
                let behind = writer.append_bytes_behind_gap(&bytes, length, &stamp);
                _ = behind.unwrap();
            }
            7 => {
                self.now += length * SAMPLE - taken;
                writer.append_gap(length).unwrap();
            }
            8 => {
                self.now += 20 * SECOND - taken;
                let lasts = Fixed::from_int(20 * SECOND);
                writer.append_gap_duration(lasts).unwrap();
            }
            9 => {
                // Late: in a gap, or at the end as a run of their own; the clock continues after it.
                let stamp = exact(self.now - (1 + self.dice.below(2000)) * SAMPLE);
                writer.backfill(&bytes(&samples), &stamp).unwrap();
                self.now -= taken;
            }
            10 => {
                writer.begin_run().unwrap();
                self.now -= taken;
            }
            _ => {
                let end = writer.signal().unwrap().end_index();
                writer.add_event("note", end / 2..end, &Map::new()).unwrap();
                self.now -= taken;
            }
        }
        self.now += taken;
    }
}

fn options_of_changes() -> CreateOptions {
    let mut options = options(1000);
    options.max_gap_ns = 10 * SECOND;
    options
}

fn facts(signal: &Signal) -> String {
    let end = signal.end_index();
    let last = (end > 0).then(|| signal.time_of(end - 1).map(|time| time.value));
    let last = last.map(|time| time.map_err(|error| error.code()));
    format!("{end} {last:?} {:?}", signal.state().tables())
}

#[test]
fn readers_beside_a_writer_see_each_change_whole_or_not_at_all() {
    let (_folder, store) = new_store();
    let alone = store.create("x", &options_of_changes()).unwrap();
    let mut changes = Changes::new();
    let mut expected = HashMap::from([(facts(&alone.signal().unwrap()), 0)]);
    for step in 1..=STEPS {
        changes.make(&alone);
        expected.insert(facts(&alone.signal().unwrap()), step);
    }
    let end = alone.signal().unwrap().end_index();
    let samples = values(&alone, 0..end);
    let runs = alone.signal().unwrap().state().runs.len();
    assert!(runs > STEPS / 10, "{runs}");

    let writer = store.create("y", &options_of_changes()).unwrap();
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = || {
            let _ends = EndReaders(&done);
            let mut seen: Vec<Signal> = Vec::new();
            while !done.load(Ordering::Acquire) {
                // Checked later, so that short-lived states are not missed.
                let signal = writer.signal().unwrap();
                let seq = |signal: &Signal| signal.state().seq;
                if seen.last().map(seq) != Some(seq(&signal)) {
                    seen.push(signal);
                }
            }
            seen
        };
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(reader)).collect();
        scope.spawn(|| {
            let _ends = EndReaders(&done);
            while !done.load(Ordering::Acquire) {
                check_samples(&writer.signal().unwrap(), &samples);
            }
        });
        {
            let _ends = EndReaders(&done);
            let mut changes = Changes::new();
            for step in 1..=STEPS {
                changes.make(&writer);
                if step % 100 == 0 {
                    store.commit(false).unwrap();
                }
            }
        }
        let seen = readers.into_iter().map(|reader| reader.join().unwrap());
        seen.collect::<Vec<_>>()
    });
    assert_eq!(
        facts(&writer.signal().unwrap()),
        facts(&alone.signal().unwrap())
    );
    for seen in seen {
        assert!(seen.len() > 20, "only {} changes were seen", seen.len());
        let mut last = 0;
        for signal in seen {
            let step = expected.get(&facts(&signal)).copied();
            let step = step.unwrap_or_else(|| panic!("a part of a change behind step {last}"));
            assert!(last <= step, "step {step} is seen behind step {last}");
            last = step;
            check_samples(&signal, &samples);
        }
    }
}

/// Samples are those of the final signal, or in a gap filled later.
fn check_samples(signal: &Signal, samples: &[i16]) {
    let end = signal.end_index();
    let near = (end - 100).max(0)..end;
    let shown = signal.select(near.clone()).unwrap().counts(-1i16).unwrap();
    let known = &samples[near.start as usize..near.end as usize];
    let different = |(shown, known): (&i16, &i16)| shown != known && *shown != -1;
    if let Some(at) = shown.iter().zip(known).position(different) {
        let index = near.start + at as i64;
        panic!(
            "sample {index} of {end} is {}, not {}",
            shown[at], known[at]
        );
    }
    let missing = shown.iter().filter(|sample| **sample == -1).count();
    assert_eq!(missing as i64, signal.gaps().missing_within(near));
}

/// Half of 16 zeros in each of two shards; and their range.
fn across_two_shards(store: &Store) -> (SignalWriter, std::ops::Range<i64>) {
    let writer = store.create("x", &options(1000)).unwrap();
    let meta = writer.signal().unwrap().state().meta.clone();
    let border = (meta.chunk_samples * meta.shard_chunks).cast_signed();
    writer.append_gap(border - 8).unwrap();
    writer.append(&[0i16; 16]).unwrap();
    store.commit(true).unwrap();
    (writer, border - 8..border + 8)
}

#[test]
fn readers_beside_a_writer_see_an_overwrite_of_two_shards_in_both_or_in_none() {
    let (_folder, store) = new_store();
    let (writer, range) = across_two_shards(&store);
    let done = AtomicBool::new(false);
    let seen = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let _ends = EndReaders(&done);
                while !done.load(Ordering::Acquire) {
                    let signal = writer.signal().unwrap();
                    let shown = signal.select(range.clone()).unwrap();
                    let shown = match shown.counts(-1i16) {
                        Ok(shown) => shown,
                        Err(error) if error.code() == "samples_replaced" => continue,
                        Err(error) => panic!("{error}"),
                    };
                    assert_eq!(shown, vec![shown[0]; 16]);
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _ends = EndReaders(&done);
        for round in 1..=200i16 {
            if done.load(Ordering::Acquire) {
                break;
            }
            writer.write(range.start, &[round; 16]).unwrap();
            if round % 20 == 0 {
                store.commit(false).unwrap();
            }
        }
    });
    assert!(seen.into_inner() > 20);
}

#[test]
fn an_overwrite_of_two_shards_that_fails_on_the_way_is_in_none() {
    let medium = SimMedia::new(1);
    let path = std::path::Path::new("/a.iso");
    let store = Store::open_on(path, Mode::Create, medium.media()).unwrap();
    let (writer, range) = across_two_shards(&store);
    let mut failed = 0;
    loop {
        medium.set_faults(Faults {
            fail_at: Some(medium.changes() + failed),
            ..Faults::default()
        });
        let written = writer.write(range.start, &[7i16; 16]);
        medium.set_faults(Faults::default());
        if written.is_ok() {
            break;
        }
        assert_eq!(values(&writer, range.clone()), [0; 16], "{failed}");
        assert!(!store.has_pending(), "{failed}");
        failed += 1;
    }
    // Each shard's copy is made, written, and marked.
    assert!(failed >= 6, "{failed}");
    assert_eq!(values(&writer, range), [7; 16]);
}

#[test]
fn parallel_backfills_fill_a_gap_once() {
    for round in 0..100 {
        let (_folder, store) = new_store();
        let writer = store.create("x", &options(1000)).unwrap();
        writer.append_at(&[1i16; 10], &exact(0)).unwrap();
        writer.append_at(&[1i16; 10], &exact(20 * SAMPLE)).unwrap();
        let barrier = std::sync::Barrier::new(2);
        let placed = std::thread::scope(|scope| {
            let fill = |sample: i16| {
                let (late, stamp) = (bytes(&[sample; 10]), exact(10 * SAMPLE));
                barrier.wait();
                writer.backfill(&late, &stamp).unwrap()
            };
            let other = scope.spawn(move || fill(2));
            [fill(3), other.join().unwrap()]
        });
        let filled = |placed: &&Backfilled| matches!(placed, Backfilled::Filled { .. });
        assert_eq!(
            placed.iter().filter(filled).count(),
            1,
            "{round}: {placed:?}"
        );
        let mut shown = values(&writer, 10..40);
        shown.drain(10..20);
        shown.sort_unstable();
        assert_eq!(shown, [[2i16; 10], [3; 10]].concat(), "{round}");
    }
}
