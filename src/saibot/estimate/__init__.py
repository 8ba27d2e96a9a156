"""From sketches to numbers: totals, profiles, joins, regressions and their errors. Post-processing, all of it: no budget."""

from saibot.estimate.profile import Profile, profile
from saibot.estimate.totals import Totals, totals

__all__ = ["Profile", "Totals", "profile", "totals"]
