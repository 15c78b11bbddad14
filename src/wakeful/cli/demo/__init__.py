"""`wakeful demo`."""
