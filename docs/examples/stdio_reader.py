"""A reader that speaks the worker protocol itself, as a program in another language would.

pytest conformance --impl="cmd:python docs/examples/stdio_reader.py"
"""

import hashlib
import json
import struct
import sys


class Refused(Exception):
    pass


def parse(path):
    with open(path, "rb") as file:
        raw = file.read()
    if len(raw) < 8:
        raise Refused("no length prefix")
    (length,) = struct.unpack("<Q", raw[:8])
    if length > len(raw) - 8:
        raise Refused("header past the end of the file")
    try:
        header = json.loads(raw[8 : 8 + length])
        metadata = header.pop("__metadata__", None)
        return header, metadata, raw[8 + length :]
    except (ValueError, AttributeError) as err:
        raise Refused(str(err)) from err


def run(request):
    if request["step"] not in ("open", "read"):
        return {"outcome": "unsupported"}
    header, metadata, data = parse(request["path"])
    tensors = []
    for name, entry in header.items():
        row = {"name": name, "dtype": entry["dtype"], "shape": entry["shape"]}
        if request["step"] == "read":
            begin, end = entry["data_offsets"]
            row["nbytes"] = end - begin
            row["sha256"] = hashlib.sha256(data[begin:end]).hexdigest()
        tensors.append(row)
    return {"outcome": "accept", "tensors": tensors, "metadata": metadata}


for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "stop":
        break
    if request["cmd"] == "start":
        who = {"name": "stdio reader", "version": "1.0", "language": "Python"}
        answer = {"protocol": 1, "implementation": who, "steps": ["open", "read"]}
    else:
        try:
            answer = run(request)
        except (Refused, OSError, KeyError, TypeError, ValueError) as err:
            answer = {"outcome": "reject", "message": f"{type(err).__name__}: {err}"}
        answer["seq"] = request["seq"]
    print(json.dumps(answer), flush=True)
