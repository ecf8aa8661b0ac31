//! Memory for what is measured, where a host takes back what is free.
//!
//! A virtual machine may give its host whatever memory is free and wait for each page that it takes anew. On the machine
//! of docs/benchmarks.md that is so a second after memory became free: 1 GiB is touched in 0.2 to 0.4 s if it was given
//! back less than that ago, and in 5 s otherwise, by one core as by two. What fills the page cache for longer would measure
//! its host. So memory is taken beforehand, and given to the system little by little while a run takes it; for all that is
//! compared alike.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use memmap2::{Advice, MmapMut};

const CHUNK: u64 = 32 << 20;

/// Memory that is free for a run to take; as much is taken in some tens of milliseconds at most.
const AHEAD: u64 = 128 << 20;

/// How often the system is asked what is free, which takes microseconds.
const EVERY: Duration = Duration::from_millis(4);

/// Gives memory to the system as long as it lives.
pub struct Supply {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Supply {
    /// Takes so many bytes, or half of what is free, and begins to give them back.
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
    while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        give();
    }
}

/// Gives back until enough is free again.
fn give(held: &mut Vec<MmapMut>, before: u64) {
    while free() < before + AHEAD && held.pop().is_some() {}
}

/// Memory of which each page is there, in large ones if the system has such.
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

/// For another process: a line with a number of bytes begins and is answered, the next line ends it.
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
