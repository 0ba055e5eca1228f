"""A cluster's private directory is its owner's from the first moment, whoever else looks at it."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress

from dray.testing.kubernetes import leftovers


def test_a_new_directory_is_held_before_anybody_can_take_it_for_a_dead_ones() -> None:
    done = threading.Event()
    seen: list[str] = []

    def look() -> None:
        while not done.is_set():
            for directory in leftovers.directories():
                if directory.name not in names and not leftovers.is_live(directory):
                    with suppress(BlockingIOError, FileNotFoundError):  # it has been removed
                        os.close(leftovers.take_lock(directory))
                        seen.append(directory.name)

    names = {directory.name for directory in leftovers.directories()}
    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(200):
            directory, lock = leftovers.make_directory()
            assert leftovers.is_live(directory)
            shutil.rmtree(directory)
            os.close(lock)
    finally:
        done.set()
        for looker in lookers:
            looker.join()
    assert seen == []


def test_a_directory_of_a_dead_owner_can_be_taken_once() -> None:
    directory, lock = leftovers.make_directory()
    try:
        os.close(lock)
        assert not leftovers.is_live(directory)
        taken = leftovers.take_lock(directory)
        assert leftovers.is_live(directory)
        os.close(taken)
    finally:
        shutil.rmtree(directory)
