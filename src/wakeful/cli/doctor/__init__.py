"""`wakeful doctor` and the support bundle."""
