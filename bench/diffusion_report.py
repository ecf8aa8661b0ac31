"""What the section on data diffusion says beside its tables."""

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

FINDINGS = ""
