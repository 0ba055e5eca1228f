from __future__ import annotations

from dray.testing.image import runtime_lock

LOCK = """\
aiohttp==3.14.5 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via dray (pyproject.toml)
aiosignal==1.4.0 \\
    --hash=sha256:cc
    # via aiohttp
cffi==2.1.1 ; platform_python_implementation != 'PyPy' \\
    --hash=sha256:dd
    # via cryptography
cryptography==50.0.2 \\
    --hash=sha256:ee
    # via
    #   dray (pyproject.toml)
    #   somebody-else
nvidia-ml-py==13.615.71 \\
    --hash=sha256:ff
    # via dray (pyproject.toml:dev)
pluggy==1.7.0 \\
    --hash=sha256:11
    # via
    #   hatchling
    #   pytest
pytest==9.2.0 \\
    --hash=sha256:22
    # via
    #   dray (pyproject.toml:dev)
    #   pytest-asyncio
"""


def test_the_lock_of_an_image_has_what_runs_and_what_that_needs() -> None:
    assert runtime_lock(LOCK) == (
        "aiohttp==3.14.5 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        "aiosignal==1.4.0 \\\n    --hash=sha256:cc\n"
        "cffi==2.1.1 ; platform_python_implementation != 'PyPy' \\\n    --hash=sha256:dd\n"
        "cryptography==50.0.2 \\\n    --hash=sha256:ee\n"
        "nvidia-ml-py==13.615.71 \\\n    --hash=sha256:ff\n"
    )
