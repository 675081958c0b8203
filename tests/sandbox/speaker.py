"""A process that has our runner's token and abuses it: it reads its first line and writes the given lines."""

import json
import sys

token = json.loads(sys.stdin.readline())["token"]
for line in json.loads(sys.argv[1]):
    print(line.replace("TOKEN", token).replace("LONG", "x" * 500_000), flush=True)
for answer in sys.stdin:
    print(json.dumps({"token": token, "kind": "log", "level": "info", "text": answer}), flush=True)
