"""The address of a channel on a SeedLink server."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors.native import OptionError

__all__ = ["Channel"]

#: That of SeedLink servers, where an address gives none.
PORT = 18000


@dataclass(frozen=True)
class Channel:
    """A server, and the channel that is asked for."""

    host: str
    port: int
    network: str
    station: str
    location: str
    channel: str

    @classmethod
    def parse(cls, address: str) -> Channel:
        """Reads ``seedlink://HOST[:PORT]/NET.STA.LOC.CHA``."""
        found = re.fullmatch(
            r"seedlink://(\[[0-9a-fA-F:]+\]|[^/:\[\]]+)(?::(\d{1,5}))?/"
            r"([A-Z0-9]{1,2})\.([A-Z0-9]{1,5})\.([A-Z0-9]{2}|--|)\.([A-Z0-9]{3})",
            address,
        )
        if found is None or int(found[2] or PORT) > 65_535:
            raise OptionError(
                f"{address!r} is not the address of a SeedLink channel; give seedlink://HOST:PORT/NET.STA.LOC.CHA for "
                "one channel without wildcards, such as seedlink://geofon.gfz.de/GE.WLF..BHZ"
            )
        host, port, network, station, location, channel = found.groups()
        location = "" if location == "--" else location
        return cls(host.strip("[]"), int(port or PORT), network, station, location, channel)

    @property
    def name(self) -> str:
        """Network, station, location and channel."""
        return f"{self.network}.{self.station}.{self.location}.{self.channel}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"seedlink://{host}:{self.port}/{self.name}"
