"""What MkDocs calls while it builds: pages that lie elsewhere in the repository join in, links follow them, and what was
written is put into the search index."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from sitebuild import borrowed, look, notebooks, python_reference, rows_per_key
from sitebuild.search_index import SearchIndex

FIGURE = "<!-- the picture of rows per key -->"
_FIGURE = (
    "\n\n"
    + "".join(
        f'<img class="plot only-{scheme}" src="rows-per-key-{scheme}.svg" alt="Share of R² that survives against rows '
        'per key, for four budgets: an S-shaped curve each, half at about 55 rows per key and epsilon 1">'
        for scheme in notebooks.INK
    )
    + "\n\n"
)
ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_index = SearchIndex()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    _index.clear()
    for name, text in {**borrowed.pages(), **python_reference.pages()}.items():
        files.append(File.generated(config, name, content=text))
    for name, page in notebooks.pages(quick=config.extra["quick"]).items():
        files.append(File.generated(config, name, content=page.markdown))
        for picture, content in page.pictures.items():
            files.append(File.generated(config, picture, content=content))
    for scheme, content in rows_per_key.drawn().items():
        files.append(File.generated(config, f"rows-per-key-{scheme}.svg", content=content))
    shown = _pictures_in(files)
    for file in list(files):
        if file.src_dir == config.docs_dir and not file.is_documentation_page() and file.src_uri not in shown:
            files.remove(file)  # screenshots that no page shows stay in the repository
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links to files of the repository become links to the pages made of them."""
    return _moved_links(markdown.replace(FIGURE, _FIGURE), page.file.src_uri)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    _index.add(page.url, _part(page), page.title or "", html)
    wrapped = re.sub(r"<table>", '<div class="table" tabindex="0" role="region" aria-label="Table"><table>', html)
    html = wrapped.replace("</table>", "</table></div>")
    html = re.sub(r"<pre>", '<pre tabindex="0">', html)  # long lines scroll, by keyboard as well
    html = re.sub(
        r"<p>((?:<img [^>]*>)+)</p>", r'<div class="picture" tabindex="0" role="region" aria-label="Picture">\1</div>', html
    )
    html = re.sub(r'<span class="filename">(?!Not run)', '<span class="filename file">', html)
    return re.sub(r'<img (?!class="plot)', '<img loading="lazy" ', html)  # plots have no size until they are there


def on_post_build(config: MkDocsConfig) -> None:
    assets = Path(config.site_dir) / "assets"
    (assets / "index.js").write_text(_index.script(), encoding="utf-8")
    (assets / "look.css").write_text(look.stylesheet(), encoding="utf-8")
    (assets / "favicon.svg").write_bytes(look.FAVICON.read_bytes())


# ------------------------------------------------------------------------------------------------ inside


def _part(page: Page) -> str:
    parents = [str(one.title) for one in reversed(list(page.ancestors))]
    return " › ".join(parents) or "Start"


def _moved_links(markdown: str, place: str) -> str:
    """Links of a page at `place` below docs/: those that lead out of docs/ lead to the page that stands for the file."""
    folder = (Path("docs") / place).parent

    def moved(found: re.Match[str]) -> str:
        link, _, anchor = unquote(found[2]).partition("#")
        if not link or re.match(r"[a-z]+:|/", link):
            return found[0]
        target = os.path.normpath(folder / link)
        if target not in STANDS_FOR:
            return found[0]
        path = os.path.relpath(Path("docs") / STANDS_FOR[target], folder)
        return f"{found[1]}{path}{'#' + anchor if anchor else ''}{found[3]}"

    return _LINK.sub(moved, markdown)


STANDS_FOR = borrowed.stands_for() | notebooks.stands_for()


def _pictures_in(files: Files) -> set[str]:
    shown = set()
    for file in files.documentation_pages():
        folder = Path(file.src_uri).parent
        for link in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)|<img[^>]+src=\"([^\"]+)\"", file.content_string):
            shown.add(os.path.normpath(folder / unquote("".join(link)).partition("#")[0]))
    return shown
