"""Published fakes: what Wakeful's own tests stand on, for the tests of programs built with it.

Nothing outside this folder and the tests imports from here, but for `wakeful demo`.
"""
