//! `SignalReadAhead` selects small objects of signals to read ahead.
//!
//! A signal's tables are small objects read one after another, each with a request's latency. So the first triggers
//! reading the others and, if signals are opened in order of name, those of the next signals.

use std::collections::{BTreeMap, HashSet};

use crate::requests::Version;

/// Size of these objects, number per signal, and total bytes at a time.
const MAX_OBJECT_BYTES: u64 = 128 << 10;
const MAX_OBJECTS: usize = 48;
const MAX_BYTES: u64 = 4 << 20;
const SIGNALS_AHEAD: usize = 8;
/// Signals skipped at most between two opened in order.
const MAX_SKIPPED: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct SignalReadAhead {
    read: HashSet<String>,
    last: String,
}

impl SignalReadAhead {
    pub(crate) fn folders<V>(&mut self, objects: &BTreeMap<String, V>, name: &str) -> Vec<String> {
        let Some(folder) = signal_folder(objects, name) else {
            return Vec::new();
        };
        if self.last == folder {
            return Vec::new();
        }
        if folder < self.last.as_str() {
            // A new traversal: earlier reads may be evicted.
            self.read.clear();
        }
        let mut following = signals_after(objects, &self.last).take(MAX_SKIPPED + 1);
        let is_in_turn = !self.last.is_empty() && following.any(|next| next == folder);
        folder.clone_into(&mut self.last);
        let ahead = if is_in_turn { SIGNALS_AHEAD } else { 0 };
        let ahead = signals_after(objects, folder).take(ahead);
        let folders = std::iter::once(folder).chain(ahead);
        let new = folders.filter(|folder| self.read.insert((*folder).to_owned()));
        new.map(str::to_owned).collect()
    }
}

/// At most [`MAX_BYTES`] in total. `object`: name and version of a file's object; None to skip it.
pub(crate) fn small_objects<V>(
    objects: &BTreeMap<String, V>,
    folders: &[String],
    object: impl Fn(&str, &V) -> Option<(String, Version)>,
) -> Vec<(String, Version)> {
    let mut bytes = 0;
    let small = folders.iter().flat_map(|folder| {
        let begin = format!("{folder}/");
        let below = objects.range(begin.clone()..);
        let below = below.take_while(move |(name, _)| name.starts_with(&begin));
        let found = below.filter_map(|(name, one)| object(name, one));
        let small = found.filter(|(_, version)| version.size <= MAX_OBJECT_BYTES);
        small.take(MAX_OBJECTS)
    });
    let fits = |(_, version): &(String, Version)| {
        bytes += version.size;
        bytes <= MAX_BYTES
    };
    small.take_while(fits).collect()
}

fn signals_after<'a, V>(
    objects: &'a BTreeMap<String, V>,
    folder: &str,
) -> impl Iterator<Item = &'a str> + use<'a, V> {
    // '0' follows '/'.
    let mut from = format!("{folder}0");
    std::iter::from_fn(move || {
        loop {
            let (name, _) = objects.range(from.clone()..).next()?;
            match signal_folder(objects, name) {
                Some(found) => {
                    from = format!("{found}0");
                    return Some(found);
                }
                None => from = format!("{name}\0"),
            }
        }
    })
}

/// The nearest folder above an object with an array of samples.
fn signal_folder<'a, V>(objects: &BTreeMap<String, V>, name: &'a str) -> Option<&'a str> {
    let mut folder = name;
    while let Some((above, _)) = folder.rsplit_once('/') {
        if objects.contains_key(&format!("{above}/data/zarr.json")) {
            return Some(above);
        }
        folder = above;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(signals: usize) -> BTreeMap<String, ()> {
        let of_signal = |nth: usize| {
            let files = ["zarr.json", "data/zarr.json", "data/.signal", "data/c/0"];
            files.map(|file| (format!("site{}/ch{nth:02}/{file}", nth / 4), ()))
        };
        let groups = (0..signals.div_ceil(4)).map(|group| (format!("site{group}/zarr.json"), ()));
        (0..signals)
            .flat_map(of_signal)
            .chain(groups)
            .chain([(".isochrony/MANIFEST".into(), ()), ("zarr.json".into(), ())])
            .collect()
    }

    fn opened(ahead: &mut SignalReadAhead, objects: &BTreeMap<String, ()>, nth: usize) -> usize {
        let name = format!("site{}/ch{nth:02}/data/.signal", nth / 4);
        ahead.folders(objects, &name).len()
    }

    #[test]
    fn signals_in_order_are_read_ahead_across_groups() {
        let (objects, mut ahead) = (store(40), SignalReadAhead::default());
        assert_eq!(opened(&mut ahead, &objects, 3), 1);
        assert_eq!(opened(&mut ahead, &objects, 3), 0);
        assert_eq!(opened(&mut ahead, &objects, 4), 1 + SIGNALS_AHEAD);
        assert_eq!(opened(&mut ahead, &objects, 5), 1);
        assert_eq!(opened(&mut ahead, &objects, 8), 3);
        let left: usize = (9..40).map(|nth| opened(&mut ahead, &objects, nth)).sum();
        assert_eq!(left, 40 - 17);
    }

    #[test]
    fn another_traversal_reads_ahead_again() {
        let (objects, mut ahead) = (store(40), SignalReadAhead::default());
        for _ in 0..2 {
            let all: usize = (0..40).map(|nth| opened(&mut ahead, &objects, nth)).sum();
            assert_eq!(all, 40);
        }
    }

    #[test]
    fn signals_out_of_order_are_not_read_ahead() {
        let (objects, mut ahead) = (store(40), SignalReadAhead::default());
        for nth in [7, 2, 30, 10, 20] {
            assert_eq!(opened(&mut ahead, &objects, nth), 1);
        }
        assert!(ahead.folders(&objects, ".isochrony/MANIFEST").is_empty());
        assert!(ahead.folders(&objects, "site1/zarr.json").is_empty());
    }

    #[test]
    fn large_objects_and_excess_objects_are_skipped() {
        let objects = store(40);
        let folders: Vec<String> = signals_after(&objects, "").map(str::to_owned).collect();
        assert_eq!(folders.len(), 40);
        let sized = |size| {
            let object = |name: &str, (): &()| Some((name.into(), Version::new(size, None, 0)));
            small_objects(&objects, &folders, object).len()
        };
        assert_eq!(sized(100), 160);
        assert_eq!(sized(MAX_OBJECT_BYTES), 32);
        assert_eq!(sized(MAX_OBJECT_BYTES + 1), 0);
    }
}
