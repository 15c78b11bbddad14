"""Formats of passwords on command lines: one-letter options, and input that is written to a program.

They are rows as in `secret_formats`. Long options (`--password`) are in `named_secrets`.
"""

from typing import Final

from wakeful.core.secret_formats import Format

# One argument of a command line: quoted, with JSON escapes, or up to a blank. No variable, no option.
_ARGUMENT: Final = (
    r"(?!-|\$\{|\$\(|\$[A-Z_]|\[)"
    r"(?:\\{0,127}\"[^\"]{1,200}\"|'(?:[^'\n]|''(?=\w)){1,200}'|(?:\\[^nr\"\s]|[^\s\"'|;&<>\\]){1,200})"
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
    Format("cookies given to curl", ("curl", "http"),
        r"(\b(?:curl|https?)\s(?:[^\n|;]{0,300}?\s)??(?:(?-i:-b)|--cookie)[ =]{0,3}\\{0,127}[\"']?[\w.-]{1,60}=)(?!@)[^\n\"'\\]{6,400}", r"\1[token]"),
    Format("password behind an empty user", ("-u", "-a", "--proxy-user"),
        rf"({_CURL_USER}\\{{0,127}}[\"']?:)(?!//)[^\s\"'\\]{{1,200}}", r"\1[password]"),
    Format("user and password as arguments of a call",
        ("mysqli", "pdo(", ".connect(", ".login(", "logonuser", "credential("),
        r"(\b(?:new mysqli|mysqli_connect|new PDO)\(\s{0,3}\\{0,127}[\"'][^\"'\n]{1,200}[\"'],\s{0,3}\\{0,127}[\"'][^\"'\n]{0,60}[\"'],\s{0,3}\\{0,127}[\"']"
        r"|\.(?:connect|login)\(\s{0,3}(?:\\{0,127}[\"'][^\"'\n]{1,200}[\"'],\s{0,3}(?:\d{1,5},\s{0,3})?)?\\{0,127}[\"'][^\"'\n]{1,60}[\"'],\s{0,3}\\{0,127}[\"'])(?=[^\"'\n]{0,60}[0-9!#$%^&*])[^\"'\n\\]{4,200}", r"\1[password]"),
    Format("redis-cli -a", ("redis-cli",),
        r"(\bredis-cli\s(?:[^\n|;]{0,200}?\s)??(?:-a|--pass)\s{1,3})" + _ARGUMENT, r"\1[password]"),
    Format("login, ldap, database and archive options", ("-p", "-w", "htpasswd", "mosquitto_passwd"),
        r"(\b(?:docker login|podman login|buildah login|skopeo login|oras login|crane auth login|helm registry login|az login|twine upload|ldap\w{3,10}|sqlcmd|bcp|mongo\w*|rdesktop|cqlsh|cypher-shell|kadmin|useradd|usermod|ipmitool|mosquitto_(?:pub|sub|rr)|hydra|crackmapexec|netexec|nxc|evil-winrm|psexec\S{0,6}|ncftp\w*|7z[ar]?|unrar|(?:un)?zip(?=[^\n|;]{0,200}?(?-i:\s-P)))\s(?:[^\n|;]{0,200}?\s)??(?:-[pPw](?![a-z]{1,3}\s)(?:\s{1,3}(?!-))?))"
        + _ARGUMENT
        + r"|(\b(?:ht|mosquitto_)passwd\s[^\n|;]{0,60}?-(?:(?=\w*n)\w*b\w*|(?!\w*n)\w*b\w*\s{1,3}\S{1,100})\s{1,3}\S{1,100}\s{1,3})"
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
        r"(?:\\{0,127}\"[^\"]{1,200}\"|'[^']{1,200}'|[^\s|]{1,200})(\s{0,3}\|\s{0,3}[^|\n]{0,100}(?:--password-stdin|--with-token|sudo -S|--passphrase-fd|chpasswd|passwd|cryptsetup|--stdin|kinit\b|secret create|pass insert|smbpasswd|pw\b))", r"\1[password]\2"),
    Format("here-string to a login", ("<<<",),
        r"((?:login|passwd|sudo|auth|gpg|token|kinit|cryptsetup|secrets? )[^\n]{0,100}?<<<\s{0,3})(?!\$)" + _ARGUMENT, r"\1[password]"),
    Format("SQL password", ("identified", "password"),
        r"(\bidentified\s(?:with\s\S{1,40}\s)?by\s{1,3}|\bpassword\s{1,3}(?='|\\{0,127}\"[^\"\n]{0,60}[0-9]))(?!\$)" + _ARGUMENT, r"\1[password]"),
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
    # The password is the last of the words without a name.
    Format("password as a word of a command",
        ("net user", "net1 user", "mc alias", "mc config", "wpa_passphrase", "add_user", "change_password", "http-basic", "smbclient", "poetry config", "bundle config", "rclone ", "wpa_cli", "user-secrets", "security add-", "login "),
        r"((?:\bnet1? user\s{1,3}(?!/)(?:\\{0,127}\"[^\"\n]{1,60}\"|[^\s\"\\]{1,60})\s{1,3}(?![/*])"
        r"|\bmc (?:alias set|config host add)\s{1,3}(?:-\S{1,40}\s{1,3}(?:(?:S3v[24]|on|off|auto)\s{1,3})?+)*+\S{1,60}\s{1,3}\S{1,200}\s{1,3}\S{1,100}\s{1,3}"
        r"|\brclone obscure\s{1,3}|\brclone config (?:create|update|password)\s[^\n|;]{0,200}?\s(?:pass|password)\s{1,3}"
        r"|\bwpa_cli\s[^\n|;]{0,60}?\bpsk\s{1,3}|\bdotnet user-secrets set\s{1,3}\S{1,100}\s{1,3}|\bsecurity add-(?:generic|internet)-password\s[^\n|;]{0,200}?-w\s{1,3}"
        r"|(?:^|\n|\\[nrt]|[\"'`:])[ \t]{0,8}\w{0,6}[ \t]?(?-i:LOGIN) {1,3}[^\s\"']{1,60}\s{1,3}(?=\S{0,60}[0-9])"
        r"|\bwpa_passphrase\s{1,3}(?:\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|[^\s\"']{1,60})\s{1,3}"
        r"|\brabbitmqctl\s(?:[^\n|;]{0,100}?\s)??(?:add_user|change_password)\s{1,3}\S{1,60}\s{1,3}"
        r"|\b(?:poetry|composer)\s[^\n|;]{0,60}?http-basic\.\S{1,100}\s{1,3}\S{1,100}\s{1,3}"
        r"|\bpoetry config\s{1,3}pypi-token\.\S{1,60}\s{1,3}"
        r"|\bbundle config\s(?:set\s)?(?:--\w{1,10}\s)?\S{1,100}\s{1,3}[^\s:/]{1,60}:"
        r"|\bsmbclient\s{1,3}(?:\\{2,8}|//)\S{1,100}\s{1,3}))"
        + _ARGUMENT, r"\1[password]"),
    Format("token as a word of a command",
        ("vault ", "cargo login", "authtoken", "doctl", "glab", "codecov", "fly", "configure set", "put-parameter", "secret set", "gem push", "nuget push"),
        r"(\b(?:vault login|cargo login)\s{1,3}(?:-\S{1,40}\s{1,3})*|\bngrok\s(?:config\s)?(?:add-)?authtoken\s{1,3}"
        r"|\b(?:doctl|glab|codecov)\s[^\n|;]{0,60}?-t\s{1,3}|\bgem push\s[^\n|;]{0,100}?-k\s{1,3}|\bdotnet nuget push\s[^\n|;]{0,200}?-k\s{1,3}"
        r"|\bconfigure set\s(?:[^\n|;]{0,60}?\s)??aws_(?:secret_access_key|session_token)\s{1,3}"
        r"|\bssm put-parameter\s[^\n|;]{0,300}?--value[= ]{1,3}|\bkeyvault secret set\s[^\n|;]{0,300}?--value[= ]{1,3}"
        r"|\bfly(?:ctl)? secrets set\s(?:[^\n|;]{0,200}?\s)??[A-Z_][A-Z0-9_]{0,60}=|\bvault (?:kv put|write)\s{1,3}(?:-\S{1,40}\s{1,3})*\S{1,100}\s(?:[^\n|;]{0,200}?\s)??\w{1,60}=(?!@))"
        + _ARGUMENT, r"\1[token]"),
    # A login by a token that is its only word: long and random, and no address.
    Format("token given to a login", (" login", " auth", " unlock", " activate", " init", "-token", "--key"),
        r"(\b[\w-]{2,20} (?:login|auth|authenticate|authorize|unlock|activate|init|(?:set|add)-token)\s{1,3}\\{0,3}[\"']?)(?=[\w=+-]{0,200}[0-9])(?=[\w=+-]{0,200}[A-Za-z])[\w=+-]{20,200}+(?![./@:]\w)"
        r"|(\s--key[ =]{1,3}\\{0,3}[\"']?)(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,128})(?!\w|[./-]\w)"
        r"|(\bbw (?:unlock|login\s{1,3}\S{1,100})\s{1,3}(?=\S))" + _ARGUMENT, r"\1\2\3[token]"),
    Format("key beside a user's name", ('"key',),
        r"(\\{0,127}\"user(?:name)?\\{0,127}\"\s{0,3}:\s{0,3}\\{0,127}\"[^\"\\\n]{1,100}\\{0,127}\",\s{0,3}\\{0,127}\"key\\{0,127}\"\s{0,3}:\s{0,3}\\{0,127}\")[0-9a-f]{32,128}", r"\1[key]"),
    Format("user and password in one argument", ("creds", "lftp", "sqlplus", "sqlldr", "rman", "impdp", "expdp", "pserver"),
        r"(--(?:src-|dest-)?creds[= ]{1,3}[^\s:]{1,60}:|\blftp\s(?:[^\n|;]{0,100}?\s)??-u\s{0,3}[^\s,]{1,60},"
        r"|\b(?:sqlplus|sqlldr|rman|impdp|expdp)\s{1,3}(?:-\S{1,10}\s{1,3})*[\"']?[\w$#]{1,40}/|:pserver:[^\s:@]{1,60}:)"
        r"(?![@/])[^\s@\"']{1,200}", r"\1[password]"),
    Format("parameter of CloudFormation", ("parametervalue=",),
        r"(\bParameterKey=\w{0,40}(?:passw|secret|token|key)\w{0,40},ParameterValue=)" + _ARGUMENT, r"\1[secret]"),
    Format("key of a JSON web token in code", ("jwt.",),
        r"(\bjwt\.(?:sign|verify|encode|decode)\([^,()\n]{1,80},\s{0,3}\\{0,127}[\"'])[^\"'\n\\]{4,200}", r"\1[secret]"),
    Format("Windows password", ("schtasks", "securestring"),
        r"(\bschtasks\s[^\n|;]{0,300}?/rp\s{1,3}|\bConvertTo-SecureString\s{1,3}(?:-String\s{1,3})?)" + _ARGUMENT, r"\1[password]"),
    Format("passphrase of a file", ("openssl", "-hp", "input_pw", "owner_pw", "user_pw"),
        r"(\bopenssl\s(?:enc|aes\S{1,20}|des\S{1,20})\s(?:[^\n|;]{0,200}?\s)??-k\s{1,3}|\brar\s(?:[^\n|;]{0,200}?\s)??-hp"
        r"|\bpdftk\s[^\n|;]{0,200}?(?:input|owner|user)_pw\s{1,3})" + _ARGUMENT, r"\1[password]"),
    Format("password of a server's configuration", ("requirepass", "masterauth", "redis-cli", "community", "enable ", "username ", "password ", "auth ", "pass ", "user "),
        r"((?:^|\n|\\n|\bset[ \t]{1,3}|[\"'`])[ \t]{0,8}(?:requirepass|masterauth)[ \t]{1,3}|\b(?:requirepass|masterauth)[ \t]{1,3}(?=\S{0,60}[0-9])|\bredis-cli\s(?:[^\n|;]{0,200}?\s)??auth\s{1,3}"
        r"|(?:^|\n|\\[nrt]|[\"'`>:])[ \t]{0,8}(?-i:AUTH|PASS) {1,3}(?:(?-i:PLAIN|LOGIN|default) {1,3})?(?=\S{0,60}[0-9])(?=\S{0,60}[A-Za-z])|\b(?:acl set)?user {1,3}\S{1,60}[ \t](?:[^\n]{0,100}?[ \t])??on[ \t](?:[^\n]{0,100}?[ \t])??>"
        r"|\bsnmp-server community |\benable (?:secret|password) (?:\d )?+|\busername \S{1,60} (?:privilege \d{1,2} )?(?:password|secret) (?:\d )?+"
        r"|(?:^|\n|\\n)[ \t]{0,8}password [057] )" + _ARGUMENT, r"\1[password]"),
    Format("SNMP community", ("snmp",),
        r"(\bsnmp\w{2,10}\s(?:[^\n|;]{0,200}?\s)??(?-i:-c)\s{1,3})(?!public\b)" + _ARGUMENT, r"\1[password]"),
    Format("password given to a setter", ("password(", "passwd("),
        r"(\b(?:set_?|new |update_?|change_?)?passw(?:or)?d\(\s{0,3}\\{0,127}[\"'])(?=[^\"'\n]{0,60}[0-9!#$%^&*])[^\"'\n\\]{4,200}", r"\1[password]"),
)  # fmt: skip
