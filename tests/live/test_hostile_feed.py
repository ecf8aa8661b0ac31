"""A short run of what ``python tests/hostile_feed.py`` does for an hour."""

import os
import random

import hostile_feed

SECONDS = float(os.environ.get("ISOCHRONY_HOSTILE_SECONDS", "16"))
SEED = int(os.environ.get("ISOCHRONY_HOSTILE_SEED", "1"))


def test_connections_among_hostile_peers_bring_what_was_sent_and_nothing_else() -> None:
    hostile_feed.connections(SECONDS / 2, random.Random(SEED))


def test_datagrams_among_hostile_ones_bring_what_was_sent_and_nothing_else() -> None:
    hostile_feed.check_attacked(hostile_feed.datagrams(SECONDS / 2, random.Random(SEED)))


def test_sessions_beyond_those_that_samples_can_number_are_compared_too() -> None:
    session = hostile_feed.Session(hostile_feed.SESSIONS + 7, random.Random(SEED))
    assert session.values(3, 5).tolist() == [(7 << hostile_feed.SHIFT) + index for index in (3, 4)]
    assert session.frame()


def test_the_checksum_is_the_published_one() -> None:
    assert hostile_feed.crc32c(b"123456789") == 0xE3069283
