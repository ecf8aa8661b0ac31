//! Parses lists of CPUs as Linux writes them: `0-3,8,10-11`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Larger numbers are ignored, which bounds memory.
pub(super) const MAX_CPUS: usize = 4096;
/// Longer files are refused.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// None if malformed or a number is [`MAX_CPUS`] or more. May be empty.
pub(super) fn parse_cpu_list(text: &str) -> Option<BTreeSet<usize>> {
    let mut cpus = BTreeSet::new();
    let text = text.trim();
    if text.is_empty() {
        return Some(cpus);
    }
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (parse_number(first)?, parse_number(last)?),
            None => (parse_number(part)?, parse_number(part)?),
        };
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Digits only: `parse` would accept a sign.
pub(super) fn parse_number(text: &str) -> Option<usize> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => None,
    }
}

/// None if the file is missing, not regular, large, or no text.
pub(super) fn read_small(path: &Path) -> Option<String> {
    // Opening a pipe would block.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let mut file = File::open(path).ok()?.take(MAX_FILE_BYTES + 1);
    let read = file.read_to_string(&mut text).ok()?;
    (read as u64 <= MAX_FILE_BYTES).then_some(text)
}

pub(super) fn read_cpu_list(path: &Path) -> Option<BTreeSet<usize>> {
    parse_cpu_list(&read_small(path)?)
}

pub(super) fn read_number(path: &Path) -> Option<usize> {
    parse_number(read_small(path)?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_linux_writes() {
        let list = |text: &str| parse_cpu_list(text).map(Vec::from_iter);
        assert_eq!(list("0\n"), Some(vec![0]));
        assert_eq!(list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(list("\n"), Some(vec![]));
        assert_eq!(list("4095"), Some(vec![4095]));
    }

    #[test]
    fn refuses_malformed_lists() {
        for text in [
            "a",
            "1,",
            ",1",
            "1-",
            "-1",
            "3-1",
            "+1",
            "1 2",
            "1--2",
            "0-2-4",
            "0x3",
            "4096",
            "0-4096",
            "0-99999999999999999999",
            "1-2,\u{662}",
        ] {
            assert_eq!(parse_cpu_list(text), None, "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_set_survives_printing_and_parsing(cpus in prop::collection::btree_set(0..MAX_CPUS, 0..60)) {
            let text: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            prop_assert_eq!(parse_cpu_list(&text.join(",")), Some(cpus));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[0-9,\\- x\n]{0,40}") {
            if let Some(cpus) = parse_cpu_list(&text) {
                prop_assert!(cpus.len() <= MAX_CPUS);
            }
        }
    }
}
