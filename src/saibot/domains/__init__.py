"""Public key domains: which keys there are, how they are written and kept, and how two of them meet."""

from saibot.domains.aligning import Alignment, align, align_each
from saibot.domains.domain import OTHER, KeyDomain, keys_digest, level_domain
from saibot.domains.errors import DomainConflict, UnknownDomain
from saibot.domains.file import DomainCard
from saibot.domains.finding import KnownDomains, NamedDomain, imported_domains, named_domain
from saibot.domains.generated import generated_domain, spelled_size
from saibot.domains.meaning import different, doubt
from saibot.domains.naming import key_labels
from saibot.domains.registry import DomainRegistry
from saibot.domains.spelling import folded, normal_key, spellings
from saibot.domains.vocabularies import Vocabulary, vocabulary
from saibot.domains.vocabularies.countries import capitals

__all__ = [
    "OTHER",
    "Alignment",
    "DomainCard",
    "DomainConflict",
    "DomainRegistry",
    "KeyDomain",
    "KnownDomains",
    "NamedDomain",
    "UnknownDomain",
    "Vocabulary",
    "align",
    "align_each",
    "capitals",
    "different",
    "doubt",
    "folded",
    "generated_domain",
    "imported_domains",
    "key_labels",
    "keys_digest",
    "level_domain",
    "named_domain",
    "normal_key",
    "spelled_size",
    "spellings",
    "vocabulary",
]
