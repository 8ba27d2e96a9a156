"""What people do here, done in a browser: look around, sign in, ask, watch, take the result along, publish and withdraw."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

Open = Callable[..., Page]


def test_someone_finds_a_dataset_and_reads_how_private_it_is(visit: Open) -> None:
    page = visit("/")
    expect(page.get_by_role("heading", name="Find data")).to_be_visible()
    page.get_by_role("searchbox", name="Search datasets").fill("weather airports")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".listing > li")).to_have_count(1)  # one table, by two keys
    expect(page.locator(".listing > li .tag.key")).to_have_text(
        ["day · days of 2013", "airport_day · nyc-airports × days of 2013"]
    )
    page.get_by_label("Sort by").select_option("epsilon")
    page.wait_for_url("**sort=epsilon**")
    page.get_by_role("complementary", name="Filters").get_by_role("link", name="nyc-airports").click()
    expect(page.locator(".listing > li")).to_have_count(1)
    page.get_by_role("link", name="Key domain: nyc-airports").click()
    page.locator(".listing").get_by_role("link", name="weather-service").click()
    expect(page.get_by_role("heading", level=1, name="weather-service")).to_be_visible()
    page.get_by_role("link", name="by airport_day").click()
    page.get_by_role("link", name="day", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Hourly weather")).to_be_visible()
    expect(page.get_by_role("rowheader", name="visib")).to_be_visible()
    expect(page.get_by_text("What this protects")).to_be_visible()
    expect(page.get_by_text("7.4 times more or less likely")).to_be_visible()
    for chart in ("profile-chart", "correlations-chart"):
        expect(page.locator(f"figure[data-chart={chart}] svg")).to_be_visible()
    page.get_by_text("The plan: noise of every block").click()
    expect(page.get_by_role("cell", name="per key").first).to_be_visible()
    assert "from saibot.client import" in page.locator("#use .copy code").inner_text()


def test_restricted_datasets_show_to_requesters_only(visit: Open) -> None:
    assert visit("/").get_by_text("American flights").count() == 0
    assert visit("/", user="delta").get_by_text("American flights").count() == 0
    expect(visit("/", user="ana").get_by_text("American flights")).to_be_visible()


def test_a_requester_signs_in_asks_watches_and_takes_the_result_along(
    visit: Open, site: Any, browser: Browser, tmp_path: Path
) -> None:
    page = visit("/ask")
    page.get_by_role("main").get_by_role("link", name="Sign in").click()
    page.get_by_label("Access token").fill(site.tokens["ana"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site.address}/ask")

    page.get_by_label("Training sketch").set_input_files(
        {"name": "rows.csv", "mimeType": "text/csv", "buffer": b"day,arr_delay\n2013-01-01,5\n"}
    )
    expect(page.locator("#train-told")).to_contain_text("was not sent")
    expect(page.locator("#train-instead code")).to_have_text(
        "saibot privatize rows.csv --card CARD.toml --key KEY --epsilon 1"
    )
    expect(page.locator("#train-instead").get_by_role("button", name="Copy")).to_be_visible()
    page.get_by_label("Training sketch").set_input_files(site.sketches / "train.saibot")
    expect(page.locator("#train-told")).to_contain_text("arr_delay, dep_delay, distance, by day")
    page.get_by_label("Held-out sketch").set_input_files(site.sketches / "test.saibot")
    page.get_by_label("Target").select_option("arr_delay")
    page.get_by_role("button", name="Search").click()

    page.wait_for_url("**/searches/s*")
    expect(page.get_by_role("heading", level=1, name="What explains arr_delay")).to_be_visible()
    expect(page.locator("#ranked")).to_be_visible()
    expect(page.locator("figure[data-chart=gains-chart] svg")).to_be_visible()
    rows = page.locator("#ranked tbody tr")
    assert rows.count() >= 5
    page.get_by_label("Show only candidates with").fill("precip")
    assert {"precip" in row.inner_text() for row in rows.all() if row.is_visible()} == {True}
    page.get_by_role("button", name="Rows").click()
    expect(page.get_by_role("columnheader", name="Rows")).to_have_attribute("aria-sort", "descending")

    taken = {}
    for name in ("JSON", "CSV", "Report"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name, exact=True).click()
        taken[name] = tmp_path / download.value.suggested_filename
        download.value.save_as(taken[name])
    document = json.loads(taken["JSON"].read_text(encoding="utf-8"))
    assert document["format"] == "saibot-result" and document["target"] == "arr_delay"
    lines = list(csv.DictReader(io.StringIO(taken["CSV"].read_text(encoding="utf-8-sig"))))
    assert len(lines) == len(document["ranked"])

    offline = browser.new_context(offline=True, java_script_enabled=False)
    report = offline.new_page()
    asked: list[str] = []
    report.on("request", lambda request: asked.append(request.url))
    report.goto(taken["Report"].as_uri())
    expect(report.get_by_role("heading", level=1, name="What explains arr_delay")).to_be_visible()
    expect(report.locator(".drawing svg").first).to_be_visible()
    assert asked == [taken["Report"].as_uri()]
    offline.close()

    page.get_by_role("button", name="Delete this result").click()
    expect(page.get_by_role("status").filter(has_text="removed")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    assert "saibot_session" not in {cookie["name"] for cookie in page.context.cookies()}


def test_a_search_that_waits_can_be_cancelled(visit: Open, site: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(site.platform.searches, "next", lambda **_: None)  # nobody takes it from the queue
    page = visit("/ask", user="ana")
    page.get_by_label("Training sketch").set_input_files(site.sketches / "train.saibot")
    expect(page.locator("select[name=target]")).to_be_visible()  # made of the sketch's features
    page.get_by_label("Target").select_option("dep_delay")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator("[data-stage]")).to_contain_text("waiting")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    page.get_by_role("link", name="Searches").first.click()
    expect(page.locator(".status.cancelled").first).to_be_visible()


def test_without_script_a_table_is_refused_by_the_server_with_the_command_to_run(visit: Open, watch: Any, site: Any) -> None:
    page = visit("/ask", user="ana", java_script_enabled=False)
    watch.expected = ("422",)  # the browser notes the answer's status
    page.get_by_label("Training sketch").set_input_files(
        {"name": "my rows.csv", "mimeType": "text/csv", "buffer": b"day,arr_delay\n2013-01-01,5\n"}
    )
    page.get_by_label("Target").fill("arr_delay")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a sketch")
    expect(page.get_by_role("alert")).to_contain_text("saibot privatize 'my rows.csv' --card CARD.toml")
    assert page.get_by_label("Target").input_value() == "arr_delay"


def test_a_wrong_target_is_named_and_what_was_typed_stays(visit: Open, watch: Any, site: Any) -> None:
    page = visit("/ask", user="ana", java_script_enabled=False)
    watch.expected = ("422",)
    page.get_by_label("Training sketch").set_input_files(site.sketches / "train.saibot")
    page.get_by_label("Target").fill("profit")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_contain_text("arr_delay, dep_delay, distance")
    assert page.get_by_label("Target").input_value() == "profit"


def test_a_provider_sees_its_budget_and_withdraws_after_confirming(visit: Open, site: Any) -> None:
    site.publish("newcomer", "dl")
    page = visit("/budget", user="newcomer")
    expect(page.get_by_text("ε 0.88", exact=True)).to_be_visible()  # by the ledger, at its larger δ
    page.get_by_role("link", name="newcomer").click()
    expect(page.get_by_text("this one")).to_be_visible()
    page.get_by_role("link", name="Budget").click()
    page.get_by_role("link", name="Withdraw").click()
    page.get_by_role("button", name="Withdraw for good").click()
    assert "/withdraw" in page.url, "without the tick nothing is sent"
    page.get_by_label("I understand").check()
    page.get_by_role("button", name="Withdraw for good").click()
    expect(page.get_by_role("status")).to_contain_text("withdrawn")
    expect(page.get_by_role("heading", name="Nothing published yet")).to_be_visible()
    page.goto(f"{site.address}/?provider=newcomer")
    expect(page.get_by_text("Nothing fits all of that")).to_be_visible()


def test_the_plan_page_answers_while_a_slider_moves(visit: Open, watch: Any) -> None:
    page = visit("/plan?rows=20000&keys=1000&features=2&epsilon=0.5")
    before = page.locator("#expected .score b").inner_text()
    slider = page.get_by_role("slider", name="ε slider")
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#expected .score b")).not_to_have_text(before)
    assert float(page.locator("#epsilon").input_value()) > 1.5
    expect(page.locator("#expected figure svg")).to_be_visible()
    chosen = re.escape(page.locator("#epsilon").input_value())
    expect(page).to_have_url(re.compile(rf"[?&]epsilon={chosen}(&|$)"))  # the answer to the last of them
    shown = page.locator("#expected .score b").inner_text()
    page.reload()
    expect(page.locator("#expected .score b")).to_have_text(shown)
    page.get_by_label("Keys", exact=True).fill("0")
    expect(page.get_by_role("row", name="Rows per key")).to_have_count(0)
    watch.expected = ("422",)  # which a browser tells its console
    page.get_by_label("Rows", exact=True).fill("9999999999")
    page.get_by_label("Rows", exact=True).blur()
    expect(page.locator("#problem")).to_contain_text("Rows lies between 0 and 1,000,000,000.")
    expect(page.locator("#rows[aria-invalid=true]")).to_have_accessible_error_message(
        "Rows lies between 0 and 1,000,000,000."
    )
    page.get_by_label("Rows", exact=True).fill("5000")
    expect(page.locator("[aria-invalid], #wrong, #problem .note")).to_have_count(0)
