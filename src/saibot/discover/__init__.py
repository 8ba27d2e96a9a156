"""Which sketches can be joined or unioned with a request, and why."""

from saibot.discover.unions import Addable, FeatureMap, NotAddable, find_unions, match_union

__all__ = ["Addable", "FeatureMap", "NotAddable", "find_unions", "match_union"]
