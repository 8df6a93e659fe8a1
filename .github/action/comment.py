"""Put report.md on the pull request: one comment for each ``name``, which later runs rewrite.

Its own few lines in place of another action or program: nothing else gets to see the token.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from common import annotate, event, load_settings

LIMIT = 65_000
"""Characters; the service takes 65,536."""
PAGE, PAGES = 100, 50
SECONDS = 30


def call(method: str, path: str, body: object = None) -> Any:
    """Send one request to the API of the service and return its answer. Raises OSError and ValueError."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
        "Content-Type": "application/json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = None if body is None else json.dumps(body).encode()
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    # The address is the runner's own; a server of a company may have any.
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
        return json.load(answer)


def find(number: int, marker: str) -> int | None:
    """Return the number of our comment on a pull request, None when there is none yet."""
    for page in range(1, PAGES + 1):
        rows = call("GET", f"issues/{number}/comments?per_page={PAGE}&page={page}")
        for row in rows:
            # Anybody may write the marker; only a comment of a program is taken for ours.
            if row["user"]["type"] == "Bot" and row["body"].startswith(marker):
                return int(row["id"])
        if len(rows) < PAGE:
            break
    return None


def comment_body(marker: str, report: str) -> str:
    """Return the text of the comment, with a link to the run when the runner says where it is."""
    server, run = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_RUN_ID")
    link = ""
    if server and run:
        link = f"\n[Full report]({server}/{os.environ['GITHUB_REPOSITORY']}/actions/runs/{run})\n"
    room = LIMIT - len(marker) - len(link)
    if len(report) > room:
        report = report[: room - 20] + "\n\n(cut here)\n"
    return f"{marker}\n{report}{link}"


def put(number: int, marker: str, text: str) -> None:
    """Rewrite our comment, or write it. Raises OSError and ValueError."""
    old = find(number, marker)
    if old is None:
        call("POST", f"issues/{number}/comments", {"body": text})
    else:
        call("PATCH", f"issues/comments/{old}", {"body": text})


def main() -> None:
    """Comment; one that cannot be written is a warning, the report is in the summary all the same."""
    settings = load_settings()
    path = Path(settings.report, "report.md")
    number = (event().get("pull_request") or {}).get("number")
    if not path.is_file() or not isinstance(number, int):
        annotate("warning", "no comment: there is no report or no pull request")
        return
    marker = f"<!-- safetensors-conformance: {settings.name} -->"
    text = comment_body(marker, path.read_text(encoding="utf-8"))
    try:
        put(number, marker, text)
    except urllib.error.HTTPError as err:
        rights = "; does the job have the permission pull-requests: write?"
        hint = rights if err.code in (401, 403, 404) else ""
        annotate("warning", f"no comment: the service answered {err.code}{hint}")
    except (OSError, ValueError, KeyError, TypeError) as err:
        annotate("warning", f"no comment: {err}")


if __name__ == "__main__":
    main()
