"""Formats of secrets that a sentence, a form or another language names: "X is the password", "PIN: 4711".

They are rows as in `secret_formats`. A plain word is never a secret here: a value has a letter and a digit.
"""

from typing import Final

from wakeful.core.secret_formats import Format

_CHARS: Final = r"A-Za-z0-9!#$%&*+^_~.@-"
# A letter and a digit; a full stop or an exclamation mark at the end belongs to the sentence.
_VALUE: Final = rf"(?=[{_CHARS}]{{0,60}}[0-9])(?=[{_CHARS}]{{0,60}}[A-Za-z])[{_CHARS}]{{5,200}}[A-Za-z0-9#$%&*+^_~@-](?![\w/(=\[{{])"
# Mixed as chance would: a capital, a small letter and a digit.
_MIXED: Final = rf"(?-i:(?=[{_CHARS}]{{0,60}}[A-Z])(?=[{_CHARS}]{{0,60}}[a-z])){_VALUE}"
_OPEN: Final = r"(?:\\{0,3}[\"'`\u201c\u2018])?"
_CLOSE: Final = r"(?:\\{0,3}[\"'`\u201d\u2019])?"
_WORD: Final = r"(?:pass(?:word|phrase|code|wd|wort)|pw|kennwort)"

# A line break, as JSON writes it, too.
_GAP: Final = r"(?:\s|\\{1,127}[nrt])"
_CODE: Final = r"[A-Za-z0-9]{4,10}-[A-Za-z0-9]{4,10}"

