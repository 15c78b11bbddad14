"""`wakeful top`: the sessions in a terminal, live. Only this folder imports Textual."""
