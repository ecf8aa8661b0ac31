//! nbuf/count: matches of a literal in a text, beside other programs.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use isochrony_bytes::Outcome;
use isochrony_nbuf::{Input, Order};

use crate::measure::{Results, ratio, turns};
use crate::streams::{through, write};

type Failure = Box<dyn std::error::Error>;

const LINE: &str =
    "2010-03-01T00:00:00.000000Z station 10 pressure 41.53 m of water, pump 2 on, valve 7 shut\n";
const RARE: &str = "burst";

/// Writes log lines with a rare word in one of 5,000; returns their number.
fn text(path: &Path, bytes: usize) -> Result<u64, Failure> {
    let mut block = String::new();
    let mut found = 0;
    while block.len() < bytes.min(16 << 20) {
        for _ in 0..4_999 {
            block += LINE;
        }
        block += &LINE.replace("pump 2 on", RARE);
        found += 1;
    }
    let copies = (bytes / block.len()).max(1);
    write(path, block.repeat(copies).as_bytes())?;
    Ok(found * copies as u64)
}

/// Counts a rare literal and a frequent one.
pub fn run(path: &Path, bytes: usize, rounds: usize, results: &mut Results) -> Result<(), Failure> {
    let rare = text(path, bytes)?;
    let lines = rare * 5_000;
    // In the page cache from here on.
    File::open(path)?.read_to_end(&mut Vec::new())?;
    let len = path.metadata()?.len();
    for (word, expected) in [(RARE, rare), ("station", lines)] {
        let request = format!("count:{word}");
        let programs = programs(path, word);
        let [ours, rg, grep, parallel] = turns(
            rounds,
            [
                &mut || {
                    let input = Input::open(path).expect("a file");
                    let Outcome::Matches(found) = through(&request, Order::None, 1024, input)
                    else {
                        panic!("these are no matches")
                    };
                    assert_eq!(found.total, expected, "{word}");
                },
                &mut || programs[0].run(expected),
                &mut || programs[1].run(expected),
                &mut || programs[2].run(expected),
            ],
        );
        for (program, times) in programs.iter().zip([rg, grep, parallel]) {
            let goal = (program.name == "ripgrep").then(|| (">= 0.8", ratio(&ours, &times) >= 0.8));
            if program.is_here {
                let name = format!("nbuf/count/{word}");
                results.compare(&name, &ours, program.name, &times, Some(len), goal);
            }
        }
    }
    Ok(())
}

struct Program {
    name: &'static str,
    words: Vec<String>,
    is_here: bool,
}

fn programs(path: &Path, word: &str) -> [Program; 3] {
    let path = path.display();
    let commands = [
        (
            "ripgrep",
            format!("rg --no-config --count-matches --fixed-strings {word} {path}"),
        ),
        (
            "GNU grep",
            format!("grep --count --fixed-strings {word} {path}"),
        ),
        (
            "GNU parallel with grep",
            format!(
                "parallel --will-cite --pipepart --arg-file {path} --block -1 grep --count --fixed-strings {word}"
            ),
        ),
    ];
    commands.map(|(name, command)| {
        let words: Vec<String> = command.split(' ').map(String::from).collect();
        let is_here = Command::new(&words[0]).arg("--version").output().is_ok();
        if !is_here {
            println!("nbuf/count: {name} is not here, so nothing is compared with it");
        }
        Program {
            name,
            words,
            is_here,
        }
    })
}

impl Program {
    fn run(&self, expected: u64) {
        if !self.is_here {
            return;
        }
        let mut command = Command::new(&self.words[0]);
        let command = command.args(&self.words[1..]).env("LC_ALL", "C");
        let output = command.output().expect("it ran before");
        let said = String::from_utf8_lossy(&output.stdout);
        let found: u64 = said.lines().map(|count| count.parse().unwrap_or(0)).sum();
        assert_eq!(found, expected, "{}: {said}", self.name);
    }
}
