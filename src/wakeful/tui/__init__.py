"""`wakeful top`."""
