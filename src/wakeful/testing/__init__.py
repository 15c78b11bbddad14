"""Published fakes: used by Wakeful's own tests, and by tests of programs built with Wakeful.

Only the tests and `wakeful demo` import from here.
"""
