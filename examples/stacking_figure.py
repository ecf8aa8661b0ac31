"""STACKING_FIGURE: a source that comes out of the noise, the noise by the number of frames, and where the time goes."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from coadd import Stack
from stacking_profile import ALL_STEPS

SHOWN = 1, 10, 100


def draw(stacks: list[Stack], profile: dict[str, np.ndarray], out: Path) -> None:
    """Draw stacks, and milliseconds of each step of a task by format."""
    figure = plt.figure(figsize=(11, 6.5), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    brightest = max(stacks, key=lambda one: one.flux()[0] / one.flux()[1])
    history = {count: image for count, image, *_ in brightest.history}
    images = {f"{count} frame{'s' * (count > 1)}": history[count] for count in SHOWN if count in history}
    images[f"all {brightest.count} frames"] = brightest.mean()
    for axes, (title, image) in zip(above.subplots(1, len(images)), images.items(), strict=True):
        limit = 4 * np.nanstd(image)
        axes.imshow(image, origin="lower", cmap="gray", vmin=-limit / 2, vmax=limit, interpolation="nearest")
        axes.set(title=f"{title}, white: {limit:.2g}", xticks=[], yticks=[])
    flux, error = brightest.flux()
    above.suptitle(
        f"A source of flux {brightest.source.flux:.1f}, measured as {flux:.1f} ± {error:.1f}; frame by frame ± "
        f"{error * brightest.count**0.5:.0f}"
    )
    left, right = below.subplots(1, 2, width_ratios=(1, 1.3))
    for one in (one for one in stacks if one.history):
        counts, _, noise, _ = zip(*one.history, strict=True)
        left.loglog(counts, noise, "o", color="C0", markersize=3)
    counts, _, noise, single = zip(*brightest.history, strict=True)
    left.loglog(counts, single[-1] / np.sqrt(counts), "k-", linewidth=1, label=f"{single[-1]:.2f} / √N")
    left.set(xlabel="number of frames N", ylabel="noise of a pixel", title=f"Noise of {len(stacks)} stacks")
    left.set_yticks(ticks := [0.1, 0.2, 0.5, 1, 2, 5], ticks)
    left.set_xticks(ticks := [1, 10, 100, 1000], ticks)
    left.minorticks_off()
    left.set(xlim=(0.8, counts[-1] * 1.25), ylim=(noise[-1] / 1.3, noise[0] * 1.3))
    left.legend()
    begin = np.zeros(len(profile))
    for step, seconds in zip(ALL_STEPS, zip(*profile.values(), strict=True), strict=True):
        right.barh(list(profile), 1e3 * np.asarray(seconds), left=begin, label=step)
        begin += 1e3 * np.asarray(seconds)
    right.invert_yaxis()
    right.set(xlabel="ms", title="Time of a task, steps in the order of the paper's figure 7")
    right.legend(fontsize=8)
    # Without the date, so that equal results are equal files.
    figure.savefig(out, dpi=110, metadata={"Software": None})
    plt.close(figure)
