"""Formats of passwords on command lines: one-letter options, and input that is written to a program.

They are rows as in `secret_formats`. Long options (`--password`) are in `named_secrets`.
"""

from typing import Final

from wakeful.core.secret_formats import Format

# One argument of a command line: quoted, with JSON escapes, or up to a blank. No variable, no option.
_ARGUMENT: Final = (
    r"(?!-|\$\{|\$\(|\$[A-Z_]|\[)"
    r"(?:\\{0,3}\"[^\"]{1,200}\"|'[^'\n]{1,200}'|(?:\\[^nr\"\s]|[^\s\"'|;&<>\\]){1,200})"
)
# Up to the user name.
_CURL_USER: Final = (
    r"\b(?:curl|https?|wget)\s(?:[^\n|;]{0,300}?\s)??(?:-u|--user|-U|--proxy-user|-a|--auth)[ =]{0,3}"
)

COMMANDS: Final = (
    Format("sshpass -p", ("sshpass",),
        r"(\bsshpass\s{1,3}(?:-\w\s{1,3})?-p\s{0,3})" + _ARGUMENT, r"\1[password]"),
    Format("mysql -p", ("mysql", "mariadb"),
        r"(\b(?:mysql\w*|mariadb[\w-]*)\s(?:[^\n|;\\]{0,200}?\s)??-p(?!\s))" + _ARGUMENT, r"\1[password]"),
    # A quoted password may contain blanks and colons.
    Format("curl -u with quotes", ("-u", "-a", "--proxy-user"),
        rf"({_CURL_USER}'[^\s:'\\]{{1,100}}:)(?!//)[^'\n]{{1,200}}"
        rf"|({_CURL_USER}\\{{0,3}}\"[^\s:\"\\]{{1,100}}:)(?!//)[^\"\n\\]{{1,200}}", r"\1\2[password]"),
    Format("curl -u, http -a", ("-u", "-a", "--proxy-user"),
        rf"({_CURL_USER}\\{{0,3}}[\"']?[^\s:\"'\\]{{1,100}}:)(?!//)[^\s\"'\\]{{1,200}}", r"\1[password]"),
    Format("redis-cli -a", ("redis-cli",),
        r"(\bredis-cli\s(?:[^\n|;]{0,200}?\s)??(?:-a|--pass)\s{1,3})" + _ARGUMENT, r"\1[password]"),
    Format("login, ldap, database and archive options", ("-p", "-w", "htpasswd"),
        r"(\b(?:docker login|podman login|helm registry login|az login|ldap\w{3,10}|sqlcmd|bcp|mongo\w*|rdesktop|7z[ar]?|unrar|(?:un)?zip(?=[^\n|;]{0,200}?(?-i:\s-P)))\s(?:[^\n|;]{0,200}?\s)??(?:-[pPw](?![a-z]{1,3}\s)(?:\s{1,3}(?!-))?))"
        + _ARGUMENT
        + r"|(\bhtpasswd\s[^\n|;]{0,60}?-\w*b\w*\s{1,3}\S{1,100}\s{1,3}\S{1,100}\s{1,3})"
        + _ARGUMENT, r"\1\2[password]"),
    Format("openssl pass:", ("pass:",), r"(\bpass:)" + _ARGUMENT, r"\1[password]"),
    Format("smb user%password", ("smb", "rpcclient", "winexe"),
        r"(\b(?:smb\w{2,10}|rpcclient|winexe)\s(?:[^\n|;]{0,200}?\s)??(?:-U|--user)[ =]{0,3}[\"']?[^\s%\"']{1,60}%)"
        + _ARGUMENT, r"\1[password]"),
    Format("FreeRDP /p:", ("freerdp",),
        r"(freerdp\s(?:[^\n|;]{0,200}?\s)??/p:)" + _ARGUMENT, r"\1[password]"),
    Format("net use password", ("net use",),
        r"(\bnet use\s(?:\S{1,100}\s{1,3}){1,2}?)(?!/)" + _ARGUMENT + r"(?=\s{1,3}/user:)", r"\1[password]"),
    Format("password piped to a program", ("echo", "printf"),
        r"(\b(?:echo|printf)\s{1,3}(?:-\w\s{1,3}|\\{0,3}[\"']?%s(?:\\{1,3}n)?\\{0,3}[\"']?\s{1,3})?)(?!\$)"
        r"(?:\\{0,3}\"[^\"]{1,200}\"|'[^']{1,200}'|[^\s|]{1,200})(\s{0,3}\|\s{0,3}[^|\n]{0,100}(?:--password-stdin|--with-token|sudo -S|--passphrase-fd|chpasswd|passwd|--stdin))", r"\1[password]\2"),
    Format("here-string to a login", ("<<<",),
        r"((?:login|passwd|sudo|auth|gpg|token)[^\n]{0,100}<<<\s{0,3})(?!\$)" + _ARGUMENT, r"\1[password]"),
    Format("SQL password", ("identified", "password"),
        r"(\bidentified\s(?:with\s\S{1,40}\s)?by\s{1,3}|\bpassword\s{1,3}(?='))(?!\$)" + _ARGUMENT, r"\1[password]"),
    Format("SNMP, expect and send password", ("snmp",),
        r"(\bsnmp\w{2,10}\s(?:[^\n|;]{0,200}?\s)??-[AX]\s{1,3})" + _ARGUMENT, r"\1[password]"),
    Format("passphrase of a new SSH key", ("ssh-keygen",),
        r"(\bssh-keygen\s(?:[^\n|;]{0,200}?\s)??(?-i:-[NP])\s{1,3})(?!''|\"\")" + _ARGUMENT, r"\1[password]"),
    Format("secret given to kubectl or gh", ("--from-literal", "secret set"),
        r"(--from-literal[= ]\\{0,3}[\"']?[\w.-]{1,100}=)"
        + _ARGUMENT
        + r"|(\bsecret set\s[^\n|;]{0,200}?(?:--body|-b)[= ]{1,3})"
        + _ARGUMENT, r"\1\2[secret]"),
    Format("password that expect sends", ("send",),
        r"(\bexpect\b[^\n]{0,60}?pass[^\n]{0,60}?(?:\n|\\{1,3}n|;)\s{0,20}send(?:\s--)?\s{1,3}(?=\\{0,3}[\"']))"
        + _ARGUMENT, r"\1[password]"),
)  # fmt: skip
