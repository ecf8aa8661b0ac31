"""Odd tables for `tables.py`: how they are written, and what a slow and independent reader finds in them.

`generate` draws a file of delimited text: its times, values, separators, quotes, line ends, encoding and at most one
defect. `read` reads it with the `csv` module and exact fractions, and knows nothing of the importer under test.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import random
import re
from dataclasses import dataclass, field
from fractions import Fraction

SECOND = 10**9
BEGIN = 1_267_401_600 * SECOND
EPOCH = dt.datetime(1970, 1, 1)

MISSING = ("", "NA", "null", "n/a")
#: Units of numeric time columns in ns, by the column's title.
UNITS = {"time (s)": SECOND, "time_ms": 10**6, "t (us)": 10**3, "t[ns]": 1, "elapsed (s)": SECOND}


@dataclass
class Table:
    """A file, and what its generator knows of it."""

    name: str
    data: bytes = b""
    delimiter: str = ","
    header: bool = True
    remarks: int = 0
    #: Place and title of the time column, and the titles of the values.
    time_at: int = 0
    time_title: str = "time"
    titles: list[str] = field(default_factory=list)
    rate: Fraction = Fraction(1)
    #: Width of the last digit of its times, ns.
    resolution: int = 1
    #: "import", "refuse" or "either".
    must: str = "import"
    #: The line that a refusal has to name, from 1.
    line: int | None = None
    oddities: list[str] = field(default_factory=list)


def row_times(rng: random.Random, table: Table, count: int) -> list[Fraction]:
    """Times in ns: regular, with gaps, an excursion, jitter, a drifting or set clock, or another rate behind a gap."""
    period = SECOND / table.rate
    kind = rng.choice(["regular", "regular", "gaps", "gaps", "excursion", "drift", "backward", "rate", "jitter"])
    table.oddities.append(kind)
    times = [BEGIN + k * period for k in range(count)]
    if kind == "gaps":
        for _ in range(rng.randint(1, 4)):
            at, missing = rng.randrange(count // 8, count), rng.choice([1, 2, 3, 50, 100_000])
            times = times[:at] + [time + missing * period for time in times[at:]]
    elif kind == "excursion":
        # A row that lies elsewhere alone has a wrong time, for an importer, which says so in an event.
        first = rng.randrange(count // 4, count - 2)
        end = rng.randrange(first + 2, count)
        times[first:end] = [time + 3600 * SECOND for time in times[first:end]]
    elif kind == "backward":
        at = rng.randrange(count // 4, count)
        times[at:] = [time - 1800 * SECOND for time in times[at:]]
    elif kind == "drift":
        ppm = rng.choice([-200, -30, 30, 200])
        times = [BEGIN + k * period * (1 + Fraction(ppm, 10**6)) for k in range(count)]
    elif kind == "jitter":
        # Two rows may differ by more than the quarter of a sample that a line leaves them.
        times = [time + Fraction(rng.randrange(-15, 16), 100) * period for time in times]
        table.must = "either"
    elif kind == "rate":
        at, other = rng.randrange(10, count - 20), period * Fraction(100, 130)
        times[at:] = [times[at] + 3600 * SECOND + k * other for k in range(count - at)]
        # Too few rows behind the change may be within what the digits leave open.
        table.must = "refuse"
    return times


def time_texts(rng: random.Random, table: Table, times: list[Fraction]) -> list[str]:
    """Times as text, cut to the digits that a writer gives, in one of the ways that programs write them."""
    least = 0 if table.rate <= 1 else 3 if table.rate <= 100 else 5
    digits = rng.choice([d for d in (0, 3, 6, 9) if d >= least])
    styles = ["iso", "iso", "iso", "time (s)", "seconds", "t (us)", "t[ns]", "elapsed (s)"]
    styles += ["time_ms"] if table.rate <= 100 else []
    styles += ["calendar"] if table.rate == 1 else []
    style = rng.choice(styles)
    table.oddities.append(f"{style}, {digits} digits")
    table.time_title = style if style in UNITS else rng.choice(["time", "Timestamp", "date_time", "UTC"])
    unit = {"time_ms": 10**6, "t (us)": 10**3, "t[ns]": 1}.get(style, 10 ** (9 - digits))
    if style == "calendar":
        unit = SECOND
    table.resolution = unit
    shown = [time.numerator // time.denominator // unit for time in times]
    if style == "iso":
        zone = rng.choice(["Z", "", "+01:00", "-0530", "+05:45"])
        between = rng.choice("T ")
        return [iso_text(ns * unit, digits, between, zone) for ns in shown]
    if style == "calendar":
        return [(EPOCH + dt.timedelta(seconds=s)).strftime("%Y%m%d%H%M%S") for s in shown]
    if style in ("time_ms", "t (us)", "t[ns]"):
        return [str(number) for number in shown]
    if style == "elapsed (s)":
        shown = [number - BEGIN // unit for number in shown]
        # Where a gap lies cannot be said without the time of the file's start.
        table.must = "import" if table.oddities[0] in ("regular", "drift") else table.must
        table.must = "refuse" if table.oddities[0] in ("gaps", "excursion", "backward") else table.must
    texts = [decimal_text(number, digits) for number in shown]
    if digits and rng.random() < 0.2:
        table.oddities.append("without trailing zeros")
        texts = [text.rstrip("0").rstrip(".") for text in texts]
        # What nobody sees may as well have been cut off.
        table.resolution = 10 ** (9 - max(len(text.partition(".")[2]) for text in texts))
    return texts


def decimal_text(number: int, digits: int) -> str:
    """A whole number of 10^-digits as a decimal."""
    sign, number = "-" * (number < 0), abs(number)
    whole, part = divmod(number, 10**digits)
    return f"{sign}{whole}" + (f".{part:0{digits}d}" if digits else "")


def iso_text(ns: int, digits: int, between: str, zone: str) -> str:
    """An ISO 8601 time of so many digits in a time zone."""
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", zone)
    if match:
        ns += (-1 if match[1] == "-" else 1) * (int(match[2]) * 60 + int(match[3])) * 60 * SECOND
    moment = EPOCH + dt.timedelta(seconds=ns // SECOND)
    fraction = f".{ns % SECOND:09d}"[: digits + 1] if digits else ""
    return moment.strftime(f"%Y-%m-%d{between}%H:%M:%S") + fraction + zone


def value_texts(rng: random.Random, table: Table, count: int) -> list[str]:
    """One column of values."""
    kind = rng.choice(["whole", "late float", "float", "exponent", "bool", "large", "missing", "signs"])
    table.oddities.append(kind)
    if kind == "late float":
        late = rng.choice([1, count // 2, count - 1])
        return [f"{k}.5" if k >= late else str(k) for k in range(count)]
    if kind == "float":
        return [repr(rng.uniform(-1e3, 1e3)) for _ in range(count)]
    if kind == "exponent":
        return [rng.choice([f"{rng.uniform(-9, 9):.3e}", f"{rng.randrange(9)}E+02", ".5", "5."]) for _ in range(count)]
    if kind == "bool":
        return [rng.choice(["true", "false"]) for _ in range(count)]
    if kind == "large":
        base = rng.choice([1 << 53, (1 << 63) - count, -(1 << 63)])
        return [str(base + k) for k in range(count)]
    if kind == "missing":
        # Whole numbers have no value for it, so one float makes the column one of floats.
        return [rng.choice(MISSING) if rng.random() < 0.1 else f"{k / 4}" for k in range(count - 1)] + ["0.25"]
    if kind == "signs":
        return [rng.choice(["+", "-", ""]) + rng.choice(["", "00"]) + str(k) for k in range(count)]
    return [str(rng.randrange(-(10**6), 10**6)) for _ in range(count)]


def damage(rng: random.Random, table: Table, rows: list[list[str]]) -> None:
    """Sometimes one defect, which no reader may take for data."""
    kind = rng.choice([None] * 6 + ["text", "time", "short", "long", "beyond", "no time"])
    if kind is None:
        return
    table.oddities.append(f"defect: {kind}")
    at = rng.randrange(2, len(rows))
    values = [k for k in range(len(rows[0])) if k != table.time_at]
    if kind == "text":
        rows[at][rng.choice(values)] = rng.choice(["x", "--", "12:30", "0x1F", "1_000", "12 7"])
    elif kind == "time":
        rows[at][table.time_at] = rng.choice(["yesterday", "2010-13-01", "2010-03-01T00:00:00+99:99", "1e400", "-"])
    elif kind == "no time":
        rows[at][table.time_at] = ""
    elif kind == "short":
        rows[at].pop()
    elif kind == "long":
        rows[at].append("1")
    elif kind == "beyond":
        rows[at][rng.choice(values)] = rng.choice([str(1 << 63), str(-(1 << 63) - 1), "9" * 30])
    # What is wrong with the times may be told first.
    if table.must == "import":
        table.line = table.remarks + table.header + at + 1
    table.must = "refuse"


def generate(seed: int) -> Table:
    """One odd file."""
    rng = random.Random(seed)
    table = Table(f"t{seed}")
    table.rate = rng.choice(
        [Fraction(1), Fraction(1, 60), Fraction(20), Fraction(100), Fraction(1000, 3), Fraction(2000)]
    )
    count = rng.choice([40, 200, 1000, 3000])
    texts = time_texts(rng, table, row_times(rng, table, count))
    columns = [value_texts(rng, table, count) for _ in range(rng.choice([1, 1, 2, 3]))]
    table.titles = [rng.choice(["v", "pressure", "x-y"]) + str(k) for k in range(len(columns))]
    table.time_at = rng.randrange(len(columns) + 1)
    table.delimiter = rng.choice([",", ",", ";", "\t", "|"])
    rows = [list(row) for row in zip(*columns, strict=True)]
    for row, text in zip(rows, texts, strict=True):
        row.insert(table.time_at, text)
    remarks = rng.choice([[], [], ["# a remark"], ["# one", "# another, longer"]])
    table.remarks = len(remarks)
    damage(rng, table, rows)
    titles = [title + rng.choice(["", " [kPa]"]) for title in table.titles]
    titles.insert(table.time_at, table.time_title)
    latin = rng.random() < 0.1
    if latin:
        titles[-1 if table.time_at == 0 else 0] = f"{table.titles[-1 if table.time_at == 0 else 0]} [\u00b0C]"
    end = rng.choice(["\n", "\n", "\r\n"])
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    out = io.StringIO()
    writer = csv.writer(out, delimiter=table.delimiter, lineterminator=end, quoting=quoting)
    out.write("".join(remark + end for remark in remarks))
    writer.writerow(titles)
    if rng.random() < 0.15:
        table.oddities.append("blanks around values")
        blank = [place for place in range(len(rows[0])) if place != table.time_at]
        for row in rows:
            for place in blank:
                if place < len(row):
                    row[place] = f" {row[place]} "
    writer.writerows(rows)
    text = out.getvalue()
    if table.must == "import" and rng.random() < 0.15:
        table.oddities.append("cut in its last row")
        text = text[: -len(end) - rng.randrange(3)]
    elif rng.random() < 0.1:
        table.oddities.append("blank lines at its end")
        text += end * rng.randrange(1, 4)
    encoding = "latin-1" if latin else rng.choice(["utf-8", "utf-8", "utf-8-sig"])
    table.oddities.append(f"{encoding}, {table.delimiter!r}, {end!r}")
    table.data = text.encode(encoding)
    return table


def read(table: Table) -> tuple[list[Fraction], dict[str, list[str]]]:
    """What the rows of a file without defects say: exact times in ns, and texts by column.

    A row without a line end is none: it may be cut in a number.
    """
    try:
        text = table.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = table.data.decode("latin-1")
    lines = text.splitlines(keepends=True)[table.remarks :]
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    rows = [row for row in csv.reader(lines, delimiter=table.delimiter) if row][1:]
    times = [time_ns(row[table.time_at].strip(), table.time_title) for row in rows]
    places = [place for place in range(len(table.titles) + 1) if place != table.time_at]
    columns = {title: [row[place].strip() for row in rows] for title, place in zip(table.titles, places, strict=True)}
    return times, columns


def time_ns(text: str, title: str) -> Fraction:
    """A time in ns since 1970, or since the file's start in a column of elapsed times."""
    if match := re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)?", text):
        moment = dt.datetime.fromisoformat(f"{match[1]}T{match[2]}") - EPOCH
        zone = match[4] if match[4] not in (None, "Z") else "+0000"
        offset = (int(zone[1:3]) * 60 + int(zone[-2:])) * (-1 if zone[0] == "-" else 1)
        seconds = moment.days * 86_400 + moment.seconds - offset * 60
        return (seconds + Fraction(match[3] or 0)) * SECOND
    if title in UNITS:
        return Fraction(text) * UNITS[title]
    if re.fullmatch(r"20\d{12}", text):
        return Fraction(int((dt.datetime.strptime(text, "%Y%m%d%H%M%S") - EPOCH).total_seconds())) * SECOND
    return Fraction(text) * SECOND
