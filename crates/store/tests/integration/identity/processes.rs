//! A writer that overwrites, seals, unseals, renames and changes signals as fast as possible, and readers in other
//! processes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use isochrony_store::media::sim::Dice;
use isochrony_store::{Mode, Store, StoreError};

use super::{made, options, read, samples};

const NAME: &str = "identity::processes::readers_beside_a_busy_writer_read_whole_samples_only";
const ROLE: &str = "ISOCHRONY_IDENTITY_READER";
const COUNT: usize = 2000;
const NAMES: [&str; 3] = ["a", "b/c", "d"];

/// Reads twice: all samples must be of one version.
fn look(store: &Store, name: &str) -> Result<(), StoreError> {
    let signal = store.signal(name)?;
    let expected = samples(made(&signal), COUNT);
    let found = read(&signal)?;
    assert!(
        found == expected,
        "{name} is said to be of making {}, and is of making {}",
        made(&signal),
        found[0] / 1000
    );
    std::thread::sleep(Duration::from_millis(2));
    assert!(
        read(&signal)? == expected,
        "{name} changed under its handle"
    );
    Ok(())
}

fn follow(root: &Path) -> (u64, u64) {
    let store = Store::open(root, Mode::Read).unwrap();
    let (mut whole, mut told) = (0, 0);
    let began = Instant::now();
    while !root.join("end").exists() {
        assert!(began.elapsed() < Duration::from_secs(60));
        store.refresh().unwrap();
        for name in NAMES {
            match look(&store, name) {
                Ok(()) => whole += 1,
                Err(error) => {
                    let told_so = matches!(
                        error.code(),
                        "signal_overwritten"
                            | "signal_removed"
                            | "samples_replaced"
                            | "no_such_signal"
                    );
                    assert!(told_so, "{name}: {error}");
                    told += 1;
                }
            }
        }
    }
    (whole, told)
}

fn one_change(store: &Store, dice: &mut Dice, making: i16) -> Result<(), StoreError> {
    let name = NAMES[dice.below(3) as usize];
    match dice.below(10) {
        0..5 => {
            let writer = store.create(name, &options(making))?;
            writer.append(&samples(making, COUNT))?;
            store.commit(dice.chance(50))?;
        }
        5..8 => {
            let codec = ["zstd:1", "zstd:2"][dice.below(2) as usize].parse()?;
            store.seal(name, codec)?;
            if dice.chance(70) {
                store.unseal(name)?;
            }
        }
        8 => {
            store.rename(name, "aside")?;
            store.commit(true)?;
            store.rename("aside", name)?;
            store.commit(true)?;
        }
        _ => store.checkpoint()?,
    }
    Ok(())
}

#[test]
fn readers_beside_a_busy_writer_read_whole_samples_only() {
    if let Ok(root) = std::env::var(ROLE) {
        let (whole, told) = follow(Path::new(&root));
        println!("read {whole} and was told {told}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.iso");
    let store = Store::open(&root, Mode::Create).unwrap();
    for name in NAMES {
        store
            .create(name, &options(1))
            .unwrap()
            .append(&samples(1, COUNT))
            .unwrap();
    }
    store.commit(true).unwrap();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--nocapture"])
                .env(ROLE, &root)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut dice = Dice(7);
    let began = Instant::now();
    let mut making = 1;
    while began.elapsed() < Duration::from_secs(3) {
        making = making % 30 + 1;
        one_change(&store, &mut dice, making).unwrap();
    }
    std::fs::write(root.join("end"), "").unwrap();
    for reader in readers {
        let output = reader.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}{error}");
        let numbers = said.lines().find_map(|line| {
            let words = line.strip_prefix("read ")?.split(' ');
            Some(words.filter_map(|word| word.parse().ok()).collect())
        });
        let numbers: Vec<u64> = numbers.expect("the reader says what it read");
        let [whole, told] = numbers[..] else {
            panic!("{said}")
        };
        // One read in a hundred meets a change; one in four allows for a busy machine.
        assert!(whole > 10 && whole > 4 * told, "{said}");
        println!("{said}");
    }
}
