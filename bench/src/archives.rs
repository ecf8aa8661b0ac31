//! The WaveScope thesis's applications as bare loops over a store's files, for `bench/archives.py` (through
//! [`crate::serve`]).
//!
//! Windows have 64 pages, as in the thesis: 131,072 samples of 16 bits.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use realfft::num_complex::Complex;
use realfft::{FftNum, RealFftPlanner};

use crate::strategies::{PAYLOAD, shards};

type Failure = Box<dyn std::error::Error>;

const WINDOW: usize = 131_072;
const BYTES: u64 = 2 * WINDOW as u64;

/// Runs `LOOP BYTES ARRAY...`: `forward`, `backward`, `fft`, `fft64` or `adder`, over the first bytes of arrays of
/// 16-bit samples. Returns seconds and a number that the result determines.
pub fn run(asked: &str) -> Result<(f64, i64), Failure> {
    let start = Instant::now();
    let mut words = asked.split(' ');
    let (Some(name), Some(bytes)) = (words.next(), words.next()) else {
        return Err("bare LOOP BYTES ARRAY...".into());
    };
    let bytes: u64 = bytes.parse()?;
    let signals: Vec<Windows> = words
        .map(|array| Windows::open(Path::new(array), bytes))
        .collect::<Result<_, _>>()?;
    let found = match (name, &signals[..]) {
        ("forward", [one]) => one.summarize(0..one.count())?,
        ("backward", [one]) => one.summarize((0..one.count()).rev())?,
        ("fft", [one]) => one.spectra::<f32>()?,
        ("fft64", [one]) => one.spectra::<f64>()?,
        ("adder", [a, b]) => {
            let sums = add(a, b)?;
            let seconds = start.elapsed().as_secs_f64();
            return Ok((seconds, strongest_of_all(&sums)?));
        }
        _ => return Err(format!("bare {asked}: no such loop over so many arrays").into()),
    };
    Ok((start.elapsed().as_secs_f64(), found))
}

struct Windows {
    folder: PathBuf,
    files: Vec<(File, u64)>,
}

impl Windows {
    fn open(array: &Path, bytes: u64) -> Result<Self, Failure> {
        let open = |(path, len): (PathBuf, u64)| -> Result<(File, u64), Failure> {
            if len % BYTES != 0 {
                return Err(format!("{}: {len} bytes are no whole windows", path.display()).into());
            }
            Ok((File::open(path)?, len / BYTES))
        };
        let files = shards(array, bytes)?.into_iter().map(open);
        let files = files.collect::<Result<_, _>>()?;
        let folder = array.parent().ok_or("an array lies in a signal")?.into();
        Ok(Self { folder, files })
    }

    fn count(&self) -> u64 {
        self.files.iter().map(|(_, windows)| windows).sum()
    }

    fn read(&self, mut window: u64, into: &mut [i16]) -> Result<(), Failure> {
        for (file, windows) in &self.files {
            if window < *windows {
                // SAFETY: any bytes are samples, and the slice has twice as many.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<u8>(), into.len() * 2)
                };
                return Ok(file.read_exact_at(bytes, PAYLOAD + window * BYTES)?);
            }
            window -= windows;
        }
        Err("no such window".into())
    }

    /// The sum of minima, maxima and sums.
    fn summarize(&self, windows: impl Iterator<Item = u64>) -> Result<i64, Failure> {
        let mut samples = vec![0; WINDOW];
        let mut found = 0;
        for window in windows {
            self.read(window, &mut samples)?;
            let (low, high, sum) = summary(&samples);
            found += i64::from(low) + i64::from(high) + sum;
        }
        Ok(found)
    }

    /// Sum of the strongest frequency of each window.
    fn spectra<T: FftNum + PartialOrd + From<i16>>(&self) -> Result<i64, Failure> {
        let mut transform = Transform::<T>::new();
        let mut found = 0;
        for window in 0..self.count() {
            transform.of(self, window)?;
            found += strongest(&transform.spectrum);
        }
        Ok(found)
    }
}

fn summary(samples: &[i16]) -> (i16, i16, i64) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { summary_avx2(samples) };
    }
    summary_plain(samples)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn summary_avx2(samples: &[i16]) -> (i16, i16, i64) {
    summary_plain(samples)
}

#[inline(always)]
fn summary_plain(samples: &[i16]) -> (i16, i16, i64) {
    let (mut low, mut high, mut sum) = (i16::MAX, i16::MIN, 0);
    // Sums of 32,768 samples fit 32 bits, so the compiler uses vectors.
    for part in samples.chunks(32_768) {
        let mut total = 0_i32;
        for &sample in part {
            low = low.min(sample);
            high = high.max(sample);
            total += i32::from(sample);
        }
        sum += i64::from(total);
    }
    (low, high, sum)
}

fn strongest<T: FftNum + PartialOrd>(spectrum: &[Complex<T>]) -> i64 {
    let powers = spectrum.iter().map(Complex::norm_sqr).enumerate().skip(1);
    let (place, _) = powers.fold((0, -T::one()), |best, (place, power)| {
        if power > best.1 { (place, power) } else { best }
    });
    place as i64
}

struct Transform<T> {
    plan: std::sync::Arc<dyn realfft::RealToComplex<T>>,
    samples: Vec<i16>,
    row: Vec<T>,
    scratch: Vec<Complex<T>>,
    spectrum: Vec<Complex<T>>,
}

impl<T: FftNum + From<i16>> Transform<T> {
    fn new() -> Self {
        let plan = RealFftPlanner::new().plan_fft_forward(WINDOW);
        Self {
            samples: vec![0; WINDOW],
            row: plan.make_input_vec(),
            scratch: plan.make_scratch_vec(),
            spectrum: plan.make_output_vec(),
            plan,
        }
    }

    fn of(&mut self, signal: &Windows, window: u64) -> Result<(), Failure> {
        signal.read(window, &mut self.samples)?;
        for (value, &sample) in self.row.iter_mut().zip(&self.samples) {
            *value = T::from(sample);
        }
        let (plan, scratch) = (&self.plan, &mut self.scratch);
        Ok(plan.process_with_scratch(&mut self.row, &mut self.spectrum, scratch)?)
    }
}

/// Writes the sums of two signals' spectra, durably, to a file beside them.
fn add(a: &Windows, b: &Windows) -> Result<File, Failure> {
    let (mut one, mut other) = (Transform::<f32>::new(), Transform::<f32>::new());
    let mut file = tempfile::tempfile_in(&a.folder)?;
    for window in 0..a.count().min(b.count()) {
        one.of(a, window)?;
        other.of(b, window)?;
        for (value, more) in one.spectrum.iter_mut().zip(&other.spectrum) {
            *value += more;
        }
        file.write_all(bytes_of(&mut one.spectrum))?;
    }
    file.sync_data()?;
    Ok(file)
}

fn strongest_of_all(file: &File) -> Result<i64, Failure> {
    let mut spectrum = Transform::<f32>::new().spectrum;
    let bytes = size_of_val(&spectrum[..]) as u64;
    let mut found = 0;
    for window in 0..file.metadata()?.len() / bytes {
        file.read_exact_at(bytes_of(&mut spectrum), window * bytes)?;
        found += strongest(&spectrum);
    }
    Ok(found)
}

fn bytes_of(spectrum: &mut [Complex<f32>]) -> &mut [u8] {
    // SAFETY: two floats without padding may have any bytes; the slice has eight for each.
    unsafe { std::slice::from_raw_parts_mut(spectrum.as_mut_ptr().cast(), size_of_val(spectrum)) }
}
