"""Bar charts as SVG: for each line ours and what it is measured against, with the range; the losses are curves (curve.py).
Colours follow the reader's light or dark theme; the background is the page's."""

import statistics
from xml.sax.saxutils import escape

import curve

GROUPS = {
    "latency": ("Same host, polling: one way, microseconds (less is better)", "us"),
    "bandwidth": ("Same host: GB/s (more is better)", "GB/s"),
    "rate": ("Same host, 8 bytes: million messages a second (more is better)", "M/s"),
    "many": ("64 bytes over many queue pairs: million messages a second (more is better)", "M/s"),
    "guest": ("In a virtual machine, 64 KiB, beside Linux soft-RoCE (rxe): GB/s (more is better)", "GB/s"),
    "wire": ("Between two network namespaces: GB/s (more is better)", "GB/s"),
}
LOSS = "1 MiB WRITEs through losses, no segmentation bursts: what is left of the rate"
STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-weight: 600; font-size: 15px }
    .small { font-size: 11px; fill: #59636e }
    .ours { fill: #8250df } .theirs { fill: #8c959f } .range { stroke: #1f2328; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .small { fill: #9198a1 }
      .ours { fill: #ab7df8 } .theirs { fill: #656c76 } .range { stroke: #e6edf3 }
    }
"""
LEFT, BAR, GAP, TOP = 250, 14, 12, 44
ROOM = curve.WIDTH - LEFT - 170  # the longest bar


def draw(results):
    """{file name: text}, a figure for each group that was measured."""
    drawn = {}
    for group, (title, unit) in GROUPS.items():
        rows = [result for result in results if result["group"] == group and result["ours"]]
        if rows:
            drawn[f"{group}.svg"] = chart(title, unit, rows)
    rows = [result for result in results if result["group"] == "loss" and result["ours"] and result["theirs"]]
    if rows:
        drawn["loss.svg"] = curve.chart(LOSS, rows, STYLE)
    return drawn


def chart(title, unit, rows):
    longest = max(max(row["ours"] + row["theirs"]) for row in rows)
    height = TOP + len(rows) * (2 * BAR + GAP) + 8
    parts = []
    y = TOP
    for row in rows:
        parts.append(f'<text x="{LEFT - 8}" y="{y + BAR + 4}" text-anchor="end">{escape(row["name"])}</text>')
        parts += bar("ours", "Verbena", row["ours"], unit, y, longest)
        if row["theirs"]:
            parts += bar("theirs", row["against"], row["theirs"], unit, y + BAR, longest)
        y += 2 * BAR + GAP
    return curve.page(title, height, STYLE, parts)


def bar(kind, label, values, unit, y, longest):
    def x(value):
        return LEFT + ROOM * value / longest

    middle = statistics.median(values)
    center = y + (BAR - 2) / 2
    return [f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{x(middle) - LEFT:.1f}" height="{BAR - 2}" rx="2"/>',
            f'<line class="range" x1="{x(min(values)):.1f}" x2="{x(max(values)):.1f}" y1="{center}" y2="{center}"/>',
            f'<text class="small" x="{x(max(values)) + 6:.1f}" y="{y + BAR - 4}">{middle:.3g} {unit}, {escape(label)}</text>']
