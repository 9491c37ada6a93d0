"""A line of the table: what is measured, against what, and what is wanted (latencies: at most; the others: at least)."""

import dataclasses
from typing import Callable

ONE_WAY = r"median ([\d.]+) us"  # what the yardstick pingpong prints
BANDWIDTHS = tuple((program, *size) for size in ((65536, "64 KiB", 20000), (1048576, "1 MiB", 2000))
                   for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"))


@dataclasses.dataclass
class Line:
    name: str
    group: str  # the figure that it belongs to, if it has one
    unit: str
    against: str  # nothing: the value itself is what counts
    wanted: float | None  # of the ratio, or of the value
    higher: bool
    ours: Callable
    theirs: Callable | None
    skip: str | None = None
