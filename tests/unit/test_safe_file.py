"""Files are written all at once: whole under their name, or not there."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from saibot.safe_file import UNFINISHED, create_safely, move_safely, write_safely, writing

SOURCE = Path(__file__).parents[2] / "src" / "saibot"


@pytest.mark.parametrize(("public", "mode"), [(False, 0o600), (True, 0o644)])
def test_content_is_private_unless_it_is_public(tmp_path: Path, public: bool, mode: int) -> None:
    path = tmp_path / "deep" / "one"
    write_safely(path, b"content", public=public)
    assert path.read_bytes() == b"content" and stat.S_IMODE(path.stat().st_mode) == mode
    assert [one.name for one in path.parent.iterdir()] == ["one"]


def test_what_is_not_finished_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"before")
    seen = []

    def break_off() -> None:
        with writing(tmp_path / "one") as temporary:
            temporary.write_bytes(b"half")
            seen.append((temporary.name.startswith(UNFINISHED), (tmp_path / "one").read_bytes()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert seen == [(True, b"before")]
    assert [path.name for path in tmp_path.iterdir()] == ["one"] and (tmp_path / "one").read_bytes() == b"before"


def test_a_file_that_is_moved_takes_the_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"before")
    (tmp_path / "part").write_bytes(b"after")
    move_safely(tmp_path / "part", tmp_path / "one")
    assert [path.name for path in tmp_path.iterdir()] == ["one"] and (tmp_path / "one").read_bytes() == b"after"


def test_a_name_that_is_taken_stays_as_it_is(tmp_path: Path) -> None:
    create_safely(tmp_path / "one", b"first")
    create_safely(tmp_path / "one", b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["one"] and (tmp_path / "one").read_bytes() == b"first"


def test_nobody_else_replaces_files_by_hand() -> None:
    by_hand = re.compile(r"os\.(replace|rename|fsync)\(")
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if by_hand.search(path.read_text())}
    assert found == {"safe_file.py"}
