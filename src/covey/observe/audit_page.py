"""The audit of a reward for a person: tables on a terminal, and the same ones as a page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from covey.rewards.audit import Audit
from covey.rewards.audit.parts import PartReport


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table; ``notes`` has a sentence for each of its rows, for where there is room."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    notes: tuple[str, ...] = ()


def sheets(found: Audit) -> list[Sheet]:
    """All tables, in the order in which they are read."""
    return [
        sheet for sheet in (_parts(found), _agreement(found), _spread(found), _right(found), _probes(found)) if sheet
    ]


def _parts(found: Audit) -> Sheet:
    def row(part: PartReport) -> tuple[str, ...]:
        least, _, median, _, most = part.quartiles or (None,) * 5
        ms = "" if part.seconds is None else f"{part.seconds * 1000:.1f}"
        numbers = map(number, (part.weight, part.mean, part.std, least, median, most))
        return (part.name, *numbers, share(part.influence), str(part.abstained), str(part.failed), ms)

    header = ("part", "weight", "mean", "std", "min", "median", "max", "decides", "unjudged", "failed", "ms")
    passed = "" if found.pass_rate is None else f", {found.pass_rate:.0%} correct"
    asked = f"{found.responses} responses to {found.prompts} prompts{passed}."
    what = "decides: share of the differences between siblings. ms: of one call, for one group, waiting included."
    whys = "".join(f" {part.name}: {'; '.join(part.reasons)}." for part in found.parts if part.reasons)
    return Sheet("Parts", header, tuple(row(part) for part in found.parts), f"{asked} {what}{whys}")


def _agreement(found: Audit) -> Sheet | None:
    rows = tuple((f"{a}, {b}", "never differ" if r is None else f"{r:+.2f}") for a, b, r in found.agreements)
    return Sheet("Agreement of parts, within groups", ("parts", "correlation"), rows) if rows else None


def _spread(found: Audit) -> Sheet:
    here = ("this check", share(found.spread))
    rows = (here, *((f"{size} responses", share(value)) for size, value in found.spread_at.items()))
    return Sheet("Groups with unequal rewards", ("group size", "share"), rows, "Groups of equal rewards teach nothing.")


def _right(found: Audit) -> Sheet:
    told = found.discrimination
    rows = (
        ("form of a right answer", told.frame or "none is known"),
        ("mean pay of right answers", number(told.right)),
        ("right answers that count as correct", share(told.judged_right)),
        ("paid more than a near miss", share(told.beats_wrong)),
        ("paid more than another prompt's answer", share(told.beats_other)),
        ("paid more than mentioning it and giving a near miss", share(told.beats_mention)),
        ("paid more than giving it together with a near miss", share(told.beats_both)),
    )
    return Sheet("Right and wrong", ("", ""), rows, "; ".join(told.exceptions))


def _probes(found: Audit) -> Sheet:
    rows = tuple(
        (p.name, number(p.paid), number(p.most), share(p.correct), share(p.above), str(p.failed)) for p in found.probes
    )
    header = ("probe", "paid", "at most", "as correct", "above siblings", "failed")
    about = tuple(p.about for p in found.probes)
    return Sheet("What a policy would try", header, rows, "None of these solves anything.", about)


def words(found: Audit) -> list[tuple[str, tuple[str, ...]]]:
    """The verdict: a heading and its lines, thrice."""
    verdict = found.verdict
    blocks = (("Problems", verdict.problems), ("Doubts", verdict.doubts), ("What GRPO would learn", verdict.lesson))
    return [(heading, lines) for heading, lines in blocks if lines]


def tables(found: Audit) -> list[Any]:
    """For a rich console."""
    from rich.table import Table
    from rich.text import Text

    shown: list[Any] = []
    for sheet in sheets(found):
        table = Table(title=sheet.title, title_justify="left", title_style="bold", box=None)
        table.header_style, table.padding, table.pad_edge = "dim", (0, 1, 0, 0), False
        table.show_header = any(sheet.header)
        for place, name in enumerate(sheet.header):
            table.add_column(name, overflow="fold", no_wrap=place == 0)
        for row in sheet.rows:
            table.add_row(*(Text(cell) for cell in row))
        shown += [table, Text(sheet.note, style="dim"), Text()]
    for heading, lines in words(found):
        shown += [Text(heading, style="bold"), *(Text(f"· {line}") for line in lines), Text()]
    shown.append(Text(f"{found.verdict.level}: {found.verdict.text}", style="bold"))
    return shown


_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0; } th, td { text-align: left; padding: .2rem .8rem .2rem 0;
border-bottom: 1px solid #8884; vertical-align: top; } th { font-weight: 600; } .note { opacity: .7; }
.sound { color: #1a7f37; } .watch { color: #9a6700; } .unsound { color: #cf222e; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } }"""


def page(found: Audit, name: str) -> str:
    """One page of HTML that needs nothing else."""
    level = found.verdict.level
    body = [
        f"<h1>Reward of {escape(name)}</h1>",
        f'<p class="{level}"><b>{level}</b>: {escape(found.verdict.text)}</p>',
    ]
    for heading, lines in words(found):
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        body.append(f"<h2>{escape(heading)}</h2><ul>{items}</ul>")
    for sheet in sheets(found):
        head = "".join(f"<th>{escape(cell)}</th>" for cell in sheet.header)
        cells = [(*row, note) for row, note in zip(sheet.rows, sheet.notes, strict=True)] if sheet.notes else sheet.rows
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
        body.append(f"<h2>{escape(sheet.title)}</h2><table><tr>{head}</tr>{rows}</table>")
        body.append(f'<p class="note">{escape(sheet.note)}</p>')
    title = f"Reward of {escape(name)}"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return (
        f"<!doctype html><html lang=en><head>{head}<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def number(value: float | None) -> str:
    """Three digits, or a dash."""
    return "–" if value is None else f"{value:.3g}"


def share(value: float | None) -> str:
    """Percent, or a dash."""
    return "–" if value is None else f"{value:.0%}"
