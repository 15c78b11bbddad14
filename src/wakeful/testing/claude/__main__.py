"""Runs the scripted agent as a program named `claude`: `python …/wakeful/testing/claude`.

A process is recognized as a client by its executable and its arguments, so the fake needs the client's name.
"""

import sys

from wakeful.testing.scripted_agent import main

sys.exit(main(sys.argv[1:]))
