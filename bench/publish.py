"""The table of docs/performance.md, between its two marks, and its figures."""

import datetime
import os
import platform
import statistics

import figures

BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"


def ratio(result):
    """(lowest, median, highest) of ours to theirs, round by round."""
    each = sorted(ours / theirs for ours, theirs in zip(result["ours"], result["theirs"]))
    return each[0], statistics.median(each), each[-1]


def aim(result):
    """In words; nothing where none is wanted, or what it is measured against is not here."""
    if result["wanted"] is None or (result["against"] and not result["theirs"]):
        return ""
    return f"{'at least' if result['higher'] else 'at most'} {result['wanted']:g}"


def met(result):
    """By the median of the ratios; what is measured against nothing, by its worst round."""
    if result["theirs"]:
        judged = ratio(result)[1]
    else:
        judged = min(result["ours"]) if result["higher"] else max(result["ours"])
    return judged >= result["wanted"] if result["higher"] else judged <= result["wanted"]


def value(result):
    """The median; of what is measured against nothing, the range, too."""
    middle = f"{statistics.median(result['ours']):.3g} {result['unit']}"
    return middle if result["theirs"] else f"{middle} ({min(result['ours']):.3g} to {max(result['ours']):.3g})"


def table(results):
    rounds = max((len(result["ours"]) for result in results), default=0)
    commit = next((result["commit"] for result in results if result.get("commit")), "")
    text = (f"{datetime.date.today()}{', ' + commit if commit else ''}, {os.cpu_count()} processors, "
            f"Linux {platform.release().partition('-')[0]}, {rounds} rounds, median (lowest to highest).\n\n"
            "| measure | Verbena | against | ratio | wanted | CPU s/GB |\n|---|---|---|---|---|---|\n")
    for result in results:
        if not result["ours"]:
            text += f"| {result['name']} | {result.get('skipped') or result.get('error')} | | | | |\n"
            continue
        cells = [result["name"], value(result), "", "", aim(result), ""]
        if result["theirs"]:
            low, middle, high = ratio(result)
            cells[2] = f"{result['against']}: {statistics.median(result['theirs']):.3g}"
            cells[3] = f"{middle:.2f} ({low:.2f} to {high:.2f})"
        if result["cpu"]:
            cells[5] = f"{statistics.median(result['cpu']):.2f}"
        text += "| " + " | ".join(cells) + " |\n"
    return text


def publish(results, docs):
    page = docs / "performance.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + BEGIN + table(results) + END + after)
    (docs / "figures").mkdir(exist_ok=True)
    for name, text in figures.draw(results).items():
        (docs / "figures" / name).write_text(text)
