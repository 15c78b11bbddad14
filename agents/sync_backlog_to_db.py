"""`python agents/sync_backlog_to_db.py` is `wakeful backlog sync`."""  # noqa: INP001

import sys

from wakeful.cli.app import run

if __name__ == "__main__":
    sys.argv[1:1] = ["backlog", "sync"]
    sys.exit(run())
