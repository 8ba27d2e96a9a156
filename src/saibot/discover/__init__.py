"""Which sketches can be joined or unioned with a request: public key domains, their values, schemas and private profiles."""

from saibot.discover.closest import Closest, Match, closest, closest_to_domain
from saibot.discover.columns import Column, RequestKey
from saibot.discover.domain_file import DomainCard
from saibot.discover.domains import DomainRegistry, DomainSource, generated_domain
from saibot.discover.errors import DomainConflict, UnknownDomain
from saibot.discover.filters import Filter, Range, Verdict, check_header, check_sketch, filter_sketches
from saibot.discover.index import DomainIndex, Place
from saibot.discover.joins import ColumnMatch, Join, Joinable, JoinFinder, NotJoinable, find_joins, row_index
from saibot.discover.minhash import Containment, KeySample, containment
from saibot.discover.unions import Addable, FeatureMap, NotAddable, find_unions, match_union

__all__ = [
    "Addable",
    "Closest",
    "Column",
    "ColumnMatch",
    "Containment",
    "DomainCard",
    "DomainConflict",
    "DomainIndex",
    "DomainRegistry",
    "DomainSource",
    "FeatureMap",
    "Filter",
    "Join",
    "JoinFinder",
    "Joinable",
    "KeySample",
    "Match",
    "NotAddable",
    "NotJoinable",
    "Place",
    "Range",
    "RequestKey",
    "UnknownDomain",
    "Verdict",
    "check_header",
    "check_sketch",
    "closest",
    "closest_to_domain",
    "containment",
    "filter_sketches",
    "find_joins",
    "find_unions",
    "generated_domain",
    "match_union",
    "row_index",
]
