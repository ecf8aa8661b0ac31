//! Workloads: tasks and the objects that they read.

use crate::ObjectId;

/// Tasks in order of admission, over objects of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Objects read by each task.
    pub tasks: Vec<Vec<ObjectId>>,
    /// Bytes of an object in storage.
    pub stored_bytes: u64,
    /// Bytes of an object in a cache, read by peers and tasks.
    pub cached_bytes: u64,
    /// Nanoseconds to convert the stored form to the cached one.
    pub unpack_time: u64,
    /// Computing nanoseconds per task.
    pub compute_time: u64,
    /// Nanoseconds between admissions.
    pub interval: u64,
}

impl Workload {
    /// The image stacking of Raicu et al. (2008): 6 MB per image, or 2 MB in storage if compressed.
    ///
    /// A stacking takes 0.15 s if the image is on the local disk and a processor uses it alone (figure 7; section 5.2:
    /// local reads are 1.5 times as fast as GPFS, and compression doubles the time); 47 ms are reading.
    pub fn stacking(tasks: Vec<Vec<ObjectId>>, compressed: bool) -> Self {
        Self {
            tasks,
            stored_bytes: if compressed { 2_000_000 } else { 6_000_000 },
            cached_bytes: 6_000_000,
            unpack_time: if compressed { 300_000_000 } else { 0 },
            compute_time: 103_000_000,
            interval: 0,
        }
    }

    /// Each object `locality` times, in random order.
    pub fn shuffled(objects: u32, locality: u32, seed: u64) -> Vec<Vec<ObjectId>> {
        Self::sample(objects, objects as usize * locality as usize, seed)
    }

    /// `tasks` tasks over `objects` objects, each equally often or once more, in random order: table 2 of the paper.
    pub fn sample(objects: u32, tasks: usize, seed: u64) -> Vec<Vec<ObjectId>> {
        let all = (0..tasks).map(|task| vec![ObjectId((task % objects.max(1) as usize) as u32)]);
        let mut all: Vec<_> = all.collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut all);
        all
    }

    /// Zipf's law: the k-th most popular object has a share proportional to k^-exponent.
    pub fn zipf(objects: u32, tasks: usize, exponent: f64, seed: u64) -> Vec<Vec<ObjectId>> {
        let mut total = 0.0;
        let sums: Vec<f64> = (1..=objects)
            .map(|rank| {
                total += f64::from(rank).powf(-exponent);
                total
            })
            .collect();
        let mut random = fastrand::Rng::with_seed(seed);
        let draw = |_| {
            let at = random.f64() * total;
            let rank = sums.partition_point(|&sum| sum <= at);
            vec![ObjectId((rank as u32).min(objects - 1))]
        };
        (0..tasks).map(draw).collect()
    }

    /// All objects in order, repeated.
    pub fn scan(objects: u32, passes: u32) -> Vec<Vec<ObjectId>> {
        let all = (0..passes).flat_map(|_| 0..objects);
        all.map(|object| vec![ObjectId(object)]).collect()
    }

    /// Fraction of inputs that an unlimited cache serves: 1 - objects / inputs.
    pub fn ideal_hit_rate(&self) -> f64 {
        let mut objects: Vec<_> = self.tasks.iter().flatten().collect();
        let inputs = objects.len();
        objects.sort_unstable();
        objects.dedup();
        1.0 - objects.len() as f64 / inputs.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(tasks: &[Vec<ObjectId>], objects: usize) -> Vec<usize> {
        let mut counts = vec![0; objects];
        for object in tasks.iter().flatten() {
            counts[object.0 as usize] += 1;
        }
        counts
    }

    #[test]
    fn workloads_read_the_stated_objects() {
        assert_eq!(counts(&Workload::shuffled(50, 3, 1), 50), [3; 50]);
        assert_eq!(counts(&Workload::scan(20, 2), 20), [2; 20]);
        let uneven = counts(&Workload::sample(10, 14, 1), 10);
        assert_eq!(uneven, [2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
        assert_ne!(Workload::shuffled(50, 3, 1), Workload::shuffled(50, 3, 2));
        let workload = Workload::stacking(Workload::shuffled(50, 4, 1), true);
        assert_eq!(workload.ideal_hit_rate(), 0.75);
    }

    #[test]
    fn zipf_has_its_shares() {
        let counts = counts(&Workload::zipf(100, 100_000, 1.0, 7), 100);
        let total: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1, 2, 5, 50] {
            let share = 1.0 / f64::from(rank) / total;
            let expected = 100_000.0 * share;
            let deviation = (expected * (1.0 - share)).sqrt();
            let found = counts[rank as usize - 1] as f64;
            assert!(
                (found - expected).abs() < 5.0 * deviation,
                "{rank}: {found} {expected}"
            );
        }
    }
}
