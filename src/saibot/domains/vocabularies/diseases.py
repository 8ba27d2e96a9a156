"""Diagnoses: the three-character codes of ICD-10-CM, their blocks and chapters.

The package holds all codes down to the last character: reading it takes seconds and 200 MB.
"""

from __future__ import annotations

from collections.abc import Iterator

from saibot.domains.vocabularies.vocabulary import Package, Row, Vocabulary

ICD = Package(
    name="simple-icd-10-cm",
    edition="1.5.0",
    licence="MIT",
    source="ICD-10-CM, release of April 2026, National Center for Health Statistics (CDC)",
    data_licence="public domain",
)


def categories() -> Iterator[Row]:
    """Category, block, chapter: `A00`, `A00-A09`, `01`. A block of one category is written `C50-C50`, and not like it."""
    import simple_icd_10_cm as icd

    for code in dict.fromkeys(code for code in icd.get_all_codes() if len(code) == 3):  # a block of one category comes twice
        if icd.is_category(code):
            block, *_, chapter = icd.get_ancestors(code)
            yield code, block if "-" in block else f"{block}-{block}", f"{int(chapter):02}"


def blocks() -> Iterator[Row]:
    yield from {(block, chapter): None for _, block, chapter in categories()}


def chapters() -> Iterator[Row]:
    yield from {(chapter,): None for _, _, chapter in categories()}


VOCABULARIES = (
    Vocabulary(
        id="icd-10-cm",
        title="Diagnoses by the three-character codes of ICD-10-CM",
        size=1918,
        digest="c75eb6f96a9d8f18945c2098b630323f020b68c794a7744e18fccaea0e20a899",
        read=categories,
        levels={"block": "icd-10-cm-block", "chapter": "icd-10-cm-chapter"},
        packages=(ICD,),
    ),
    Vocabulary(
        id="icd-10-cm-block",
        title="Blocks of diagnoses of ICD-10-CM",
        size=285,
        digest="47fe849f1b916505a4f29ecf79b5a19f8f10ee34265d36b8dab27e2512aa8639",
        read=blocks,
        levels={"chapter": "icd-10-cm-chapter"},
        packages=(ICD,),
    ),
    Vocabulary(
        id="icd-10-cm-chapter",
        title="Chapters of diagnoses of ICD-10-CM, by number",
        size=22,
        digest="bd280f5340c8e0401feb6099e74cd8b1163002879485ee1b7f9dc09f2cb64cef",
        read=chapters,
        packages=(ICD,),
    ),
)
