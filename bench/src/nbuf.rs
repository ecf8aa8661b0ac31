//! nbuf: benchmarks of byte streams over the same data.

use std::num::NonZero;
use std::path::Path;
use std::thread;

use crate::measure::{Results, noise};
use crate::streams::{from_disk, grid, in_memory, write};
use crate::{literals, table3};

pub fn run(
    dir: &Path,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let bytes: usize = if quick { 4 << 20 } else { 1 << 30 };
    let rounds = if quick { 1 } else { 11 };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let block: Vec<u8> = noise(1, bytes.min(64 << 20) / 2)
        .into_iter()
        .flat_map(i16::to_le_bytes)
        .collect();
    let data = block.repeat(bytes / block.len());
    let path = dir.join("samples");
    write(&path, &data)?;
    in_memory(&data, rounds, threads, results);
    from_disk(&path, &data, rounds, threads, results)?;
    literals::run(&dir.join("text"), bytes, rounds, results)?;
    table3::run(&path, &data, rounds, results)?;
    grid(&path, &data[..bytes / 8], rounds.min(3), results)
}
