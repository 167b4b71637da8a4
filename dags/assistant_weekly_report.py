"""
Draw charts of the last eight weeks whenever the warehouse has new rows.

The asset that ``assistant_nightly_export`` updates starts this DAG. It writes
``report.png`` next to the datasets and uses the same Variables. If the statistics of
the service list days under ``daily``, the charts show these days (view
``statistics_history``); otherwise they show the totals of each exported night (view
``statistics_daily``). With several sites, each chart shows the median. Set your own
metrics in ``TILES``.

The DAG needs ``pip install 'airflow-provider-assistant[examples,warehouse]'``.
"""

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import Asset, dag, task

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
WAREHOUSE = (
    f"{{{{ var.value.get('assistant_warehouse', '{HOME / 'warehouse.duckdb'}') }}}}"
)

WEEKS = 8
# Metrics and their chart titles. Metrics that the service does not have are omitted.
TILES = {
    "documents.total": "Documents",
    "chats.sync.total": "Sync chats",
    "chats.async.total": "Async chats",
    "chats.async.answer_rate": "Answer rate (async)",
    "chats.async.latency_ms.p95": "Async latency p95 (ms)",
    "feedback.total": "Ratings",
}
# Shares of 1, shown as percent.
SHARES = {"chats.async.answer_rate"}
# The days that the service lists, with one column per metric, like statistics_daily.
LISTED = f"""(
    PIVOT (
        SELECT date, service, tenant_id, site_id, metric, value
        FROM assistant.statistics_history
        WHERE series = 'daily'
    )
    ON metric IN ({", ".join(f"'{metric}'" for metric in TILES)})
    USING max(value) GROUP BY date, service, tenant_id, site_id
)"""  # noqa: S608 (constants)


