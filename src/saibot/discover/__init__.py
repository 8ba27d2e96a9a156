"""Which sketches can be joined or unioned with a request, how far, and why not."""

from saibot.discover.joins import Joinable, KeyLists, Meeting, Meetings, NotJoinable, OwnKeys
from saibot.discover.related import JoinsWith, Related, Subject, UnionsWith, Unrelated, related
from saibot.discover.unions import Addable, FeatureMap, NotAddable, find_unions, match_union

__all__ = [
    "Addable",
    "FeatureMap",
    "Joinable",
    "JoinsWith",
    "KeyLists",
    "Meeting",
    "Meetings",
    "NotAddable",
    "NotJoinable",
    "OwnKeys",
    "Related",
    "Subject",
    "UnionsWith",
    "Unrelated",
    "find_unions",
    "match_union",
    "related",
]
