"""A program with the step ``device`` that answers every file with its arguments."""

from __future__ import annotations

import json
import sys

ANSWER = json.loads(sys.argv[1])

for line in sys.stdin:
    answer: dict[str, object]
    request = json.loads(line)
    if request["cmd"] == "stop":
        break
    if request["cmd"] == "start":
        if request.get("device", "cpu") != "cpu":
            answer = {"error": {"message": f"no {request['device']} here"}}
        else:
            who = {"name": "program", "version": request.get("device", "none"), "language": "C"}
            answer = {"protocol": 1, "implementation": who, "steps": ["device"]}
    else:
        answer = {"seq": request["seq"], **ANSWER}
    print(json.dumps(answer), flush=True)
