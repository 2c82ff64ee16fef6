"""A report in a real browser, from a file and without a network: `make browser-test`.

Needs Chromium and its driver on the path (Debian: chromium, chromium-driver).
"""

import base64
import json
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

import sweeper
from sweeper.reports.page import Asked, write_report
from tests.support.large_study import large_study

pytestmark = pytest.mark.browser
CHARTS = ("heat_map", "pareto", "curves", "parallel", "breakdown", "roofline", "tornado")
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1300,1000"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WAIT_S = 120.0


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert binary and driver, "these tests need chromium and chromedriver (Debian: chromium, chromium-driver)"
    options = Options()
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    opened.set_network_conditions(offline=True, latency=0, throughput=0)
    yield opened
    opened.quit()


def page_of(study: dict[str, Any], place: Path) -> tuple[str, Path]:
    plan = sweeper.plan(study)
    run = sweeper.run(plan, out=place / "results", quiet=True).directory
    write_report([Asked(run, plan)], place / "page.html")
    return run, place / "page.html"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return page_of(large_study(6, 3), tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return page_of(large_study(47), tmp_path_factory.mktemp("large"))


def opened(browser: webdriver.Chrome, page: Path) -> float:
    """Open a page, wait until it can be used; milliseconds that this took in the browser."""
    browser.get_log("browser")
    browser.get(page.as_uri())
    ready = "return document.documentElement.dataset.ready"
    WebDriverWait(browser, WAIT_S, 0.05).until(lambda found: found.execute_script(ready))
    return float(browser.execute_script(ready))


def drawn(browser: webdriver.Chrome, chart: str) -> list[dict[str, Any]]:
    """Bring a chart into sight; what Plotly then shows, trace by trace."""
    browser.execute_script(f"document.querySelector('.chart[data-chart={chart}]').scrollIntoView({{block: 'center'}})")
    get = f"""const plot = document.querySelector('.chart[data-chart={chart}] .plot');
        const report = document.querySelector('article').report;
        const picture = report.pictures.find((other) => other.name === '{chart}');
        if (!plot.data || picture.stale) return null;
        const sizes = plot.data.map((trace) => [...(trace.x || trace.z || trace.dimensions[0].values)].length);
        return JSON.stringify(plot.data.map((trace, at) => ({{type: trace.type, name: trace.name, size: sizes[at],
            x: [...(trace.x || [])], z: trace.z || null}})));"""
    text = WebDriverWait(browser, WAIT_S, 0.05).until(lambda found: found.execute_script(get))
    traces: list[dict[str, Any]] = json.loads(text)
    return traces


def painted(browser: webdriver.Chrome, chart: str) -> bool:
    """Whether there is something in the picture of a chart, which a canvas gets after its data."""
    picture = browser.find_element("css selector", f".chart[data-chart={chart}] .plot").screenshot_as_base64
    pixels = np.asarray(Image.open(BytesIO(base64.b64decode(picture))).convert("L"))
    return bool((pixels < 250).mean() > 0.01)


def severe(browser: webdriver.Chrome) -> list[str]:
    """Errors of the console, and warnings but for those of a machine without a GPU."""
    return [each["message"] for each in browser.get_log("browser") if "WebGL" not in each["message"]]


def click(browser: webdriver.Chrome, axis: str, text: str) -> None:
    """Change a filter as a person would: open it, click."""
    browser.execute_script("window.scrollTo(0, document.querySelector('.filters').offsetTop)")
    browser.execute_script(f"document.querySelector('.filter[data-axis={axis}]').open = true")
    for node in browser.find_elements(
        "css selector", f".filter[data-axis={axis}] label, .filter[data-axis={axis}] button"
    ):
        if node.text.strip() == text:
            node.click()
            return
    raise AssertionError(f"no {text} in the filter of {axis}")


def count(browser: webdriver.Chrome) -> str:
    return str(browser.find_element("css selector", ".count").text)


def test_every_chart_is_there_with_data_and_looks_like_something(
    browser: webdriver.Chrome, small: tuple[str, Path]
) -> None:
    opened(browser, small[1])
    for chart in CHARTS:
        assert sum(trace["size"] for trace in drawn(browser, chart)) > 1, chart
        WebDriverWait(browser, WAIT_S, 0.1).until(lambda found, chart=chart: painted(found, chart), f"{chart} is blank")
    assert severe(browser) == []
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert [name for name in fetched if not name.startswith(("data:", "blob:"))] == []


def test_a_filter_changes_what_is_shown(browser: webdriver.Chrome, small: tuple[str, Path]) -> None:
    run, page = small
    opened(browser, page)
    frame = sweeper.scan(run).collect()
    assert count(browser) == "648 of 648 rows: no filter"
    before = drawn(browser, "pareto")
    assert sum(trace["size"] for trace in before[:-1]) == 648
    click(browser, "partitioning", "vendor_8x1")
    assert count(browser) == "432 of 648 rows: partitioning dfmodel_8x1, kernel_by_kernel"
    after = drawn(browser, "pareto")
    kept = frame.filter(pl.col("partitioning").cast(pl.String) != "vendor_8x1")
    assert sorted(x for trace in after[:-1] for x in trace["x"]) == pytest.approx(
        kept["iteration_time_s"].sort().to_list(), rel=1e-6
    )
    click(browser, "partitioning", "none")
    assert count(browser).startswith("0 of 648 rows")
    click(browser, "partitioning", "all")
    assert drawn(browser, "pareto")[:-1] == before[:-1]
    assert severe(browser) == []


def test_a_heat_map_shows_the_best_of_the_other_axes(browser: webdriver.Chrome, small: tuple[str, Path]) -> None:
    run, page = small
    opened(browser, page)
    (trace,) = drawn(browser, "heat_map")
    chosen = "const picture = document.querySelector('article').report.pictures[0].chosen;"
    axes = browser.execute_script(f"{chosen} return [picture.x.name, picture.y.name]")
    cells = sweeper.scan(run).group_by(axes).agg(pl.col("iteration_time_s").min())
    best = cells.collect()["iteration_time_s"].to_list()
    assert sorted(10.0**value for row in trace["z"] for value in row) == pytest.approx(sorted(best), rel=1e-5)


def test_the_front_is_the_pareto_front(browser: webdriver.Chrome, small: tuple[str, Path]) -> None:
    from sweeper.views.analysis import pareto

    run, page = small
    opened(browser, page)
    *_, front = drawn(browser, "pareto")
    expected = pareto(sweeper.scan(run), {"iteration_time_s": "minimise", "utilisation": "maximise"})
    assert sorted(front["x"]) == pytest.approx(expected["iteration_time_s"].sort().to_list(), rel=1e-6)


def test_rows_are_sorted_turned_and_downloaded(browser: webdriver.Chrome, small: tuple[str, Path]) -> None:
    run, page = small
    opened(browser, page)

    def cells() -> list[str]:
        return [node.text for node in browser.find_elements("css selector", "table.rows tbody td:first-child")]

    assert len(cells()) == 50 and cells()[0] == "0"
    heads = browser.find_elements("css selector", "table.rows th")
    (time_head,) = (head for head in heads if head.text.startswith("iteration_time_s"))
    browser.execute_script("arguments[0].click()", time_head)
    ranked = sweeper.scan(run).sort("iteration_time_s", "point_id").collect()["point_id"].cast(pl.String).to_list()
    assert cells()[0] == ranked[0]
    browser.execute_script("arguments[0].click()", time_head)
    assert cells()[0] != ranked[0]
    csv = browser.execute_script("return document.querySelector('article').report.table.csv()")
    frame = pl.read_csv(BytesIO(csv.encode()))
    assert frame.height == 648 and frame["iteration_time_s"].is_sorted(descending=True)
    expected = sweeper.scan(run).sort("point_id").collect()
    assert frame.sort("point_id")["utilisation"].to_list() == pytest.approx(expected["utilisation"].to_list(), rel=1e-6)
    assert severe(browser) == []


def test_a_page_of_draws_begins_with_the_numbers_themselves(browser: webdriver.Chrome, tmp_path: Path) -> None:
    study = sweeper.load("a100_hbm_count").written.plain()
    study["axes"]["draw"] = {"range": [0, 99, 1]}
    opened(browser, page_of(study, tmp_path)[1])
    assert count(browser) == "6 of 1,300 rows: draw 0; task inference"
    ends = browser.find_elements("css selector", ".filter[data-axis=draw] input")
    assert [end.get_attribute("value") for end in ends] == ["0", "0"]
    heads = browser.execute_script("return document.querySelector('article').report.pictures[0].chosen.x.name")
    assert heads != "draw" and drawn(browser, "pareto") and severe(browser) == []
    note = browser.find_element("css selector", ".chart[data-chart=pareto] > .note").text
    assert note.endswith("least iteration_time_s, most tokens_per_s")


def test_choices_redraw(browser: webdriver.Chrome, small: tuple[str, Path]) -> None:
    opened(browser, small[1])
    before = drawn(browser, "curves")
    for chart in CHARTS:
        for select in browser.find_elements("css selector", f".chart[data-chart={chart}] select"):
            options = select.find_elements("tag name", "option")
            options[-1].click()
            assert drawn(browser, chart)
    assert drawn(browser, "curves") != before
    assert severe(browser) == []


def test_a_hundred_thousand_rows(
    browser: webdriver.Chrome, large: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """How long it takes is printed, not judged: that depends on what else this machine does."""
    _, page = large
    times = [opened(browser, page) for _ in range(3)]
    assert count(browser) == "100,000 of 100,000 rows: no filter"
    filtered = browser.execute_async_script(
        """const done = arguments[arguments.length - 1]; const begun = performance.now();
        const report = document.querySelector('article').report;
        report.filters.passing.values().next().value[0] = 0; report.changed(); done(performance.now() - begun);"""
    )
    for chart in CHARTS:
        assert drawn(browser, chart) or chart in ("breakdown", "roofline"), chart
    assert severe(browser) == []
    with capsys.disabled():
        size = page.stat().st_size / 2**20
        print(f"\n100,000 rows, {size:.1f} MiB: usable after {min(times):,.0f} ms, a filter takes {filtered:,.0f} ms")
