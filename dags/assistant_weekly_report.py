"""
Draw the last weeks of a site, whenever the warehouse has new rows.

It is scheduled on the asset that ``assistant_nightly_export`` updates, reads the view ``statistics_daily``, and puts
``report.png`` next to the datasets; the Variables are the same. With many sites, a tile shows their median. Choose your
own metrics in ``TILES``.

It needs ``pip install 'airflow-provider-assistant[warehouse]' matplotlib``.
"""

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import Asset, dag, task

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
WAREHOUSE = f"{{{{ var.value.get('assistant_warehouse', '{HOME / 'warehouse.duckdb'}') }}}}"

WEEKS = 8
# Columns of the view, with their titles; those that a service does not have are left out.
TILES = {
    "documents.total": "Documents",
    "chats.sync.total": "Chats",
    "chats.async.total": "Async chats",
    "chats.async.answer_rate": "Answered, share of async chats",
    "chats.async.latency_ms.p95": "Async answer within, 95 of 100, ms",
    "feedback.total": "Ratings",
}


@dag(schedule=[Asset("assistant_warehouse")], catchup=False, max_active_runs=1, tags=["assistant"], doc_md=__doc__)
def assistant_weekly_report():
    """Read the view, and draw it."""

    @task
    def draw(lake: str, database: str) -> dict:
        """Draw one tile per metric: its last value, and the way there."""
        import io

        import duckdb
        from airflow.sdk import ObjectStoragePath
        from matplotlib.figure import Figure

        with duckdb.connect(database, read_only=True) as connection:
            view = connection.table("assistant.statistics_daily")
            # Other services have other metrics.
            shown = {metric: title for metric, title in TILES.items() if metric in view.columns}
            shown = shown or {metric: metric for metric in view.columns[4:][:6]}
            quoted = (metric.replace('"', '""') for metric in shown)
            medians = "".join(f', median("{metric}")' for metric in quoted)
            nights = connection.sql(
                f"""
                SELECT date, count(DISTINCT site_id) AS sites{medians}
                FROM assistant.statistics_daily
                WHERE date > (SELECT max(date) FROM assistant.statistics_daily) - {7 * WEEKS}
                GROUP BY date
                ORDER BY date
                """  # noqa: S608 (quoted)
            ).to_arrow_table()
        dates, sites, *columns = (column.to_pylist() for column in nights.columns)
        if not dates or not shown:
            return {"path": None, "nights": 0, "metrics": 0}

        rows = -(-len(shown) // 3)
        figure = Figure(figsize=(12, 1.1 + 2.3 * rows), facecolor="#f6f7fb", dpi=130)
        tiles = figure.subplots(rows, 3, squeeze=False).flat
        figure.subplots_adjust(
            left=0.035, right=0.965, bottom=0.06, top=1 - 0.85 / figure.get_figheight(), wspace=0.08, hspace=0.14
        )
        top = 1 - 0.42 / figure.get_figheight()
        period = f"{dates[0]:%-d %B %Y}" + (f" to {dates[-1]:%-d %B %Y}" if len(dates) > 1 else "")
        figure.text(0.035, top, "Assistant", fontsize=19, fontweight="bold", color="#1d2440", va="center")
        about = f"{period}  ·  " + ("1 site" if sites[-1] == 1 else f"median of {sites[-1]} sites")
        figure.text(0.965, top, about, fontsize=11, color="#6b7390", va="center", ha="right")
        for tile, title, values in zip(tiles, shown.values(), columns, strict=False):
            draw_tile(tile, title, dates, values)
        for tile in list(figure.axes)[len(shown) :]:
            tile.set_visible(False)

        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        path = ObjectStoragePath(lake) / "report.png"
        path.write_bytes(picture.getvalue())
        return {"path": str(path), "nights": len(dates), "metrics": len(shown)}

    draw(LAKE, WAREHOUSE)


def draw_tile(tile, title, dates, values):
    """Draw the course of a metric, with its last value in large figures and the change in a week."""
    known = [(day, value) for day, value in zip(dates, values, strict=True) if value is not None]
    tile.set_facecolor("white")
    tile.set(xticks=[], yticks=[])
    for side in tile.spines.values():
        side.set_color("#e3e6f0")
    tile.text(0.05, 0.88, title, transform=tile.transAxes, fontsize=10, color="#6b7390", va="center")
    last = number(known[-1][1]) if known else "none"
    tile.text(0.05, 0.69, last, transform=tile.transAxes, fontsize=24, fontweight="bold", color="#1d2440", va="center")
    before = [value for day, value in known if (known[-1][0] - day).days == 7]
    if before:
        change = f"{number(known[-1][1] - before[0], sign='+')} in a week"
        tile.text(0.95, 0.69, change, transform=tile.transAxes, fontsize=10, color="#6b7390", va="center", ha="right")
    if not known:
        return
    days, numbers = zip(*known, strict=True)
    low, high = min(numbers), max(numbers)
    space = (high - low) or abs(high) or 1
    floor = low - 0.25 * space
    # The tiles show the same days, and at least a week.
    tile.plot([min(dates[0], dates[-1] - timedelta(days=7)), dates[-1]], [low, low], color="#e3e6f0", linewidth=1)
    tile.plot(days, numbers, color="#4361ee", linewidth=2, solid_capstyle="round")
    tile.plot(days[-1:], numbers[-1:], "o", color="#4361ee", markersize=7)
    tile.fill_between(days, numbers, floor, color="#4361ee", alpha=0.08, linewidth=0)
    # The course has the lower half of the tile.
    tile.set_ylim(floor, high + 1.6 * space)


def number(value, sign=""):
    """Return a number with three digits or all before the point."""
    return f"{value:{sign},.3g}" if abs(value) < 100 else f"{value:{sign},.0f}"


assistant_weekly_report()
