"""The scripted agent as a program called `claude`: `python …/wakeful/testing/claude` is what a script of that name shows.

Whether a process is a client is told by its executable and its arguments, so that the fake needs the client's name.
"""

import sys

from wakeful.testing.scripted_agent import main

sys.exit(main(sys.argv[1:]))