@dag(
    schedule=[Asset("assistant_warehouse")],
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_weekly_report():
    """Query the view and draw the charts."""

    @task
    def draw(lake: str, database: str) -> dict:
        """Draw one chart per metric, with its latest value and its history."""
        import io

        import duckdb
        from airflow.sdk import ObjectStoragePath
        from matplotlib.figure import Figure

        with duckdb.connect(database, read_only=True) as connection:
            view = connection.table("assistant.statistics_daily")
            source, shown = (
                "assistant.statistics_daily",
                [metric for metric in TILES if metric in view.columns],
            )
            if is_listed := bool(connection.sql(f"FROM {LISTED} LIMIT 1")):
                source, shown = LISTED, list(TILES)
            # If the service has none of these metrics, draw the first six that it has.
            shown = shown or view.columns[5:][:6]
            quoted = (metric.replace('"', '""') for metric in shown)
            medians = "".join(f', median("{metric}")' for metric in quoted)
            days = connection.sql(
                f"""
                SELECT
                    date,
                    count(DISTINCT (service, tenant_id, site_id)) AS sites{medians}
                FROM {source}
                WHERE date > (SELECT max(date) FROM {source}) - {7 * WEEKS}
                GROUP BY date
                ORDER BY date
                """  # noqa: S608 (quoted)
            ).to_arrow_table()
        dates, sites, *columns = (column.to_pylist() for column in days.columns)
        if not dates or not shown:
            return {"path": None, "days": 0, "metrics": 0}

        rows = -(-len(shown) // 3)
        figure = Figure(figsize=(12, 1.1 + 2.3 * rows), facecolor="#f6f7fb", dpi=130)
        tiles = figure.subplots(rows, 3, squeeze=False).flat
        figure.subplots_adjust(
            left=0.035,
            right=0.965,
            bottom=0.06,
            top=1 - 0.85 / figure.get_figheight(),
            wspace=0.08,
            hspace=0.14,
        )
        top = 1 - 0.42 / figure.get_figheight()
        period = f"{dates[0]:%-d %B %Y}" + (
            f" to {dates[-1]:%-d %B %Y}" if len(dates) > 1 else ""
        )
        figure.text(
            0.035,
            top,
            "Assistant",
            fontsize=19,
            fontweight="bold",
            color="#1d2440",
            va="center",
        )
        counts = "counts per day" if is_listed else "counts since the start"
        about = f"{period}  ·  {counts}  ·  " + (
            "1 site" if sites[-1] == 1 else f"median of {sites[-1]} sites"
        )
        figure.text(
            0.965, top, about, fontsize=11, color="#6b7390", va="center", ha="right"
        )
        for tile, metric, values in zip(tiles, shown, columns, strict=False):
            draw_tile(
                tile,
                TILES.get(metric, metric),
                dates,
                values,
                percent if metric in SHARES else number,
            )
        for tile in list(figure.axes)[len(shown) :]:
            tile.set_visible(False)

        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        path = ObjectStoragePath(lake) / "report.png"
        path.write_bytes(picture.getvalue())
        return {"path": str(path), "days": len(dates), "metrics": len(shown)}

    draw(LAKE, WAREHOUSE)


def draw_tile(tile, title, dates, values, write):
    """Draw one metric by day, with its latest value and the change in a week."""
    known = [
        (day, value)
        for day, value in zip(dates, values, strict=True)
        if value is not None
    ]
    tile.set_facecolor("white")
    tile.set(xticks=[], yticks=[])
    for side in tile.spines.values():
        side.set_color("#e3e6f0")
    tile.text(
        0.05,
        0.88,
        title,
        transform=tile.transAxes,
        fontsize=10,
        color="#6b7390",
        va="center",
    )
    last = write(known[-1][1]) if known else "none"
    tile.text(
        0.05,
        0.71,
        last,
        transform=tile.transAxes,
        fontsize=24,
        fontweight="bold",
        color="#1d2440",
        va="center",
    )
    before = [value for day, value in known if (known[-1][0] - day).days == 7]
    if before:
        change = f"{write(known[-1][1] - before[0], sign='+')} in a week"
        tile.text(
            0.95,
            0.71,
            change,
            transform=tile.transAxes,
            fontsize=10,
            color="#6b7390",
            va="center",
            ha="right",
        )
    if not known:
        return
    days, numbers = zip(*known, strict=True)
    low, high = min(numbers), max(numbers)
    space = (high - low) or abs(high) or 1
    floor = low - 0.45 * space
    # Every tile shows the same days, and at least a week.
    first = min(dates[0], dates[-1] - timedelta(days=7))
    tile.set_xlim(
        first - 0.18 * (dates[-1] - first), dates[-1] + 0.06 * (dates[-1] - first)
    )
    for value in sorted({low, high}):
        tile.plot([first, dates[-1]], [value, value], color="#e3e6f0", linewidth=1)
        label = {"fontsize": 8, "color": "#6b7390"}
        tile.annotate(
            write(value),
            (first, value),
            (-4, 0),
            textcoords="offset points",
            va="center",
            ha="right",
            **label,
        )
    for day, side in ((first, "left"), (dates[-1], "right")):
        tile.text(
            day, floor + 0.06 * space, f"{day:%-d %b}", va="bottom", ha=side, **label
        )
    tile.plot(days, numbers, color="#4361ee", linewidth=2, solid_capstyle="round")
    tile.plot(days[-1:], numbers[-1:], "o", color="#4361ee", markersize=7)
    tile.fill_between(days, numbers, low, color="#4361ee", alpha=0.08, linewidth=0)
    # Keep the line in the lower half of the chart.
    tile.set_ylim(floor, high + 1.6 * space)


def number(value, sign=""):
    """Return a number with three significant digits, without decimals from 100 on."""
    return f"{value:{sign},.3g}" if abs(value) < 100 else f"{value:{sign},.0f}"


def percent(value, sign=""):
    """Return a share of 1 as percent, or a signed difference as percentage points."""
    return f"{number(100 * value, sign)} {'points' if sign else '%'}"


assistant_weekly_report()
