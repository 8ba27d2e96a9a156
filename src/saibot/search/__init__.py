"""Which augmentation helps: every candidate scored in one sweep, greedy search over them, and the reasons."""

from saibot.search.corpus import Corpus
from saibot.search.greedy import Greedy, Strategy, search
from saibot.search.request import SearchOptions, SearchRequest
from saibot.search.result import SearchResult
from saibot.search.views import RequestKey

__all__ = ["Corpus", "Greedy", "RequestKey", "SearchOptions", "SearchRequest", "SearchResult", "Strategy", "search"]
