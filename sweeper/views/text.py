"""Values and rows as plain text."""

from typing import Any


def listing(rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    """Rows as a plain table; `columns` maps keys to headings."""
    cells = [list(columns.values())] + [[show(row[key]) for key in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells)


def show(value: Any) -> str:
    """A value in six digits; a long list by its length."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and len(value) > 6:
        return f"[{len(value)} entries]"
    return str(value)
