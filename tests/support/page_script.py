"""The page's scripts without a browser: run by the node that comes with playwright, module by module, as written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import saibot.ask_page

SCRIPTS = Path(saibot.ask_page.__file__).parent / "script"
_AROUND = """
import { readFileSync } from "node:fs";
const data = JSON.parse(readFileSync(0, "utf-8"));
const page = (name) => import(`%s/${name}.js`);
const answer = await (async () => {
%s
})();
const plain = (_, value) =>
  typeof value === "bigint" ? String(value) : ArrayBuffer.isView(value) ? Array.from(value) : value;
process.stdout.write(JSON.stringify({ answer }, plain));
"""


def run_script(body: str, data: Any = None) -> Any:
    """What `body` returns: it may await `page("plan")` for a module, and has `data`. Big whole numbers come as texts."""
    from playwright._impl._driver import compute_driver_executable

    node = str(compute_driver_executable()[0])
    script = _AROUND % (SCRIPTS.as_uri(), body)
    done = subprocess.run(
        [node, "--input-type=module", "-e", script],
        input=json.dumps(data, ensure_ascii=True),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout).get("answer")
