"""The tables. `migrations/` brings a database to them; a test compares the two.

Text columns that are searched or sorted by compare byte by byte (`Plain`), so that SQLite and Postgres agree on the order.
Times are ISO text in UTC: they sort as they read.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite

Plain = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
Number = BigInteger().with_variant(sqlite.INTEGER(), "sqlite")  # SQLite numbers rows by themselves in INTEGER only

metadata = MetaData(naming_convention={"ix": "ix_%(column_0_label)s", "pk": "pk_%(table_name)s"})

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", Plain, nullable=False),  # of the account; several tokens may act for one
    Column("roles", Text, nullable=False),  # separated by commas
    Column("hash", String(64), nullable=False, unique=True),  # sha256 of the token's text, which is kept nowhere
    Column("created", Text, nullable=False),
    Column("expires", Text),
    Column("revoked", Text),
    Column("last_used", Text),
    Column("parent", String(40), index=True),  # the token that it was made with, and ends with
)

domains = Table(
    "domains",
    metadata,
    Column("id", Plain, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("size", Integer, nullable=False),
    Column("digest", String(64), nullable=False, index=True),
    Column("keys_digest", String(64), nullable=False, index=True),
    Column("levels", Text, nullable=False),  # JSON: their names
    Column("account", Plain, nullable=False),
    Column("registered", Text, nullable=False),
)

datasets = Table(
    "datasets",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("provider", Plain, nullable=False),
    Column("name", Plain, nullable=False),
    Column("key_name", Plain, nullable=False),  # empty without a key
    Column("visibility", String(20), nullable=False),  # see wire.dataset.Visibility
    Column("state", String(20), nullable=False),  # live; expired, and kept for a while; or leaving: being withdrawn
    Column("version", Integer, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("published", Plain, nullable=False),
    Column("expires", Plain),  # a day: gone from its beginning on
    Column("rows", BigInteger, nullable=False),  # -1 where the row count is not public
    Column("epsilon", Float, nullable=False),  # to sort by; of open datasets, `publishing.UNPROTECTED`
    Column("sort_name", Plain, nullable=False),
    Column("domains", Plain, nullable=False),  # of the key's parts, separated by spaces: for counting
    Column("document", Text, nullable=False),  # the dataset as it is shown, JSON
    # Whether shared factors may be learned from it: not from an open one before an admin has confirmed its source.
    Column("ended", Text),  # when it was found expired
    Column("teaches", Boolean, nullable=False, server_default=true()),
    Column("copy_of", Number, index=True),  # the dataset whose numbers its latest version has, published before it
    Column("used", BigInteger, nullable=False, server_default="0"),  # searches that have ever taken one of its versions
    Index("one_dataset_per_identity", "provider", "name", "key_name", unique=True),
    Index("datasets_by_published", "published", "number"),
    Index("datasets_by_rows", "rows", "number"),
    Index("datasets_by_epsilon", "epsilon", "number"),
    Index("datasets_by_name", "sort_name", "number"),
    Index("datasets_by_used", "used", "number"),
    Index("datasets_counted", "state", "provider", "domains", "visibility", "expires", "copy_of"),
    Index("datasets_by_expiry", "expires"),
)

versions = Table(
    "versions",
    metadata,
    Column("dataset", Number, ForeignKey("datasets.number"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", String(64), nullable=False, index=True),
    Column("bytes", BigInteger, nullable=False),
    Column("published", Text, nullable=False),
    Column("account", Plain, nullable=False, index=True),
    Column("packed", Boolean, nullable=False),  # whether the shards have caught up with it
    Column("holder", String(64), index=True),  # the account that the sketch names, and what that has spent
    Column("spent_epsilon", Text),
    Column("spent_delta", Text),
    Column("payload", String(64), index=True),  # of its numbers, whatever they are called; of old ones filled in later
    Column("signer", String(64)),  # the public key that signed the file
    Index("versions_to_pack", "packed", "dataset"),
)

terms = Table(
    "terms",
    metadata,
    Column("term", Plain, primary_key=True),
    Column("dataset", Number, ForeignKey("datasets.number"), primary_key=True),
    Index("terms_of_dataset", "dataset", "term"),
    sqlite_with_rowid=False,
)

searches = Table(
    "searches",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("account", Plain, nullable=False),
    Column("status", String(20), nullable=False, index=True),
    Column("stage", Text, nullable=False),
    Column("part", Float),
    Column("target", Text, nullable=False),
    Column("options", Text, nullable=False),  # JSON
    Column("error", Text),  # JSON
    Column("created", Plain, nullable=False, index=True),
    Column("started", Text),
    Column("finished", Text),
    Column("server", String(40)),  # the one that runs it
    Column("until", Float),  # when another may take it up, in seconds of the database's clock; none on SQLite
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("stop", Boolean, nullable=False, server_default=false()),  # somebody wants it cancelled
    Index("searches_of_account", "account", "number"),
)

trail = Table(
    "trail",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("at", Text, nullable=False),
    Column("account", Plain, nullable=False),
    Column("action", String(40), nullable=False),
    Column("subject", Text, nullable=False),  # of a sum, the kind of thing
    Column("facts", Text, nullable=False),  # JSON; never a statistic
    Column("hour", String(13)),  # of a sum: what it counts
    Column("times", BigInteger, nullable=False, server_default="1"),
    Index("one_sum_an_hour", "hour", "action", "account", "subject", unique=True),
    Index("trail_by_action", "action", "number"),
    Index("trail_by_account", "account", "number"),
)

about = Table(
    "about",
    metadata,
    Column("provider", Plain, primary_key=True),
    Column("name", Plain, primary_key=True),  # of the table: datasets of this name are by its keys
    Column("said", Text, nullable=False),  # JSON
    Column("changed", Text, nullable=False),
)

taken = Table(
    "taken",
    metadata,
    Column("search", String(40), primary_key=True),
    Column(
        "dataset", String(40), primary_key=True, index=True
    ),  # the id of one that the search has taken, if it is here yet
)

removed_domains = Table(
    "removed_domains",
    metadata,
    Column("id", Plain, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("account", Plain, nullable=False),  # that may register it again, with the same keys
    Column("removed", Text, nullable=False),
)

served = Table(
    "served",
    metadata,
    Column("account", Plain, primary_key=True),
    Column("seconds", Float, nullable=False),  # of workers' time, of late: it fades
    Column("at", Float, nullable=False),  # when that was, in seconds of the database's clock
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),  # sha256 of what the cookie holds
    Column("token", String(64), nullable=False),  # sha256 of the token that signed in
    Column("account", Plain, nullable=False, index=True),
    Column("opened", Plain, nullable=False),
)

servers = Table(
    "servers",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("seen", Float, nullable=False),  # its last sign of life, in seconds of the database's clock
    Column("revision", Integer, nullable=False),  # of the shards that it searches
)

shared_shards = Table(
    "shared_shards",
    metadata,
    Column("id", Integer, primary_key=True),  # there is one row
    Column("revision", Integer, nullable=False),
    Column("index", String(64), nullable=False),  # the name of the index's file
    Column("files", Text, nullable=False),  # JSON: the names of shards, lists of keys and factors
)

grants = Table(
    "grants",
    metadata,
    Column("dataset", Number, ForeignKey("datasets.number"), primary_key=True),
    Column("account", Plain, primary_key=True, index=True),  # that may use the dataset
    Column("since", Text, nullable=False),
)

enquiries = Table(
    "enquiries",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("account", Plain, nullable=False),  # of the requester
    Column("provider", Plain, nullable=False),
    Column("status", String(20), nullable=False),
    Column("document", Text, nullable=False),  # the enquiry as both sides see it, JSON
    Index("enquiries_of_account", "account", "status", "number"),
    Index("enquiries_to_provider", "provider", "status", "number"),
)

providers = Table(
    "providers",
    metadata,
    Column("account", Plain, primary_key=True),
    Column("since", Text),  # of its first publication
    Column("verified", Text),  # since when an admin has vouched for who it is
    Column("verified_by", Plain),
    Column("challenge", String(64)),  # that a new key of it has to sign, once
    Column("challenged", Float),  # when that was given out, in seconds of the database's clock
)

provider_keys = Table(
    "provider_keys",
    metadata,
    Column("account", Plain, primary_key=True),
    Column("key", String(64), primary_key=True),  # public
    Column("since", Text, nullable=False),
    Column("until", Text),  # when another took its place, or an admin took it back
    Column("next", String(64)),  # the key that took its place
    Column("proof", String(128)),  # its signature for that one
)

withdrawn = Table(
    "withdrawn",
    metadata,
    Column("payload", String(64), primary_key=True),
    Column("account", Plain, nullable=False),  # whose it was, and who may publish it again
    Column("at", Text, nullable=False),
)

ALL = (
    *(tokens, domains, datasets, versions, terms, searches, trail, about, taken, grants, enquiries),
    *(removed_domains, served, sessions, servers, shared_shards),
    *(providers, provider_keys, withdrawn),
)
OF_THE_MOMENT = (searches, taken, served, sessions, servers, shared_shards)  # a backup does without them
