//! Free memory for measurements on hosts that reclaim it.
//!
//! A virtual machine may give free memory to its host and wait for each page that it takes anew, on the machine of
//! docs/benchmarks.md after a second: touching 1 GiB then takes 5 s instead of 0.2 to 0.4 s. So memory is taken
//! beforehand, and freed little by little while a run takes it, for all contestants alike.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use memmap2::{Advice, MmapMut};

const CHUNK: u64 = 32 << 20;

/// Bytes free for a run; taken in some tens of milliseconds at most.
const FREE_MARGIN_BYTES: u64 = 128 << 20;

/// Interval of checks, which take microseconds.
const CHECK_INTERVAL: Duration = Duration::from_millis(4);

/// Frees memory while it lives.
pub struct Supply {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Supply {
    /// Takes so many bytes, or half of the free ones, and begins to free them.
    pub fn of(bytes: u64) -> Self {
        let chunks = bytes.min(free() / 2).div_ceil(CHUNK);
        let mut held: Vec<_> = (0..chunks).map_while(|_| chunk()).collect();
        let before = free();
        give(&mut held, before);
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || wait(&stopped, || give(&mut held, before)));
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn wait(stopped: &Receiver<()>, mut give: impl FnMut()) {
    while stopped.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        give();
    }
}

fn give(held: &mut Vec<MmapMut>, before: u64) {
    while free() < before + FREE_MARGIN_BYTES && held.pop().is_some() {}
}

/// Memory with all pages present, large ones if possible.
fn chunk() -> Option<MmapMut> {
    let mut memory = MmapMut::map_anon(CHUNK as usize).ok()?;
    let _ = memory.advise(Advice::HugePage);
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    Some(memory)
}

fn free() -> u64 {
    let now = rustix::system::sysinfo();
    now.freeram as u64 * u64::from(now.mem_unit)
}

/// For another process: a line with a number of bytes begins, the next line ends it.
pub fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut supply = None;
    for line in std::io::stdin().lock().lines() {
        supply = match supply.take() {
            Some(Supply { .. }) => None,
            None => Some(Supply::of(line?.parse()?)),
        };
        println!("{}", if supply.is_some() { "gives" } else { "ended" });
        std::io::stdout().flush()?;
    }
    Ok(())
}
