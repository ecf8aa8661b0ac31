//! Scan Summarize as bare loops over a store's files.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{Failure, PAYLOAD, Row};

type Rows = Vec<Row<i16>>;

/// Its name; files, samples of a window.
pub type Bare = (
    &'static str,
    fn(&[(PathBuf, u64)], usize) -> Result<Rows, Failure>,
);

pub const BARE: [Bare; 7] = [
    ("pread of 512 KiB", |files, window| {
        copied(files, window, 512 << 10, 0)
    }),
    ("mmap", |files, window| mapped(files, window, Ahead::Kernel)),
    ("mmap with read-ahead", |files, window| {
        mapped(files, window, Ahead::Asked)
    }),
    ("mmap, populated", |files, window| {
        mapped(files, window, Ahead::Populated)
    }),
    ("mmap of what a thread reads ahead", |files, window| {
        let mut found = Err("the scan ended early".into());
        std::thread::scope(|scope| {
            scope.spawn(|| _ = read_ahead(files));
            found = mapped(files, window, Ahead::Kernel);
        });
        found
    }),
    ("pread of 4 MiB past the page cache", |files, window| {
        copied(files, window, 4 << 20, O_DIRECT)
    }),
    ("two threads' preads of 2 MiB past the page cache", ring),
];

#[derive(Clone, Copy, PartialEq)]
enum Ahead {
    Kernel,
    Asked,
    Populated,
}

#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const O_DIRECT: i32 = 0o200_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
const O_DIRECT: i32 = 0o40_000;

fn copied(
    files: &[(PathBuf, u64)],
    window: usize,
    piece: usize,
    flags: i32,
) -> Result<Rows, Failure> {
    let mut windows = Windows::of(window);
    let mut memory = vec![0i16; (piece + 4096) / 2];
    let skip = memory.as_ptr().addr().wrapping_neg() % 4096 / 2;
    for (path, len) in files {
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let mut at = 0;
        while at < *len {
            let samples = &mut memory[skip..][..(piece as u64).min(len - at) as usize / 2];
            // SAFETY: any bytes are samples, and the slice has twice as many.
            let bytes = unsafe {
                std::slice::from_raw_parts_mut(samples.as_mut_ptr().cast::<u8>(), samples.len() * 2)
            };
            file.read_exact_at(bytes, PAYLOAD + at)?;
            windows.push(samples);
            at += samples.len() as u64 * 2;
        }
    }
    Ok(windows.table)
}

fn read_ahead(files: &[(PathBuf, u64)]) -> Result<(), Failure> {
    for (path, len) in files {
        let file = File::open(path)?;
        for at in (0..*len).step_by(1 << 20) {
            let len = (len - at).min(1 << 20).try_into().ok();
            rustix::fs::fadvise(&file, PAYLOAD + at, len, rustix::fs::Advice::WillNeed)?;
        }
    }
    Ok(())
}

/// Two threads read every other piece each, with two buffers each.
fn ring(files: &[(PathBuf, u64)], window: usize) -> Result<Rows, Failure> {
    const PIECE: u64 = 2 << 20;
    type Piece = (Vec<i16>, usize);
    let aligned = |memory: &[i16]| memory.as_ptr().addr().wrapping_neg() % 4096 / 2;
    let pieces: Vec<(&PathBuf, u64, usize)> = (files.iter())
        .flat_map(|(path, len)| {
            let starts = (0..*len).step_by(PIECE as usize);
            starts.map(move |at| (path, at, (len - at).min(PIECE) as usize / 2))
        })
        .collect();
    let read = |k: usize, full: SyncSender<Piece>, free: Receiver<Vec<i16>>| {
        for &(path, at, len) in pieces.iter().skip(k).step_by(2) {
            let file = File::options()
                .read(true)
                .custom_flags(O_DIRECT)
                .open(path)?;
            let Ok(mut memory) = free.recv() else {
                return Ok(());
            };
            let begin = aligned(&memory);
            let samples = &mut memory[begin..][..len];
            // SAFETY: any bytes are samples, and the slice has twice as many.
            let bytes = unsafe {
                std::slice::from_raw_parts_mut(samples.as_mut_ptr().cast::<u8>(), samples.len() * 2)
            };
            file.read_exact_at(bytes, PAYLOAD + at)?;
            if full.send((memory, len)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|k| {
                let ((full, filled), (free, freed)) = (sync_channel(2), sync_channel(2));
                for _ in 0..2 {
                    // There is room for both.
                    let _ = free.send(vec![0i16; (PIECE as usize + 4096) / 2]);
                }
                let read = &read;
                (
                    filled,
                    free,
                    scope.spawn(move || -> std::io::Result<()> { read(k, full, freed) }),
                )
            })
            .collect();
        let mut windows = Windows::of(window);
        for k in 0..pieces.len() {
            let (filled, free, _) = &threads[k % 2];
            let Ok((memory, len)) = filled.recv() else {
                break;
            };
            windows.push(&memory[aligned(&memory)..][..len]);
            let _ = free.send(memory);
        }
        for (filled, free, thread) in threads {
            drop((filled, free));
            thread.join().map_err(|_| "a reading thread panicked")??;
        }
        Ok(windows.table)
    })
}

