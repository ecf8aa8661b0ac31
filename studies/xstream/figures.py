"""Draws the design space as the paper's figures and writes it as a page.

python figures.py design_space.json cache.json FIGURES PAGE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PRODUCT = "Isochrony"
#: One colour and mark each, the same in all figures.
LOOKS = {
    "CopyAlways": ("#8c8c8c", "v"),
    "RefCount-Copy": ("#b07aa1", "^"),
    "RefCount-Realloc": ("#edc948", "s"),
    "RefCount-Lazy": ("#59a14f", "D"),
    "Isochrony's segments": ("#4e79a7", "o"),
    "Isochrony's engine": ("#e15759", "o"),
    "FIFO": ("#8c8c8c", "v"),
    "FIFO-Slice": ("#b07aa1", "^"),
    "RTC": ("#edc948", "s"),
    "DF": ("#59a14f", "D"),
    PRODUCT: ("#e15759", "o"),
}
SCHEDULERS = ("FIFO", "FIFO-Slice", "RTC", "DF")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(header)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def by_name(rates: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in rates}


def spread(values: list[float]) -> str:
    return f"{values[0]:.2f} ({values[1]:.2f} to {values[2]:.2f})"


# --- figures ---------------------------------------------------------------------


def line(axes: Any, at: list[float], points: list[list[float]], name: str, label: str | None = None) -> None:
    colour, mark = LOOKS[name]
    middle, low, high = zip(*points, strict=True)
    axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(at, middle, color=colour, marker=mark, markersize=4, linewidth=1.2, label=label or name)


def legend_below(figure: Any, axes: Any, columns: int) -> None:
    """One legend for all axes, where it hides nothing."""
    figure.legend(*axes.get_legend_handles_labels(), fontsize=7, loc="lower center", ncols=columns)


#: Applications of figures 6 and 7; the paper has the first.
APPLICATIONS = {"detectaudio": "DETECTAUDIO", "pipeline": "PIPELINE"}


def draw_memory(by_application: dict[str, list[dict[str, Any]]], plt: Any) -> Any:
    figure, both = plt.subplots(1, 2, figsize=(9, 3.9))
    for axes, (key, title) in zip(both, APPLICATIONS.items(), strict=True):
        points = by_application[key]
        at = [point["kilobytes"] for point in points]
        for one in points[0]["rates"]:
            name = one["name"]
            line(axes, at, [by_name(point["rates"])[name]["msamples"] for point in points], name)
        axes.set(xscale="log", yscale="log", xlabel="batch per channel (kB)", title=title)
    both[0].set_ylabel("Msamples/s")
    figure.suptitle("Memory managers (the paper's figure 6 is DETECTAUDIO)", fontsize=10)
    legend_below(figure, both[0], 6)
    return figure


def draw_load(by_application: dict[str, list[dict[str, Any]]], plt: Any) -> Any:
    figure, rows = plt.subplots(2, 2, figsize=(8, 6.4), sharey="row")
    for both, (key, application) in zip(rows, APPLICATIONS.items(), strict=True):
        finite = [point for point in by_application[key] if point["load"] < 1e5]
        at = [point["load"] for point in finite]
        for axes, suffix, title in zip(both, ("", ", rate control"), ("no rate control", "rate control"), strict=True):
            for name in SCHEDULERS:
                line(axes, at, [by_name(point["rates"])[name + suffix]["msamples"] for point in finite], name)
            line(axes, at, [by_name(point["rates"])[PRODUCT]["msamples"] for point in finite], PRODUCT)
            axes.plot(at, at, color="black", linewidth=0.6, linestyle=":", label="offered")
            top = max(one["msamples"][2] for point in finite for one in point["rates"])
            axes.set(xlabel="offered load (Msamples/s)", ylim=(0, 1.15 * top), title=f"{application}, {title}")
        both[0].set_ylabel("Msamples/s")
    legend_below(figure, rows[0][0], 6)
    figure.suptitle("Schedulers under load (the paper's figure 7 is DETECTAUDIO)", fontsize=10)
    return figure


def draw_representations(results: dict[str, Any], plt: Any) -> Any:
    titles = {"pipeline": "PIPELINE", "detectaudio_cut": "DETECTAUDIO before sync", "detectaudio": "DETECTAUDIO"}
    figure, all_axes = plt.subplots(1, 3, figsize=(10, 3.9))
    for axes, (key, title) in zip(all_axes, titles.items(), strict=True):
        rates = by_name(results[key])
        models = list(dict.fromkeys(name.split("/")[0] for name in rates if "/" in name))
        for k, scheduler in enumerate(SCHEDULERS):
            bars(axes, [m + (k - 1.5) * 0.2 for m in range(len(models))], rates, models, scheduler)
        product = rates[PRODUCT]["msamples"][0]
        axes.axhline(product, color=LOOKS[PRODUCT][0], linewidth=1.2, label=PRODUCT)
        joined = key == "detectaudio"
        plus = {m: "\n+join" if m in ("Samples", "Windows") else "\n+sync" for m in models} if joined else {}
        labels = [model.replace("Stride", "\nStride") + plus.get(model, "") for model in models]
        axes.set_xticks(range(len(models)), labels, fontsize=7)
        axes.set(yscale="log", title=title, xlabel="what passes between operators")
    all_axes[0].set_ylabel("Msamples/s")
    legend_below(figure, all_axes[0], 5)
    figure.suptitle("Representations and schedulers (the paper's figure 8)", fontsize=10)
    return figure


def bars(axes: Any, at: list[float], rates: dict[str, Any], models: list[str], scheduler: str) -> None:
    values = [rates[f"{model}/{scheduler}"]["msamples"] for model in models]
    errors = [[v[0] - v[1] for v in values], [v[2] - v[0] for v in values]]
    colour = LOOKS[scheduler][0]
    axes.bar(at, [v[0] for v in values], 0.19, yerr=errors, color=colour, error_kw={"linewidth": 0.7}, label=scheduler)


def draw(results: dict[str, Any], folder: Path) -> None:
    """Plots as SVG without dates, so that the same figures give the same files."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "isochrony", "svg.fonttype": "none", "axes.titlesize": 9})
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "memory_managers": draw_memory(results["memory_managers"], plt),
        "load": draw_load(results["load"], plt),
        "representations": draw_representations(results["representations"], plt),
    }
    for name, figure in figures.items():
        # The legend lies below: a row of it takes a quarter of an inch.
        figure.tight_layout(rect=(0, 0.22 / figure.get_figheight(), 1, 1))
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)


