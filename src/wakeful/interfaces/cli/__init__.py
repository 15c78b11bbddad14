"""The command `wakeful`. Imports come late everywhere in here: start time is a feature."""
