"""News for pods that are being tried."""

from __future__ import annotations

from dray.scheduler.queue.happenings import Action, Happening
from dray.scheduler.queue.in_flight import InFlight


def news(number: int) -> Happening:
    return Happening("Node", Action.ADD, new=number)


def test_each_pod_hears_what_happened_since_its_start() -> None:
    flights = InFlight()
    flights.happened(news(0))
    assert flights.kept == 0
    flights.start("a")
    flights.happened(news(1))
    flights.start("b")
    flights.happened(news(2))
    assert "a" in flights and len(flights) == 2
    assert flights.end("b") == (news(2),)
    assert flights.end("a") == (news(1), news(2))
    assert flights.kept == 0 and len(flights) == 0


def test_news_is_dropped_when_nobody_may_ask_for_it() -> None:
    flights = InFlight()
    flights.start("a")
    flights.happened(news(1))
    flights.start("b")
    flights.happened(news(2))
    assert flights.end("a") == (news(1), news(2)) and flights.kept == 1
    flights.start("a")
    flights.happened(news(3))
    assert flights.end("b") == (news(2), news(3)) and flights.kept == 1
    assert flights.end("a") == (news(3),)
