"""The Spark that this process works with: one's own session, a cluster's, or one on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from typing import Any

from saibot.errors import InvalidInput
from saibot.extras import how_to_install


def check_spark() -> None:
    """Whether Spark could start here, told before anything else is done."""
    if find_spec("pyspark") is None:
        raise InvalidInput("the engine spark is not installed.", hint=how_to_install("spark"))
    if not os.environ.get("SPARK_REMOTE") and not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise InvalidInput("Spark needs Java 17 or 21.", hint="On Debian: apt-get install openjdk-17-jre-headless.")


def open_session(master: str | None = None) -> Any:
    """The session that is active already, else a new one at `master`, else where Spark's own settings say (SPARK_REMOTE,
    spark.master in spark-defaults.conf), else on all cores of this machine."""
    check_spark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        if master is not None and active.conf.get("spark.master") != master:
            raise InvalidInput(
                "this process has a Spark session already, with another master.",
                hint="Stop that session, or leave the master out.",
            )
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else executors take the first python3 there is
    builder = SparkSession.builder.appName("saibot")
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    if master is not None:
        builder = builder.master(master)
    try:
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except Exception as problem:
        raise InvalidInput(
            f"Spark does not start ({type(problem).__name__}).",
            hint="It needs Java 17 or 21, and the cluster that was named has to answer.",
        ) from None


def spark_context(master: str | None = None) -> Any:
    """What starts tasks in such a session."""
    session = open_session(master)
    if not hasattr(session, "sparkContext"):
        raise InvalidInput(
            "a search starts tasks of its own, which Spark Connect does not offer.",
            hint="Leave SPARK_REMOTE out, and name the cluster with --master.",
        )
    return session.sparkContext
