from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dray.doctor.support.redact import HIDDEN, hide_in_document, hide_in_text

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc/+=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        'level=info msg="login" token=S3CRET other=kept',
        'level=info msg="login" token="S3CRET with \\" blanks S3CRET" other=kept',
        "Authorization: Bearer S3CRET kept",
        'headers = {"Authorization" = ["Basic S3CRET"]} kept',
        "GET https://user:S3CRET@example.com/path kept",
        '{"clientSecret": "S3CRET", "name": "kept"}',
        "password: 'S3CRET' # kept",
        "client-key-data: S3CRET\nkept: yes",
        "dray agent --token S3CRET --config kept",
        "dray agent --api-token=S3CRET --config kept",
        "AWS_SECRET_ACCESS_KEY=S3CRET kept",
        "OTEL_EXPORTER_OTLP_HEADERS=x-key=S3CRET kept",
        '[plugins.registry.auth]\n  auth = "S3CRET"\n  username = "kept"',
    ],
)
def test_secrets_in_text(text: str) -> None:
    shown = hide_in_text(text)
    assert "S3CRET" not in shown
    assert "kept" in shown
    assert HIDDEN in shown


def test_keys_and_web_tokens_wherever_they_are() -> None:
    jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"
    shown = hide_in_text(f"a {KEY} b {jwt} c -----BEGIN EC PRIVATE KEY-----\ncut off")
    assert "MIIE" not in shown
    assert "cut off" not in shown
    assert jwt not in shown
    assert " b " in shown


def test_what_is_no_secret_stays() -> None:
    text = 'automountServiceAccountToken: true\ntokens: {}\npassword: ""\nkeyboard=us monkey=1'
    assert hide_in_text(text) == text


def test_known_ones_go_longest_first_and_short_ones_are_no_secrets() -> None:
    assert hide_in_text("hunter2000 hunter2 ab", ["hunter2", "hunter2000", "ab"]) == f"{HIDDEN} {HIDDEN} ab"


def test_documents() -> None:
    inner = json.dumps({"password": "S3CRET", "n": 1})
    document = {
        "metadata": {
            "managedFields": ["S3CRET"],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "S3CRET", "other": inner},
        },
        "containers": [
            {"env": [{"name": "A", "value": "S3CRET"}, {"name": "B", "valueFrom": {"x": "S3CRET"}}]}
        ],
        "containerEdits": {"env": ["C=S3CRET", "S3CRET"]},
        "edits": {"env": [["D", "S3CRET"]]},
        "environment": {"E": "S3CRET"},
        "AllocResp": "S3CRET",
        "auth": {"user": ["S3CRET"], "port": 5},
        "items": [{"kind": "Secret", "data": {"x": "S3CRET"}}],
        "count": 3,
        "said": "Bearer S3CRET",
    }
    hidden = hide_in_document(document)
    text = json.dumps(hidden)
    assert "S3CRET" not in text
    assert hidden["auth"] == {"user": [HIDDEN], "port": 5}
    assert hidden["containerEdits"]["env"][0] == f"C={HIDDEN}"
    assert hidden["containers"][0]["env"][0] == {"name": "A", "value": HIDDEN}
    assert hidden["count"] == 3
    assert json.loads(hidden["metadata"]["annotations"]["other"]) == {"password": HIDDEN, "n": 1}


def test_hostile_text_takes_no_time() -> None:
    """So long that time that grows with the square of the length is hours; then this never ends."""
    code = (
        "from dray.doctor.support.redact import hide_in_text\n"
        """for text in ("a", "token", 'token="', "eyJ", "://", "-"):\n"""
        "    hide_in_text(text * (400_000 // len(text)))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


def test_what_begins_like_a_token_is_followed_so_far() -> None:
    """Without a limit of time: from each beginning to the end of 200 kB it would take minutes."""
    text = "-eyJ" * 50_000
    assert hide_in_text(f"{text} eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhIn0.c2ln") == f"{text} {HIDDEN}"
