"""Packets that several receivers heard of one sender: steps of `isochrony.Plan`.

A packet is a window of uint8 whose last four bytes are the CRC-32 of those before, little-endian, as Ethernet and
802.11 have it. Plans of several receivers have one timebase; what begins at one index are copies of one packet, and a
receiver that did not hear it has a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from .chain import Chain
from .features import numbers
from .options import whole

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["PacketSteps"]


class PacketSteps(Chain):
    """What several receivers of one sender make of it together."""

    __slots__ = ()

    def error_correlation(self, *others: Plan, every: int = 1000) -> Self:
        """How much receivers err together: for every so many packets a row of n * n numbers, float64, of n plans.

        ``rows.reshape(-1, n, n)[k, i, j]`` is the correlation of the bit errors of receivers i and j (the phi
        coefficient, -1 to 1) over the packets that both have, and with i = j the share of i's bits that are wrong.
        Errors are known where one receiver's copy agrees with its check; other packets are not counted. NaN: no such
        packet, or one of both without errors. Rows are counted from index 0; the last one is of what there is.

        Parameters:
            others: windows of uint8 as this plan's.
            every: packets of a row, from 1.

        Raises:
            PlanError: no such windows come in. OptionError: an option without a legal value.

        >>> import zlib, numpy as np, isochrony as iso
        >>> text = b"all quiet"
        >>> sent = np.frombuffer(text + zlib.crc32(text).to_bytes(4, "little"), "u1")
        >>> heard = [sent, sent ^ (np.arange(13) == 3), sent ^ 3 * (np.arange(13) == 3)]
        >>> first, *others = (iso.scan(copy.astype("u1"), rate=100).rewindow(13) for copy in heard)
        >>> first.error_correlation(*others).collect().reshape(3, 3).round(2)
        array([[0.  ,  nan,  nan],
               [ nan, 0.01, 0.7 ],
               [ nan, 0.7 , 0.02]])
        """
        return self._then("error_correlation", others, every=whole("error_correlation", every, "packets"))

    def combine_packets(
        self,
        *others: Plan,
        clusters: Sequence[int] | None = None,
        error_rates: Sequence[float] | None = None,
        search: int = 10,
    ) -> Self:
        """The packets that were sent, from all receivers' copies: uint8 samples, a gap where a packet is lost.

        An intact copy is taken as it is. Else bits on which copies differ are voted on: within a cluster with weights
        ln((1 - p) / p), p a receiver's error rate; each cluster has one vote, as strong as its best receiver's, since
        receivers of a cluster err together (`error_correlation` says which do). Where the vote does not agree with the
        check, the bits with the closest votes are tried both ways and the likeliest combination that agrees is taken
        (Chase 1972). A wrong packet passes once in 2^(32 - search) of such tries. With no others: intact packets only.

        Parameters:
            others: windows of uint8 as this plan's.
            clusters: a number for each plan, this one first; None: each is one of its own.
            error_rates: the share of each receiver's bits that is wrong, 0 to below 0.5 (less than 1e-9 counts as
                that); None: all are alike.
            search: bits that are tried both ways at most, 0 to 20.

        Raises:
            PlanError: no such windows come in, or not as many numbers as plans. OptionError: an option without a legal
                value.

        >>> import zlib, numpy as np, isochrony as iso
        >>> text = b"all quiet"
        >>> sent = np.frombuffer(text + zlib.crc32(text).to_bytes(4, "little"), "u1")
        >>> heard = [sent ^ (np.arange(13) == k) for k in (3, 3, 8)]
        >>> first, *others = (iso.scan(copy.astype("u1"), rate=100).rewindow(13) for copy in heard)
        >>> bytes(first.combine_packets(*others, clusters=[0, 0, 1]).collect()[:9])
        b'all quiet'
        """
        return self._then(
            "combine_packets",
            others,
            clusters=[] if clusters is None else [whole("clusters", k, "a cluster", 0) for k in clusters],
            error_rates=[] if error_rates is None else numbers("error_rates", error_rates),
            search=whole("search", search, "bits", 0),
        )
