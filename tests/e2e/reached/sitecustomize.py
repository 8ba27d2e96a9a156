"""Notes every function of the package that a process calls, at once, in a file that outlives the process.

Python loads this before anything else in every process whose PYTHONPATH begins with this folder: workers and servers that
a story starts count like the story itself, also those that end by a kill. A trace function that returns None is called once
per call of a function, and for no line of it.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType

if notes := os.environ.get("PYTHON_REACHED_NOTES"):
    _package = os.environ["PYTHON_REACHED_PACKAGE"]
    _handle = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    _seen: dict[int, CodeType] = {}  # held, so that no other code gets its place in memory

    def _note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if id(code) not in _seen:
            _seen[id(code)] = code
            if code.co_filename.startswith(_package):
                os.write(_handle, f"{code.co_filename}\t{code.co_qualname}\n".encode())

    sys.settrace(_note)
    threading.settrace(_note)