fn mapped(files: &[(PathBuf, u64)], window: usize, ahead: Ahead) -> Result<Rows, Failure> {
    const PIECE: usize = 4 << 20;
    let mut windows = Windows::of(window);
    for (path, len) in files {
        let file = File::open(path)?;
        let mut options = memmap2::MmapOptions::new();
        if ahead == Ahead::Populated {
            options.populate();
        }
        // SAFETY: nobody changes the file during a measurement.
        let map = unsafe { options.map(&file)? };
        let payload = &map[PAYLOAD as usize..][..*len as usize];
        // SAFETY: the mapping begins at a page, and the payload at a multiple of 65,536: aligned for samples.
        let samples = unsafe {
            std::slice::from_raw_parts(payload.as_ptr().cast::<i16>(), payload.len() / 2)
        };
        let mut asked = 0;
        for (k, part) in samples.chunks(PIECE / 2).enumerate() {
            let until = ((k + 2) * PIECE).min(payload.len());
            while ahead == Ahead::Asked && asked < until {
                let len = (until - asked).min(1 << 20) as u64;
                let from = PAYLOAD + asked as u64;
                rustix::fs::fadvise(
                    &file,
                    from,
                    len.try_into().ok(),
                    rustix::fs::Advice::WillNeed,
                )?;
                asked += len as usize;
            }
            windows.push(part);
        }
    }
    Ok(windows.table)
}

struct Windows {
    window: usize,
    table: Rows,
    min: i16,
    max: i16,
    sum: i64,
    count: usize,
}

impl Windows {
    fn of(window: usize) -> Self {
        Self {
            window,
            table: Vec::new(),
            min: i16::MAX,
            max: i16::MIN,
            sum: 0,
            count: 0,
        }
    }

    fn push(&mut self, samples: &[i16]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.push_avx2(samples) };
        }
        self.push_plain(samples);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn push_avx2(&mut self, samples: &[i16]) {
        self.push_plain(samples);
    }

    #[inline(always)]
    fn push_plain(&mut self, mut samples: &[i16]) {
        while !samples.is_empty() {
            let (part, rest) = samples.split_at(samples.len().min(self.window - self.count));
            samples = rest;
            // Sums of 32,768 samples fit 32 bits, so the compiler uses vectors.
            for part in part.chunks(32_768) {
                let (mut low, mut high, mut total) = (i16::MAX, i16::MIN, 0i32);
                for &x in part {
                    low = low.min(x);
                    high = high.max(x);
                    total += i32::from(x);
                }
                self.min = self.min.min(low);
                self.max = self.max.max(high);
                self.sum += i64::from(total);
            }
            self.count += part.len();
            if self.count == self.window {
                let mean = self.sum as f64 / self.window as f64;
                self.table.push((self.min, self.max, mean));
                let table = std::mem::take(&mut self.table);
                *self = Self {
                    table,
                    ..Self::of(self.window)
                };
            }
        }
    }
}