SENTENCES: Final = (
    Format("value before the word password", ("pass", "pw", "kennwort"),
        rf"(?<![\w./:@-]){_VALUE}({_CLOSE} (?:is|was|ist|as|for|als) (?:(?:the|my|your|our|its|his|her|a|das|mein) )?(?:[\w-]{{1,20}} ){{0,2}}?{_WORD}\b)", r"[password]\1"),
    Format("value before a sentence about it", ("pass", "pw", "kennwort"),
        rf"(?<![\w./:@-]){_VALUE}({_CLOSE}[,;.:] (?:it|that|this|which|das)(?: is| was| ist|'s) (?:(?:the|my|your|our|das) )?(?:[\w-]{{1,20}} ){{0,2}}?{_WORD}\b)", r"[password]\1"),
    Format("value before the word token", (" token", " key", " secret"),
        rf"(?<![\w./:@-]){_MIXED}({_CLOSE} (?:is|was) (?:the|my|your|our) (?:[\w-]{{1,20}} ){{0,2}}?(?:token|key|secret)\b)", r"[token]\1"),
    Format("password of a person or a thing", ("pass", "pw", "kennwort"),
        rf"(\b{_WORD} \(?(?:for|of|f\u00fcr|von) (?:(?:the|user|my|our) ){{0,2}}[\w.@-]{{1,40}}\)?(?::| is| was| ist| =) {{0,3}}{_OPEN}"
        rf"|\b{_WORD} (?:should be|must be|will be|is set to) {_OPEN}|\b(?:{_WORD}|pw) ?[(\[](?!\[)|\bpw (?:is )?{_OPEN}|(?-i:\b[Pp]ass): {{1,3}}{_OPEN})" + _VALUE, r"\1[password]"),
    Format("user and password with a slash or a colon", ("cred", "log in", "login", "logged in", "zugangsdaten"),
        rf"(\b(?:cred(?:ential)?s|zugangsdaten|log ?in|logged in)(?: (?:with|as|are|is|using|mit))?:? {{1,3}}{_OPEN}[\w.@-]{{1,40}} ?[/:] ?)" + _VALUE
        + rf"|(\bcreds(?: are| is|:) {{1,3}}{_OPEN})" + _VALUE, r"\1\2[password]"),
    Format("password in another language",
        ("mot de passe", "contrase", "senha", "lautet", "\u043f\u0430\u0440\u043e\u043b\u044c", "\u5bc6\u7801", "\u5bc6\u78bc", "\u30d1\u30b9\u30ef\u30fc\u30c9", "\ube44\ubc00\ubc88\ud638",
         "wachtwoord", "has\u0142o", "l\u00f6senord", "parola", "adgangskode", "salasana", "jelsz\u00f3", "heslo"),
        r"(\b(?:mot de passe (?:est|:)|contrase[n\u00f1]a (?:es|:)|senha (?:\u00e9|e|:)|(?:passwort|kennwort) lautet:?|wachtwoord (?:is|:)|parola (?:\u00e8|este|:)|\u043f\u0430\u0440\u043e\u043b\u044c(?: -| \u2014)?)\s{1,3}"
        r"|\b(?:mot de passe|\u043f\u0430\u0440\u043e\u043b\u044c|wachtwoord|has\u0142o|l\u00f6senord|parola|adgangskode|salasana|jelsz\u00f3|heslo)\s?[:=]\s{0,3}"
        r"|(?:\u5bc6\u7801|\u5bc6\u78bc|\u30d1\u30b9\u30ef\u30fc\u30c9|\ube44\ubc00\ubc88\ud638)\s?[:=\uff1a\uff1d\u662f\u306f]\s{0,3})"
        r"\\{0,3}[\"'`]?(?=[^\s\"'`]{0,60}[0-9!#$%^&*])[^\s\"'`,;]{4,200}", r"\1[password]"),
    Format("code for one login", ("code", "otp", "pin"),
        r"(\b(?:recovery|backup|one-time|verification|2fa|mfa) codes?(?: is|:)? {1,3})" + _VALUE
        + r"|(\b(?:otp|one-time code|2fa code|mfa code)(?: is|:) {1,3})[0-9]{3} ?[0-9]{3,5}\b"
        r"|(\b(?:otp)(?: is|:) {1,3})" + _VALUE + r"|((?-i:\bPIN)(?: is|:) {1,3})[0-9]{4,8}\b", r"\1\2\3\4[code]"),
    Format("recovery codes", ("recovery code", "backup code"),
        rf"(\b(?:recovery|backup) codes?:?{_GAP}{{1,8}})(?=[A-Za-z]{{0,10}}-?[A-Za-z]{{0,10}}[0-9]){_CODE}(?:(?:,|{_GAP}){{1,8}}{_CODE}){{0,30}}", r"\1[code]"),
    Format("password of hexadecimal digits below a sentence", ("password",),
        rf"(\bpassword [^\n:]{{1,80}}:{_GAP}{{1,8}})[0-9a-f]{{32}}\b", r"\1[password]"),
    Format("secret id of Consul, Nomad and Vault", ("secretid", "secret id", "secret_id"),
        r"(\bsecret[ _]?id\\{0,3}[\"']?\s{0,16}[:=]?\s{0,16}\\{0,3}[\"']?)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", r"\1[secret]"),
    Format("Google app password", ("password", "passwd", "_pass"),
        r"((?:passw(?:or)?d|_pass)\\{0,3}[\"']?[ \t]{0,3}[:=][ \t]{0,3}\\{0,127}[\"']?)(?-i:[a-z]{4}(?: [a-z]{4}){3})\b", r"\1[password]"),
    Format("name of two words before a colon", ("key", "token", "secret"),
        rf"(\b(?:api|access|secret|license|auth|app|deploy|signing|encryption|private|master|session) (?:key|token|secret) ?[:=] {{0,3}}{_OPEN})" + _VALUE, r"\1[secret]"),
    Format("session of a web server", ("sess", "csrf", "xsrf"),
        r"(\b(?:jsessionid|phpsessid|asp\.net_sessionid|sessionid|session_?id_cookie|csrf_?token|xsrf-token)=)" + _VALUE, r"\1[token]"),
    Format("key or code in a query", ("?key=", "&key=", "?code=", "&code=", "auth_code="),
        rf"((?:[?&](?:key|code)|\bauth_code)=)(?=[{_CHARS}]{{10}})" + _VALUE, r"\1[token]"),
    Format("property list", ("</key>",),
        r"(<key>[^<>]{0,40}(?:passw|secret|token)[^<>]{0,20}</key>\s{0,20}<string>)[^<]{1,400}", r"\1[secret]"),
    Format("pair of Lisp", (" . ",), r"(\(:?(?:passw\w{2,6}|secret|token) \. \\{0,3}\")[^\"\n\\]{1,200}", r"\1[secret]"),
    Format("setting of a package manager", ("config set", "sonar."),
        r"(\bconfig set (?:-\S{1,20} )?\S{0,100}(?:authtoken|password|_auth|token)[ =]{1,3}|-Dsonar\.(?:login|token)=)" + _VALUE, r"\1[token]"),
    Format("words that restore a wallet", ("phrase", "mnemonic"),
        r"(\b(?:(?:seed|recovery|backup|secret) phrase|mnemonic(?: phrase| words)?)(?: is| are|:) {0,3}[\"'`]?)(?-i:[a-z]{3,8}(?: [a-z]{3,8}){11,23})\b", r"\1[secret]"),
    Format("key of a VPN login", ("eap", "psk", "xauth", "auth-user-pass"),
        r"(: (?-i:PSK|EAP|XAUTH) \\{0,127}\")[^\"\n\\]{1,200}|(<auth-user-pass>\s{1,3}\S{1,60}\s{1,3})[^\s<]{1,200}", r"\1\2[password]"),
    Format("secret line of a CHAP file", (" * ",),
        r"((?:^|\n|\\[nrt]|[\"'`:] ?)[\w.@\\-]{1,60} \* )\"?(?=[^\s\"]{0,60}[0-9])[^\s\"*]{6,100}(?= )", r"\1[password]"),
    Format("line of an FTP script", ("user ",),
        rf"((?:^|\n|\\[nrt]|[\"'`:])[ \t]{{0,8}}user [\w.@-]{{1,60}} ){_MIXED}(?=\s{{0,3}}(?:\n|\\|\"|\Z))", r"\1[password]"),
    Format("line of an htdigest file", (":",),
        r"((?:^|\n|\\[nrt]|[\"\s])[\w.@-]{1,60}:[\w.@-]{1,60}:)[0-9a-f]{32}(?![0-9a-z:])", r"\1[password hash]", long=True),
    Format("value of an answer file", ("password>",),
        rf"(<\w{{0,40}}password>{_GAP}{{0,20}}<value>)[^<]{{1,400}}", r"\1[password]"),
    Format("code of a login in OAuth", ("code_verifier", "oauth_signature", "npmauthident"),
        r"(\b(?:code_verifier|oauth_signature)=\\{0,127}[\"']?)[^\s\"'&,\\]{1,200}|(npmAuthIdent:? ?\\{0,127}[\"']?[^\s:\"']{1,60}:)[^\s\"'\\]{1,200}", r"\1\2[token]"),
    Format("link that logs in", ("/reset", "/magic", "/invite", "/verif", "/confirm", "/shared_invite"),
        r"(https?://[^\s\"'<>]{1,200}/(?:reset|magic|invite|verif|confirm|shared_invite)[\w-]{0,20}/(?:zt-)?)(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{20,200}", r"\1[token]"),
    Format("setting of a device", ("plain-text-password", "storepassword", "keypassword"),
        r"(\b(?:plain-text-password-value|(?:store|key)Password)\s{1,3}\\{0,127}[\"'])[^\"'\n\\]{1,200}", r"\1[password]"),
    Format("pre-shared key", ("psk", "private-key", "preshared-key"),
        r"(\b(?:psk|(?:private|preshared)-key <\(echo) {1,3}[\"']?)" + _VALUE, r"\1[secret]"),
)  # fmt: skip
