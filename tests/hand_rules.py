"""The rules of the pictures under a hand, as the browser computes them."""

import json
import subprocess
from pathlib import Path

RULES = Path(__file__).parent / "app" / "stage" / "rules.mjs"


def applied(rule: str, cases: list) -> list:
    """The rule's result for each case: a list of its arguments."""
    given = json.dumps({"rule": rule, "cases": cases})
    run = subprocess.run(["node", RULES], input=given, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)
