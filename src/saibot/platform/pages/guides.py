"""Which place of the guide a page of the platform belongs to: the link called Help in its head."""

from __future__ import annotations

PAGES = "guides/use-the-pages.html"
GUIDES = {  # template -> page of the guide, with the place on it
    "about.html": f"{PAGES}#dataset",
    "account.html": f"{PAGES}#signing-in",
    "admin.html": "guides/run-a-platform.html#tokens",
    "ask.html": f"{PAGES}#ask",
    "budget.html": f"{PAGES}#budget",
    "catalogue.html": f"{PAGES}#catalogue",
    "comparison.html": f"{PAGES}#result",
    "dataset.html": f"{PAGES}#dataset",
    "docs.html": "guides/work-over-http.html",
    "domain.html": f"{PAGES}#keys",
    "domains.html": f"{PAGES}#keys",
    "enquire.html": "guides/ask-for-more.html",
    "enquiries.html": "guides/ask-for-more.html",
    "enquiry.html": "guides/ask-for-more.html",
    "error.html": "index.html",
    "help.html": "index.html",
    "plan.html": "index.html#how-many-rows-a-key-it-takes",
    "provider.html": f"{PAGES}#provider",
    "result.html": "guides/search-for-tables.html#reading-the-result",
    "search.html": f"{PAGES}#result",
    "searches.html": f"{PAGES}#result",
    "sign_in.html": f"{PAGES}#signing-in",
    "withdraw.html": f"{PAGES}#budget",
}


def guide_to(template: str) -> str:
    """The address of the guide to a page."""
    return f"/help/{GUIDES[template]}"
