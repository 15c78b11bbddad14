"""The chat gateway's rules, pure: who is heard, which conversation is meant, what an answer is worth, what may be done.

Each stands alone; `wakeful.gateway` offers them to other programs.
"""
