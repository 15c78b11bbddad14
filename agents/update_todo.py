"""`python agents/update_todo.py T-12 --status done` is `wakeful backlog update`."""  # noqa: INP001

import sys

from wakeful.cli.app import run

if __name__ == "__main__":
    sys.argv[1:1] = ["backlog", "update"]
    sys.exit(run())
