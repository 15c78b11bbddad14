"""How often Wakeful is right: faults with a known onset planted into recordings, beside the rules of its peers."""
