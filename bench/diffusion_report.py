"""Text of the section on data diffusion in docs/benchmarks.md."""

from __future__ import annotations

HEAD = """## Data diffusion

`make -C bench diffusion_section` measures this by itself and writes this section: the micro-benchmarks of Raicu, Zhao,
Foster and Szalay (DADC 2008; figures 3 to 5), localities as in their figures 10 to 13, and the simulator of
`crates/placement` beside these runs. Workers are processes of one thread, each with a cache in a folder of its own;
storage is one HTTP server that limits its rate for all and counts bytes. Each result is asserted equal to that of
`client.map` of the same function, which downloads its file. Times have everything from the call of `map` to its end.
Medians (quartiles) of three rounds where a spread is given, else of one. "Cores busy" is the time of all processes,
storage included, over the time of the run: 2.0 is all that this machine has.
"""

FINDINGS = """**What the tables show**, as measured last, with the extension as tests build it (`--profile tested`):

- **Localities**: all goals are met with 2, 4 and 8 workers. Storage reads each file once, hits are the ideal (the
  paper's: within 90 % of it), and from a locality of 10 on `client.map` takes 5 to 19 times as long. Up to a locality
  of 5 storage is the limit: at its 51.7 MB/s the files take 8.1, 4.1 and 2.4 s of the 8.5, 4.4 and 2.6 to 2.8 s, with
  at most 1.2 of 2 cores busy. At 30 the cores are: 1.7 to 1.9 are busy, and 4 or 8 workers take longer (2.3 and 2.6
  s) than 2 (1.4 s). They share the cores with each other, client, scheduler and storage, so these rows do not say how
  8 hosts of their own would scale. The row of 8 workers at a locality of 10 varies from 2.6 to 3.9 s and was probably
  disturbed by other processes.
- **Policies**: placing by data takes half the time of first-available, which reads storage 1.95 times for each file;
  first-cache-available gets nearly each file from storage once and from a peer once. Evictions make no difference to
  these runs: within the window, tasks of one file follow each other.
- **File sizes, 0 %**: the goal of 0.97 of plain reads is **missed** in most rows. With 2 workers, files of 100 MB and
  1 GB reach 0.91 and 0.92. A pass of 300 MB takes storage 1.2 s, and a run's beginning and end 0.04 to 0.14 s
  (below), which `client.map` does not have; passes of 8.5 s, those of locality 1, reach 0.98 to 1.00. With writes,
  large files reach 0.72 to 0.91: an output is stored in the cache, too, and its version is asked for, neither of
  which plain writes do.
- **File sizes, 100 %**: the goal of 0.95 of local rates is **missed** in all rows (the paper: 0.94 and 0.96 with
  files of 100 MB). Files of 1 GB reach 0.83, with writes 0.56. A task of the smallest files costs 2 ms of a core,
  with writes 4 ms; a bare reader opens 5,000 files a second and more. At 100 MB 8 % of the tasks of 2 workers went
  to one that had to get the file from a peer.
- **Marked rows (†)** were measured in one round while other processes used 0.3 to 1.4 of the 2 cores. Rows that are
  missing (4 and 8 workers with the smallest and largest files) were not measured. These tables have to be measured
  again on an idle machine before they say more than orders of magnitude.
- **Simulator**: bytes by origin agree within 2 % of what tasks read, for every policy. Makespans agree within 10 % in
  15 of 19 runs: all of those where storage is the limit, and those of 4 and 8 workers but the disturbed one. They do
  not at localities 10 and 30 of 2 workers (+15 %, +53 %), nor for first-cache-available (-16 %). The first two depend
  on how many tasks a worker has under way, since that decides how early it fetches its next file. The table has 8:
  the rule for batches of 20 ms, with tasks of 4.3 ms, which were timed one at a time. With tasks of 3.6 ms, 10 under
  way give 1.72 s and 24 give 1.29 s for the 1.36 s at locality 30, and 1.81 and 1.73 s for the 1.77 s at locality 10.
  How many there were was not recorded; the benchmark reads it from the queue since, and takes the CPU time of tasks.
  For first-cache-available neither brings the model (2.62 to 3.04 s) to the 3.33 s; a worker fetches the files of a
  batch one after another and begins when all are there, which simulated slots do not, and which may be the reason.
- The column "paper's workers" has one task at a time, passes nothing on, and under first-available caches nothing:
  629 MB from storage instead of 245, and makespans up to 161 % too long.
"""
