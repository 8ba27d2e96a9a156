"""Every block of code on every page is run, or parsed, or says to readers why it cannot be."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from sitebuild.blocks import Block, all_blocks, blocks_of, pages
from tests.support.page_blocks import COMMAND, PageStory, lines_missing, typed_commands
from tests.support.page_worlds import WORLDS
from tests.support.quick_commands import quick_saibot

BLOCKS = all_blocks()
RUN = sorted({block.page for block in BLOCKS if block.kind in ("shell", "console", "Python")})
PARSED = [block for block in BLOCKS if block.kind not in ("shell", "console", "Python", "TOML")]


@pytest.fixture(scope="module")
def commands(full: bool) -> Iterator[Path]:
    """A folder with `saibot` in it: the installed command in the long form, one that starts at once otherwise."""
    if full:
        yield Path(sys.executable).parent
        return
    with quick_saibot() as folder:
        yield folder


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", RUN)
def test_what_a_page_tells_readers_to_type_works(page: str, tmp_path: Path, commands: Path, full: bool) -> None:
    assert shutil.which("curl"), "pages use curl; on Debian: apt-get install curl"
    story = PageStory(tmp_path, commands)
    with WORLDS[page](story) if page in WORLDS else nullcontext():
        try:
            for block in (one for one in BLOCKS if one.page == page and not one.not_run):
                if full or not block.long:
                    story.run(block)
        finally:
            story.close()


@pytest.mark.parametrize("block", PARSED, ids=lambda block: block.place)
def test_what_a_page_shows_is_what_it_says_it_is(block: Block, tmp_path: Path) -> None:
    PageStory(tmp_path, tmp_path).run(block)


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.kind == "TOML"], ids=lambda block: block.place)
def test_every_toml_block_is_a_card_or_parts_of_one(block: Block, tmp_path: Path) -> None:
    PageStory(tmp_path, tmp_path).run(block)


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.not_run], ids=lambda block: block.place)
def test_what_is_not_run_has_a_reason_and_is_at_least_spelled_right(block: Block, tmp_path: Path) -> None:
    assert len(block.not_run.split()) >= 3, "say why"
    if block.kind == "shell":
        story = PageStory(tmp_path, tmp_path)
        assert story.spelled(block.text) == ""
    elif block.kind == "Python":
        compile(block.text, block.place, "exec")


def test_pages_without_a_world_are_not_listed_as_having_one() -> None:
    assert set(WORLDS) <= set(RUN)


@pytest.mark.parametrize("page, text", pages().items(), ids=list(pages()))
def test_no_command_hides_in_an_indented_block(page: str, text: str) -> None:
    outside = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    hidden = [line for line in re.findall(r"(?<=\n\n)((?:    .*\n)+)", outside) if COMMAND.match(line)]
    assert hidden == [], "use a fence with a language"


# ------------------------------------------------------------------------------------------------ the tests can fail


def test_a_block_that_fails_is_noticed(tmp_path: Path, commands: Path) -> None:
    story = PageStory(tmp_path, commands)
    for text in (
        "```sh\nfalse\n```",
        "```sh\nsaibot nonsense\n```",
        "```python\n1 / 0\n```",
        "```toml\n[dataset]\nnme = 1\n```",
    ):
        (block,) = blocks_of("page.md", text)
        with pytest.raises(Exception, match=r"page\.md|division|unknown field"):
            story.run(block)


def test_a_console_that_shows_other_words_is_noticed(tmp_path: Path, commands: Path) -> None:
    story = PageStory(tmp_path, commands)
    (right,) = blocks_of("page.md", "```console\n$ echo 17 rows of 3 keys\n12 rows of 4 keys\n```")
    (wrong,) = blocks_of("page.md", "```console\n$ echo 17 rows of 3 keys\n17 rows of 3 columns\n```")
    story.run(right)
    with pytest.raises(AssertionError, match="does not say"):
        story.run(wrong)


def test_shown_lines_have_to_come_in_their_order() -> None:
    assert lines_missing(["one", "two"], "one\ntwo\n") == []
    assert lines_missing(["two", "one"], "one\ntwo\n") == ["one"]
    assert lines_missing(["one", "…", "three 3"], "one\ntwo\nthree 5\n") == []


def test_commands_and_what_they_print_are_told_apart() -> None:
    assert list(typed_commands("$ a \\\n> b\nsaid\n$ c\n")) == [("a \\\nb\n", ["said"]), ("c\n", [])]


def test_a_shell_remembers_what_was_exported_and_where_it_is(tmp_path: Path) -> None:
    story = PageStory(tmp_path, tmp_path)
    for text in (
        "```sh\nmkdir inner && cd inner\nexport WHO=me\n```",
        '```sh\ntest "$WHO" = me && test "${PWD##*/}" = inner\n```',
    ):
        (block,) = blocks_of("page.md", text)
        story.run(block)


def test_a_block_of_an_unknown_language_or_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody knows what to do"):
        list(blocks_of("page.md", "```cobol\n```"))
    with pytest.raises(ValueError, match="never closed"):
        list(blocks_of("page.md", "```sh\nls\n"))
