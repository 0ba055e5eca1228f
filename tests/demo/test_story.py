"""Words are passed on as they come and kept in order."""

from __future__ import annotations

from dray.demo.story import Output, Road, Stage, Step, Story, Word


def test_stages_are_numbered_on_each_road_and_steps_have_the_time_since_the_step_before() -> None:
    heard: list[Word] = []
    story = Story(heard.append, started=10.0)
    assert story.where == "the start"
    story.road("one", "The first")
    assert story.where == "The first, its first stage"
    story.stage("a")
    story.step("kubelet", "began", at=10.25)
    story.step("agent", "had done it before", at=10.1)
    story.step("agent", "did it at no known time", "because")
    story.stage("b")
    story.step("kubelet", "ended", at=10.3)
    story.output("pod", ("said",))
    assert story.where == "The first, stage 2 (b)"
    story.road("two", "The second")
    story.stage("c")
    assert (
        heard
        == story.words
        == [
            Road("one", "The first"),
            Stage(1, "a"),
            Step("kubelet", "began", ms=250.0),
            Step("agent", "had done it before"),
            Step("agent", "did it at no known time", "because"),
            Stage(2, "b"),
            Step("kubelet", "ended", ms=50.0),
            Output("pod", ("said",)),
            Road("two", "The second"),
            Stage(1, "c"),
        ]
    )


def test_the_document_has_it_all() -> None:
    story = Story(lambda _: None, started=0.0)
    story.road("one", "The first")
    story.stage("a")
    story.step("kubelet", "began", "for a reason", at=0.5)
    story.output("pod", ("said", "more"))
    story.road("two", "Never came to a stage")
    assert story.document() == {
        "roads": [
            {
                "name": "one",
                "title": "The first",
                "stages": [
                    {
                        "number": 1,
                        "title": "a",
                        "steps": [{"by": "kubelet", "what": "began", "why": "for a reason", "ms": 500.0}],
                        "output": ["said", "more"],
                    }
                ],
            }
        ],
        "refusal": None,
    }
