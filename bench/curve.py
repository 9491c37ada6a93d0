"""A page of SVG, and curves on it: what is left of the lossless rate, over the share of packets that is lost. One for each who was measured:
solid between namespaces, dashed between virtual machines. Colours follow the reader's light or dark theme."""

import re
import statistics
from xml.sax.saxutils import escape

# What a line's name begins with, whose it is, where.
CURVES = (("ib_write_bw 1 MiB", "Verbena", ""), ("one TCP stream", "TCP", ""), ("VM: ib_write_bw 1 MiB", "Verbena", "VM"),
          ("VM: rxe, ib_write_bw 1 MiB", "rxe", "VM"), ("VM: one TCP stream", "TCP", "VM"))
STYLE = """
    .axis { stroke: #d1d9e0; stroke-width: 1; fill: none }
    .curve { stroke-width: 2; fill: none } .VM { stroke-dasharray: 6 4 }
    .spread { stroke-width: 1; opacity: 0.6 }
    .Verbena { stroke: #8250df } .rxe { stroke: #bc4c00 } .TCP { stroke: #59636e }
    .dot.Verbena { fill: #8250df } .dot.rxe { fill: #bc4c00 } .dot.TCP { fill: #59636e }
    @media (prefers-color-scheme: dark) {
      .axis { stroke: #3d444d }
      .Verbena { stroke: #ab7df8 } .rxe { stroke: #f0883e } .TCP { stroke: #9198a1 }
      .dot.Verbena { fill: #ab7df8 } .dot.rxe { fill: #f0883e } .dot.TCP { fill: #9198a1 }
    }
"""
WIDTH, HEIGHT = 800, 400
LEFT, RIGHT, TOP, BOTTOM = 60, 560, 48, 350  # of the plane; to its right, the names
LABEL = 20  # the least between two names


def page(title, height, style, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
                      f'role="img" aria-label="{escape(title)}">', f"<style>{style}</style>",
                      f'<text class="title" x="8" y="22">{escape(title)}</text>', *parts, "</svg>"]) + "\n"


def chart(title, rows, style):
    """rows: results whose names end with what was lost."""
    curves = [curve for curve in (points(rows, *words) for words in CURVES) if curve]
    percents = sorted({percent for curve in curves for percent, _ in curve["points"]})
    highest = max(1, *(max(shares) for curve in curves for _, shares in curve["points"]))

    def x(percent):
        return LEFT + 24 + (RIGHT - LEFT - 48) * percents.index(percent) / (len(percents) - 1)

    def y(share):
        return BOTTOM - (BOTTOM - TOP) * share / highest

    parts = []
    for tenth in range(0, int(highest * 10) + 1, 2 if highest < 2 else 10):
        at = y(tenth / 10)
        parts += [f'<path class="axis" d="M{LEFT} {at:.1f}H{RIGHT}"/>',
                  f'<text class="small" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tenth * 10} %</text>']
    for percent in percents:
        parts.append(f'<text x="{x(percent):.1f}" y="{BOTTOM + 20}" text-anchor="middle">{percent:g} %</text>')
    parts.append(f'<text class="small" x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 40}" text-anchor="middle">'
                 "of the packets lost, each way</text>")
    for curve in curves:
        parts += drawn(curve, x, y)
    return page(title, HEIGHT, style + STYLE, parts + names(curves, y))


def points(rows, begins, whose, where):
    """A curve, or None: for each percentage the shares of all rounds, lowest to highest."""
    found, lossless = [(0, [1])], []
    for row in rows:
        match = re.fullmatch(re.escape(begins) + r", ([\d.]+) % lost", row["name"])
        if match and row["ours"]:
            lossless += row["theirs"]
            found.append((float(match[1]), sorted(ours / theirs for ours, theirs in zip(row["ours"], row["theirs"]))))
    if not lossless:
        return None
    return {"whose": whose, "where": where, "points": sorted(found), "lossless": statistics.median(lossless)}


def drawn(curve, x, y):
    kind = f"{curve['whose']} {curve['where']}".strip()
    places = [(x(percent), y(statistics.median(shares)), shares) for percent, shares in curve["points"]]
    parts = [f'<path class="curve {kind}" d="M{"L".join(f"{at:.1f} {middle:.1f}" for at, middle, _ in places)}"/>']
    for at, middle, shares in places:
        if len(shares) > 1:
            parts.append(f'<path class="spread {curve["whose"]}" d="M{at:.1f} {y(shares[0]):.1f}V{y(shares[-1]):.1f}"/>')
        parts.append(f'<circle class="dot {curve["whose"]}" cx="{at:.1f}" cy="{middle:.1f}" r="3"/>')
    return parts


def names(curves, y):
    """Beside the curves' ends, and none over another: whose, where, and what they have without loss."""
    parts, ends = [], sorted(curves, key=lambda curve: -statistics.median(curve["points"][-1][1]))
    at = TOP
    for left, curve in zip(range(len(ends) - 1, -1, -1), ends):
        at = min(max(at, y(statistics.median(curve["points"][-1][1]))), BOTTOM - LABEL * left)
        kind = f"{curve['whose']} {curve['where']}".strip()
        parts += [f'<path class="curve {kind}" d="M{RIGHT + 8} {at:.1f}h26"/>',
                  f'<text x="{RIGHT + 40}" y="{at + 4:.1f}">{escape(curve["whose"])}'
                  f'{", VM" if curve["where"] else ""} '
                  f'<tspan class="small">(lossless {1000 * curve["lossless"]:.3g} MB/s)</tspan></text>']
        at += LABEL
    return parts
