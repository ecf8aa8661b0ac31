"""DETECTAUDIO's scores in GNU Radio, timed on request; runs under the Python that GNU Radio was installed for.

Reads ``WINDOW SAMPLES`` a line and answers with seconds and the scores that came out: windows, spectra, magnitudes,
weights and sums. A source that repeats a second of noise stands for the recording. Building the flowgraph is not timed.
"""

from __future__ import annotations

import random
import sys
import time

from gnuradio import blocks, fft, gr

RATE = 48_000


def scores(window: int, samples: int) -> tuple[float, int]:
    noise = random.Random(1)
    second = [noise.gauss(0, 100) for _ in range(RATE)]
    hertz = [min(k, window - k) * RATE / window for k in range(window)]
    # Both halves of a real signal's spectrum come out; the second counts nothing.
    weights = [1.0 if 1500 <= hertz[k] <= 7500 and k <= window // 2 else 0.0 for k in range(window)]
    graph = gr.top_block()
    sink = blocks.null_sink(gr.sizeof_float)
    graph.connect(
        blocks.vector_source_f(second, True),
        blocks.head(gr.sizeof_float, samples // window * window),
        blocks.stream_to_vector(gr.sizeof_float, window),
        fft.fft_vfc(window, True, [1.0] * window, False, 1),
        blocks.complex_to_mag(window),
        blocks.multiply_const_vff(weights),
        blocks.vector_to_stream(gr.sizeof_float, window),
        blocks.integrate_ff(window),
        sink,
    )
    start = time.perf_counter()
    graph.run()
    return time.perf_counter() - start, sink.nitems_read(0)


def main() -> None:
    print(gr.version(), flush=True)
    for line in sys.stdin:
        window, samples = map(int, line.split())
        seconds, count = scores(window, samples)
        print(seconds, count, flush=True)


if __name__ == "__main__":
    main()