# --- the section -----------------------------------------------------------------


def memory_section(by_application: dict[str, list[dict[str, Any]]]) -> str:
    text = "## Memory managers (figure 6)\n\n![memory managers](../figures/memory_managers.svg)\n\n"
    text += (
        "Recordings pushed in batches; Msamples/s of all channels. In DETECTAUDIO sync accumulates each batch.\n"
        "PIPELINE has no sync: it appends what is left of a window, and all windows of a batch, which overlap, wait\n"
        "for the wavelet.\n\n"
    )
    for key, title in APPLICATIONS.items():
        points = by_application[key]
        names = [one["name"] for one in points[0]["rates"]]
        rows = []
        for point in points:
            rates = by_name(point["rates"])
            rows.append([f"{point['kilobytes']:.0f} kB", *(number(rates[name]["msamples"][0]) for name in names)])
        first, last = by_name(points[0]["rates"]), by_name(points[-1]["rates"])
        kept = {name: last[name]["msamples"][0] / first[name]["msamples"][0] for name in names}
        text += table([f"{title}, batch per channel", *names], rows)
        text += "\nThroughput of the largest batch over that of the smallest: "
        text += ", ".join(f"{name} {share:.2f}" for name, share in kept.items()) + ".\n\n"
    text += "The paper, of DETECTAUDIO, saw the two copying managers collapse, `realloc` fall behind and the lazy one\n"
    return text + "stay flat.\n"


def load_section(by_application: dict[str, list[dict[str, Any]]]) -> str:
    names = [f"{name}{suffix}" for name in SCHEDULERS for suffix in ("", ", rate control")] + [PRODUCT]
    text = "## Schedulers under load (figure 7)\n\n![load](../figures/load.svg)\n\n"
    text += (
        "A window an item in the paper's schedulers and blocks of windows in ours; Msamples/s. The paper, of\n"
        "DETECTAUDIO, has RTC 20 % and DF 51 % above FIFO with rate control, and all fall off without it.\n\n"
    )
    for key, title in APPLICATIONS.items():
        points = by_application[key]
        rows = []
        for point in points:
            rates = by_name(point["rates"])
            load = number(point["load"]) if point["load"] < 1e5 else "all at once"
            rows.append([load, *(number(rates[name]["msamples"][0]) for name in names)])
        text += table([f"{title}, offered", *names], rows)
        waited = dict(zip(names, points[-1]["most_waiting"], strict=False))
        parts = [
            f"{name} {waited[name]:,} without rate control and {waited[f'{name}, rate control']:,} with it"
            for name in SCHEDULERS
        ]
        text += "\nMost messages that waited at once, where all is offered at once: " + "; ".join(parts) + ".\n"
        rates = by_name(points[-1]["rates"])
        base = rates["FIFO, rate control"]["msamples"][0]
        above = ", ".join(
            f"{name} {rates[name + ', rate control']['msamples'][0] / base - 1:+.0%}" for name in SCHEDULERS[1:]
        )
        text += f"\nAbove FIFO with rate control, all offered at once: {above}.\n\n"
    return text.rstrip() + "\n"


