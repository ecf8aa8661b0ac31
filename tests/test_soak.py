"""A short run of what `make soak` does for an hour."""

import os

import soak


def test_a_feed_with_all_faults_loses_nothing_in_silence_and_keeps_its_memory() -> None:
    found = soak.soak(float(os.environ.get("ISOCHRONY_SOAK_SECONDS", "15")))
    assert found["latency_ms"]["median"] < 5, found
