"""PASSCHAIN in GNU Radio, timed on request; runs under the Python that GNU Radio was installed for.

Reads ``OPERATORS SAMPLES`` a line and answers with seconds and the samples that came through. The chain is copy blocks,
each of which reads and writes every sample (GNU Radio has no passing by reference); its ends, a null source and a null
sink, are the cheapest it has. Building the flowgraph is not timed.
"""

from __future__ import annotations

import sys
import time

from gnuradio import blocks, gr

SIZE = gr.sizeof_short


def passchain(operators: int, samples: int) -> tuple[float, int]:
    graph = gr.top_block()
    chain = [blocks.null_source(SIZE), blocks.head(SIZE, samples)]
    chain += [blocks.copy(SIZE) for _ in range(operators)]
    chain.append(blocks.null_sink(SIZE))
    graph.connect(*chain)
    start = time.perf_counter()
    graph.run()
    return time.perf_counter() - start, chain[-2].nitems_written(0)


def main() -> None:
    print(gr.version(), flush=True)
    for line in sys.stdin:
        operators, samples = map(int, line.split())
        seconds, passed = passchain(operators, samples)
        print(seconds, passed, flush=True)


if __name__ == "__main__":
    main()
