"""`python scripts/restore_session.py --session-state .copilot/session_state.json` is `wakeful recover`."""  # noqa: INP001

import sys

from wakeful.cli.app import run

if __name__ == "__main__":
    sys.argv[1:1] = ["recover"]
    sys.exit(run())
