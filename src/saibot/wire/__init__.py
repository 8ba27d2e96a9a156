"""What search, client and platform exchange, typed once: options, results, datasets, domains, searches, enquiries, accounts.

Types only. The commands' flags, the HTTP interface, the client's answers, the pages and result files on disk are all made
from these, so a field that is added or renamed here is so everywhere.
"""

from saibot.wire.about import About
from saibot.wire.account import Account, Me, NewToken, Role, Token
from saibot.wire.dataset import CorpusEntry, Dataset, JoinKeyPart, ShownDataset, Uses
from saibot.wire.domain import Domain
from saibot.wire.enquiry import DatasetGrant, Enquire, Enquiry, EnquiryGrant, EnquiryRefusal
from saibot.wire.explored import FitOnRows, KeyResiduals, ModelOnRows, OtherBudgets, PlotCell, WhatIf
from saibot.wire.factors import FactorsEntry
from saibot.wire.options import InvalidOption, Question, SearchOptions
from saibot.wire.provider import AccountKey, EarlierKey, Flag, KeyChallenge, NewKey, ProviderStanding
from saibot.wire.rankings import RANKINGS, Ranking
from saibot.wire.related import Discovered, JoinsWith, Related, UnionsWith, Unrelated
from saibot.wire.result import Dropped, Entry, Identity, Measured, NewColumn, Result, Step
from saibot.wire.search import ErrorFacts, Search
from saibot.wire.shapes import Shape
from saibot.wire.trail import TrailEntry
from saibot.wire.worth import Change, Judged, Situation, Worth

__all__ = [
    "RANKINGS",
    "About",
    "Account",
    "AccountKey",
    "Change",
    "CorpusEntry",
    "Dataset",
    "DatasetGrant",
    "Discovered",
    "Domain",
    "Dropped",
    "EarlierKey",
    "Enquire",
    "Enquiry",
    "EnquiryGrant",
    "EnquiryRefusal",
    "Entry",
    "ErrorFacts",
    "FactorsEntry",
    "FitOnRows",
    "Flag",
    "Identity",
    "InvalidOption",
    "JoinKeyPart",
    "JoinsWith",
    "Judged",
    "KeyChallenge",
    "KeyResiduals",
    "Me",
    "Measured",
    "ModelOnRows",
    "NewColumn",
    "NewKey",
    "NewToken",
    "OtherBudgets",
    "PlotCell",
    "ProviderStanding",
    "Question",
    "Ranking",
    "Related",
    "Result",
    "Role",
    "Search",
    "SearchOptions",
    "Shape",
    "ShownDataset",
    "Situation",
    "Step",
    "Token",
    "TrailEntry",
    "UnionsWith",
    "Unrelated",
    "Uses",
    "WhatIf",
    "Worth",
]
