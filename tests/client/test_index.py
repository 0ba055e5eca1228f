from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.client.index import Index
from dray.client.store import Entry
from tests.campaign import campaign

Words = tuple[str, ...]

CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.one_of(st.none(), st.lists(st.sampled_from("xyz"), max_size=4).map(tuple)),
    ),
    max_size=60,
)


def entry(name: str, version: int, words: Words) -> Entry[Words]:
    return Entry(("ns", name), f"uid-{name}", str(version), words)


@settings(max_examples=campaign(200, 50_000))
@given(CHANGES)
def test_same_as_looking_through_everything(changes: list[tuple[str, Words | None]]) -> None:
    index: Index[Words] = Index(lambda words: words)
    model: dict[str, Words] = {}
    for version, (name, words) in enumerate(changes):
        if words is None:
            model.pop(name, None)
            index.remove(("ns", name))
        else:
            model[name] = words
            index.put(entry(name, version, words))
        for value in "xyz":
            assert index.get(value) == tuple(model[one] for one in sorted(model) if value in model[one])
        assert index.values() == tuple(sorted({word for words in model.values() for word in words}))
    entries = [entry(name, 0, words) for name, words in model.items()]
    built = Index(index.indexer, entries)
    assert [built.get(value) for value in "xyz"] == [index.get(value) for value in "xyz"]
    for name in list(model):
        index.remove(("ns", name))
    assert index.values() == ()
    assert not index._values
    assert not index._sorted


def test_lookup_is_not_a_scan() -> None:
    asked = list[Words]()

    def indexer(words: Words) -> Words:
        asked.append(words)
        return words

    index = Index(indexer, [entry(f"n{number}", 1, (f"v{number % 10}",)) for number in range(1000)])
    assert len(asked) == 1000
    assert len(index.get("v3")) == 100
    assert index.get("v3") is index.get("v3")
    index.put(entry("n3", 2, ("v4",)))
    assert (len(index.get("v3")), len(index.get("v4")), len(asked)) == (99, 101, 1001)
