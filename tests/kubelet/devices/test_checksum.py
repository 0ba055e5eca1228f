from __future__ import annotations

from random import Random

from dray.kubelet.devices.checksum import OFFSET, Segment, fnv

LETTERS = "ab<>{[ 0-é\u2028\x00~"


def test_known_values() -> None:
    assert fnv(b"") == OFFSET
    assert fnv(b"a") == 0xE40C292C
    assert fnv(b"foobar") == 0xBF9CF968


def test_segments_add_up_to_the_whole() -> None:
    random = Random(1)
    for _ in range(300):
        texts = [
            "".join(random.choices(LETTERS, k=random.randint(0, 20))) for _ in range(random.randint(0, 6))
        ]
        segments = [Segment(text) for text in texts]
        order = random.sample(range(len(texts)), len(texts))
        for each in (order, order, order[::-1]):
            total = OFFSET
            for index in each:
                total = segments[index].after(total)
            assert total == fnv("".join(texts[index] for index in each).encode())


def test_a_segment_after_every_start() -> None:
    for text in ("tegra nvidia.com/gpu", "gerät"):
        segment = Segment(text)
        for start in [*range(512), 0xFFFFFFFF, OFFSET]:
            assert segment.after(start) == fnv(text.encode(), start)


def test_a_long_segment_is_worked_out_for_all_starts_at_once() -> None:
    for text in ("device-0001 " * 400, "gerät-0001 " * 400):
        segment = Segment(text)
        for start in (OFFSET, *range(1000, 1300, 7)):
            assert segment.after(start) == fnv(text.encode(), start)
