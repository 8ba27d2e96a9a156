"""Which sketches can be joined or unioned with a request, how far, and why not."""

from saibot.discover.joins import Joinable, KeyLists, Meeting, Meetings, NotJoinable, OwnKeys
from saibot.discover.related import Subject, related
from saibot.discover.unions import Addable, FeatureMap, NotAddable, find_unions, match_union

__all__ = [
    "Addable",
    "FeatureMap",
    "Joinable",
    "KeyLists",
    "Meeting",
    "Meetings",
    "NotAddable",
    "NotJoinable",
    "OwnKeys",
    "Subject",
    "find_unions",
    "match_union",
    "related",
]
