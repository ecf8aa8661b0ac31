"""STACKING: sources that no frame of a survey shows are seen when frames are added, on one machine or a cluster.

The application of Raicu et al., "Accelerating large-scale data exploration through data diffusion" (2008), section 5. A
task cuts a source out of a file, calibrates it and shifts it to the middle of a pixel; cutouts of a source are added.
Locality is how many tasks need the same file: 1 to 30 in table 2.

    python examples/stacking.py folder                                        in this process
    python examples/stacking.py folder --on tcp://10.0.0.5:8786 --form gzip   on workers that can read the folder
    python examples/stacking.py folder --frames 100 --locality 1.38

Stacks, as FITS files, and a figure go to the folder. It needs the extras `astro` and `plot`; workers need `astro`. A
frame that is damaged is named and left out. Sources are points: others would have to be turned as their frame is.
"""

import argparse
from pathlib import Path

from frames import SUFFIXES, write
from sky import SHAPE, catalogue
from stacking_figure import draw
from stacking_profile import profile
from stacking_tasks import stack, workload


def main() -> None:
    """Make a survey, stack it, measure, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--locality", type=float, default=4.0)
    parser.add_argument("--form", choices=list(SUFFIXES), default="RICE")
    parser.add_argument("--shape", type=int, nargs=2, default=SHAPE, help="rows and columns of a frame")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", help="address of a Dask scheduler, or local")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    shape, sources = tuple(given.shape), catalogue(given.seed, given.shape)
    frames = [write(given.folder, given.seed, number, given.form, shape) for number in range(given.frames)]
    stacks, failures = stack(sources, workload(sources, frames, given.locality), given.on)
    for number, one in enumerate(stacks):
        one.write(given.folder / f"stack_{number:03}.fits")
        flux, error = one.flux()
        print(
            f"source {number}: flux {flux:.1f} ± {error:.1f}, was {one.source.flux:.1f}; {one.count} frames, "
            f"{one.rejected} pixels rejected"
        )
    for failure in dict.fromkeys(failures):
        print(f"left out: {failure}")
    for count, _, noise, single in stacks[0].history:
        print(f"noise of {count} frames: {noise:.3f}, by 1/√N {single / count**0.5:.3f}")
    seconds = profile(sources, given.seed, shape, min(given.frames, 20))
    for form, steps in seconds.items():
        print(f"{form}: {1e3 * sum(steps):.1f} ms a task; " + ", ".join(f"{1e3 * step:.2f}" for step in steps))
    draw(stacks, seconds, given.folder / "stacking.png")


if __name__ == "__main__":
    main()