def chain_section(results: list[dict[str, Any]], cache: dict[str, Any]) -> str:
    text = "## A chain of passing operators (section III-C)\n\n"
    text += (
        "Segments of 4096 samples; both ends read every sample. *Ring queues* keep messages in the queue instead of\n"
    )
    text += "in memory of their own; *in place* is what batches could give at best where operators emit nothing.\n\n"
    for one in results:
        rows = [[rate["name"], number(rate["msamples"][0]), spread(rate["against_reference"])] for rate in one["rates"]]
        text += table([f"{one['operators']} operators", "Msamples/s", "of ours"], rows) + "\n"
    if "missing" in cache:
        return text + f"Cache misses are missing: {cache['missing']}.\n"
    rows = [
        [name, *(f"{max(0.0, cache[name][event]):.2f}" for event in ("instructions", "I1", "D1", "LL"))]
        for name in cache
        if name != "what"
    ]
    text += f"Misses per operator and segment, 1000 operators that read nothing; {cache['what']}.\n\n"
    text += table(["scheduler", "instructions", "first-level instruction", "first-level data", "last level"], rows)
    return text


def representation_section(results: dict[str, Any]) -> str:
    text = "## Representations of signals, and join against sync (figure 8)\n\n"
    text += "![representations](../figures/representations.svg)\n\nMsamples/s of all channels.\n\n"
    titles = {"pipeline": "PIPELINE", "detectaudio_cut": "DETECTAUDIO, cut before sync", "detectaudio": "DETECTAUDIO"}
    for key, title in titles.items():
        rates = by_name(results[key])
        models = list(dict.fromkeys(name.split("/")[0] for name in rates if "/" in name))
        rows = [
            [model, *(number(rates[f"{model}/{scheduler}"]["msamples"][0]) for scheduler in SCHEDULERS)]
            for model in models
        ]
        rows.append([PRODUCT, number(rates[PRODUCT]["msamples"][0]), "", "", ""])
        text += table([title, *SCHEDULERS], rows) + "\n"
    cut, whole = by_name(results["detectaudio_cut"]), by_name(results["detectaudio"])
    parts = []
    for name, how in (("Samples/DF", "join"), ("Windows/DF", "join"), ("Segs/DF", "sync"), (PRODUCT, "sync")):
        parts.append(f"{name} with {how} {whole[name]['msamples'][0] / cut[name]['msamples'][0]:.2f}")
    text += "Throughput over that of the plan cut before sync: " + ", ".join(parts) + ".\n"
    return text + "The paper has 0.9 with sync and 0.2 with join.\n"


def verdict_section(plans: list[dict[str, Any]]) -> str:
    """For each real plan: whether another scheduler beats ours by more than a tenth."""
    rows, beaten = [], []
    for one in plans:
        rates = by_name(one["rates"])
        rivals = [rates[name] for name in SCHEDULERS]
        best = max(rivals, key=lambda rate: rate["against_reference"][0])
        ahead = best["against_reference"][0] > 1.1
        if ahead:
            over_own_order = best["against_reference"][0] / rates["DF"]["against_reference"][0]
            beaten.append(f"`{one['plan']}` ({best['name']}; {over_own_order:.2f} of DF)")
        rows.append(
            [
                f"`{one['plan']}`",
                number(rates[PRODUCT]["msamples"][0]),
                *(f"{rates[name]['against_reference'][0]:.2f}" for name in SCHEDULERS),
                f"{best['name']} {spread(best['against_reference'])}",
                "**yes**" if ahead else "no",
            ]
        )
    text = "## Does another scheduler beat ours?\n\n"
    text += (
        "The same kernels, segments (the number behind the plan: samples each) and bursts, windows in blocks, ring\n"
    )
    text += "queues: throughput of each of the paper's schedulers over ours.\n\n"
    text += table(["plan", "ours, Msamples/s", *SCHEDULERS, "best of them", "by more than a tenth"], rows)
    if beaten:
        text += f"\nBeaten by more than a tenth: {', '.join(beaten)}.\n"
        text += "DF makes the product's calls in the product's order, in a smaller engine: what it gains is not\n"
        return text + "scheduling, and only what is more than that could be selected.\n"
    return text + "\nNone does, so the product has one scheduler.\n"


def sync_section(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"`{one['name']}`",
            f"{one['seconds'][0] * 1e3:.2f} ms",
            f"{one['other_seconds'][0] * 1e3:.2f} ms, {one['other']}",
            spread(one["ratio"]),
        ]
        for one in results
    ]
    return "## What sync costs\n\n" + table(["plan", "ours", "other", "ratio"], rows)


def page(results: dict[str, Any], cache: dict[str, Any]) -> str:
    """Markdown of everything that was measured."""
    parts = [
        "# XStream's design space\n\n"
        "XStream's choices (Girod et al., ICDE 2008) as code in `studies/xstream`, all on the same recordings,\n"
        "each result asserted against plain loops, by turns in one process: medians of the rounds. Written by\n"
        "`make -C studies/xstream`.\n",
        sync_section(results["sync_cost"]),
        memory_section(results["memory_managers"]),
        load_section(results["load"]),
        chain_section(results["engine_bench"], cache),
        representation_section(results["representations"]),
        verdict_section(results["plans"]),
    ]
    return "\n".join(parts)


def main() -> None:
    results, cache, folder, document = map(Path, sys.argv[1:5])
    measured = json.loads(results.read_text())
    draw(measured, folder)
    document.write_text(page(measured, json.loads(cache.read_text())))


if __name__ == "__main__":
    main()
