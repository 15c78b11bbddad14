"""Kinds of secrets, each with a text that holds one. Made from parts when the tests run: no file holds a secret."""

import json
import string
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple
from urllib.parse import quote

WINDOW_CHARS: Final = 10
_LETTERS: Final = string.ascii_letters + string.digits


class Kind(NamedTuple):
    """A text as an agent, a tool or a file would write it, and the secret in it."""

    name: str
    text: str
    secret: str

    def is_in(self, seen: str, step: int = 1) -> bool:
        """Whether the secret, or ten characters of it in a row, are in a visible text.

        A larger `step` is faster and finds only pieces that are longer by as much.
        """
        if len(self.secret) <= WINDOW_CHARS:
            return self.secret in seen
        starts = range(0, len(self.secret) - WINDOW_CHARS + 1, step)
        return any(self.secret[at : at + WINDOW_CHARS] in seen for at in starts)


class _Parts:
    """Random parts, the same ones for the same seed. Every secret holds all three classes of characters early on."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def of(self, alphabet: str, length: int) -> str:
        return "".join(self._random.choices(alphabet, k=length))

    def word(self, length: int = 32) -> str:
        return "Q7z" + self.of(_LETTERS, length - 3)

    def hex(self, length: int = 32) -> str:
        return self.of("0123456789abcdef", length)

    def upper(self, length: int) -> str:
        return self.of(string.ascii_uppercase + string.digits, length)

    def lower(self, length: int) -> str:
        return self.of(string.ascii_lowercase + string.digits, length)

    def digits(self, length: int) -> str:
        return "7" + self.of(string.digits, length - 1)

    def uuid(self) -> str:
        return "-".join(self.hex(length) for length in (8, 4, 4, 4, 12))

    def base64(self, length: int) -> str:
        return self.of(_LETTERS + "+/", length)

    def alternating(self, length: int) -> str:
        """A letter of each case and a digit in turn."""
        classes = (string.ascii_uppercase, string.ascii_lowercase, string.digits)
        return "".join(self.of(classes[at % 3], 1) for at in range(length))


# Formats: a prefix, and what follows it. The prefix is in two parts: scanners of this repository look for it whole.
_PREFIXED: Final[dict[str, tuple[str, str, int]]] = {
    "anthropic": ("sk-ant-", "api03-", 60),
    "anthropic admin": ("sk-ant-", "admin01-", 60),
    "openai": ("s", "k-", 48),
    "openai project": ("sk-", "proj-", 60),
    "openrouter": ("sk-", "or-v1-", 48),
    "stripe live": ("sk_", "live_", 24),
    "stripe restricted": ("rk_", "live_", 24),
    "stripe webhook": ("wh", "sec_", 32),
    "github classic": ("gh", "p_", 36),
    "github oauth": ("gh", "o_", 36),
    "github app": ("gh", "s_", 36),
    "github refresh": ("gh", "r_", 36),
    "github fine-grained": ("github_", "pat_", 60),
    "gitlab personal": ("gl", "pat-", 20),
    "gitlab deploy": ("gl", "dt-", 20),
    "gitlab runner": ("gl", "rt-", 20),
    "slack bot": ("xo", "xb-", 40),
    "slack app": ("xa", "pp-1-", 40),
    "npm": ("np", "m_", 36),
    "pypi": ("py", "pi-", 60),
    "hugging face": ("h", "f_", 34),
    "digitalocean": ("do", "p_v1_", 64),
    "shopify": ("sh", "pat_", 32),
    "grafana cloud": ("gl", "c_", 40),
    "grafana service account": ("gl", "sa_", 40),
    "new relic": ("NR", "AK-", 27),
    "sentry": ("sn", "trys_", 60),
    "linear": ("lin_", "api_", 40),
    "notion": ("nt", "n_", 44),
    "atlassian": ("ATA", "TT3", 60),
    "figma": ("fi", "gd_", 40),
    "postman": ("PM", "AK-", 50),
    "planetscale": ("pscale_", "tkn_", 40),
    "prefect": ("pn", "u_", 36),
    "readme": ("rd", "me_", 60),
    "rubygems": ("ruby", "gems_", 48),
    "doppler": ("dp", ".pt.", 43),
    "fly.io": ("fo", "1_", 43),
    "frame.io": ("fi", "o-u-", 60),
    "replicate": ("r", "8_", 37),
    "sourcegraph": ("sg", "p_", 40),
    "supabase": ("sb", "p_", 40),
    "tailscale": ("ts", "key-auth-", 40),
    "typeform": ("tf", "p_", 50),
    "contentful": ("CF", "PAT-", 43),
    "netlify": ("nf", "p_", 40),
    "docker hub": ("dckr_", "pat_", 27),
    "groq": ("gs", "k_", 52),
    "xai": ("xa", "i-", 80),
    "perplexity": ("pp", "lx-", 48),
    "nvidia": ("nv", "api-", 64),
    "langsmith": ("lsv2_", "pt_", 40),
    "pinecone": ("pc", "sk_", 60),
    "tavily": ("tv", "ly-", 32),
    "1password service": ("ops_", "eyJ", 60),
    "brevo": ("xkey", "sib-", 64),
    "razorpay": ("rzp_", "live_", 14),
    "circleci": ("CCI", "PAT_", 40),
    "buildkite": ("bk", "ua_", 40),
    "heroku": ("HR", "KU-", 40),
    "honeycomb": ("hc", "aik_", 40),
    "mongodb atlas": ("mdb_", "sa_sk_", 40),
    "adafruit": ("ai", "o_", 28),
    "clojars": ("CLO", "JARS_", 60),
    "posthog": ("ph", "x_", 43),
    "vault service": ("hv", "s.", 90),
    "google api": ("AI", "za", 35),
    "google oauth": ("ya", "29.", 60),
    "google client secret": ("GOC", "SPX-", 28),
}

# Everything else: how its text is made, around the secret that is returned beside it.
_Made = Callable[[_Parts], tuple[str, str]]


def _around(before: str, after: str = "", length: int = 24) -> _Made:
    def make(parts: _Parts) -> tuple[str, str]:
        secret = parts.word(length)
        return f"{before}{secret}{after}", secret

    return make


def _few(before: str, after: str = "") -> _Made:
    """A password of six characters."""
    return _around(before, after, 6)


def _quoted(before: str, quote_: str, after: str = "") -> _Made:
    """A password with blanks and the other kind of quote."""

    def make(parts: _Parts) -> tuple[str, str]:
        other = '"' if quote_ == "'" else "'"
        secret = f"{parts.word(8)} {parts.lower(6)}{other}{parts.lower(8)}"
        return f"{before}{quote_}{secret}{quote_}{after}", secret

    return make


def _of(make_secret: Callable[[_Parts], str], before: str = "", after: str = "") -> _Made:
    def make(parts: _Parts) -> tuple[str, str]:
        secret = make_secret(parts)
        return f"{before}{secret}{after}", secret

    return make


def _pem(label: str) -> _Made:
    def make(parts: _Parts) -> tuple[str, str]:
        lines = [parts.base64(64) for _ in range(6)]
        frame = f"{label} PRIVATE" + " KEY"
        return "\n".join([f"-----BEGIN {frame}-----", *lines, f"-----END {frame}-----"]), lines[3]

    return make


def _json_in_json(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(20)
    return json.dumps({"body": json.dumps({"outer": json.dumps({"db_password": secret})})}), secret


def _spelled_out(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(20)
    return '{"\\u0070assword":"' + "".join(f"\\u{ord(char):04x}" for char in secret) + '"}', secret


def _percent(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(20)
    return "GET /login?" + quote(f'{{"password":"{secret}"}}', safe=""), secret


def _twice_encoded(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(20)
    return quote(quote(f"https://bob:{secret}@git.example.com/x.git", safe=""), safe=""), secret


def _coloured(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(20)
    return f"\x1b[31mDB_PASSWORD\x1b[0m=\x1b[32m{secret}\x1b[0m", secret


def _zero_width(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(24)
    return "gh\u200bp_" + "\u200b".join((secret[:8], secret[8:16], secret[16:])) + parts.lower(12), secret


def _folded(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(20)
    return f"db:\n  password: >-\n    {secret}\n  port: 5432", secret


def _continued(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(20)
    return f"curl --token \\\n  {secret} https://api.example.com", secret


def _basic(parts: _Parts) -> tuple[str, str]:
    secret = parts.base64(28)
    return f"Authorization: Basic {secret}==", secret


def _webhook(before: str) -> _Made:
    def make(parts: _Parts) -> tuple[str, str]:
        secret = f"{parts.upper(9)}/{parts.upper(9)}/{parts.word(24)}"
        return f"POST https://{before}{secret}", secret

    return make


def _jwt(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(40)
    return f"eyJ{parts.word(30)}.eyJ{secret}.{parts.word(40)}", secret


def _discord(parts: _Parts) -> tuple[str, str]:
    secret = parts.word(27)
    return f"bot M{parts.word(24)}.G{parts.lower(5)}.{secret}", secret


_MADE: Final[dict[str, _Made]] = {
    "databricks hex": _of(lambda p: p.hex(32), "dapi"),
    "aws access key id": _of(lambda p: p.upper(16), "AKIA"),
    "aws temporary key id": _of(lambda p: p.upper(16), "ASIA"),
    "aws secret key": _of(lambda p: p.base64(40), "aws_secret_access_key = "),
    "aws session token": _of(lambda p: p.base64(200), "export AWS_SESSION_TOKEN="),
    "aws signature": _of(
        lambda p: p.hex(64),
        "Authorization: AWS4-HMAC-SHA256 Credential=a/b/c, SignedHeaders=host, Signature=",
    ),
    "presigned url": _of(
        lambda p: p.hex(64), "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature="
    ),
    "azure sas": _of(lambda p: p.base64(43), "https://a.blob.core.windows.net/c?sv=2022&sig=", "%3D"),
    "azure account key": _of(
        lambda p: p.base64(86),
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=",
        "==;EndpointSuffix=x",
    ),
    "azure shared access key": _of(
        lambda p: p.base64(43), "Endpoint=sb://a/;SharedAccessKeyName=r;SharedAccessKey=", "="
    ),
    "azure ad secret": _of(lambda p: p.word(34), "abc8Q~"),
    "gcp refresh token": _of(lambda p: p.word(60), "1//0"),
    "sendgrid": _of(lambda p: p.word(43), "SG.abcdefgh1234567890abcd."),
    "mailgun": _of(lambda p: p.hex(32), "key-"),
    "mailchimp": _of(lambda p: p.hex(32), "", "-us12"),
    "twilio": _of(lambda p: p.hex(32), "SK"),
    "discord bot": _discord,
    "telegram bot": _of(lambda p: p.word(35), "123456789:"),
    "jwt": _jwt,
    "airtable": _of(lambda p: p.hex(64), "patAbCdEfGh123456."),
    "asana": _of(lambda p: p.hex(32), "1/1201234567890123:"),
    "pulumi": _of(lambda p: p.hex(40), "pul-"),
    "sonarqube": _of(lambda p: p.hex(40), "sqp_"),
    "launchdarkly": _of(lambda p: p.uuid(), "sdk-"),
    "hubspot": _of(lambda p: p.uuid(), "pat-na1-"),
    "plaid": _of(lambda p: p.uuid(), "access-production-"),
    "dynatrace": _of(lambda p: p.upper(64), "dt0c01.ABCDEFGH12345678ABCDEFGH."),
    "terraform cloud": _of(lambda p: p.word(60), "AbCdEfGh123456.atlasv1."),
    "openshift": _of(lambda p: p.word(43), "sha256~"),
    "easypost": _of(lambda p: p.word(54), "EZAK"),
    "alibaba": _of(lambda p: p.word(20), "LTAI"),
    "resend": _of(lambda p: p.word(24), "re_AbCd1234_"),
    "flutterwave": _of(lambda p: p.hex(32), "FLWSECK-"),
    "mapbox": _of(lambda p: p.word(60), "sk.eyJ"),
    "age key": _of(lambda p: p.upper(58), "AGE-SECRET-KEY-1"),
    "rsa private key": _pem("RSA"),
    "openssh private key": _pem("OPENSSH"),
    "ec private key": _pem("EC"),
    "encrypted private key": _pem("ENCRYPTED"),
    "openssh key body": _of(lambda p: p.base64(120), "b3BlbnNzaC1rZXktdjE"),
    "bcrypt hash": _of(lambda p: p.base64(53), "admin:$2y$10$"),
    "shadow hash": _of(lambda p: p.base64(60), "root:$6$saltsalt$"),
    "slack webhook": _webhook("hooks.slack.com/services/"),
    "discord webhook": _webhook("discord.com/api/webhooks/"),
    "apprise address": _of(lambda p: p.word(35), "slack://"),
    "otpauth": _of(lambda p: p.upper(32), "otpauth://totp/a?secret="),
    "postgres url": _around("postgresql://app:", "@db.example.com/app"),
    "redis url": _around("redis://:", "@cache:6379/0"),
    "mongodb url": _around("mongodb+srv://root:", "@c0.mongodb.net/x"),
    "amqp url with a slash": _of(
        lambda p: f"{p.word(8)}/{p.word(8)}@{p.lower(4)}", "amqp://u:", "@mq:5672/v"
    ),
    "git token as user": _around("git clone https://", "@github.com/a/b.git", 40),
    "sentry dsn": _of(lambda p: p.hex(32), "https://", "@o1.ingest.sentry.io/2"),
    "jdbc parameter": _around("jdbc:mysql://h:3306/d?user=u&password=", "&ssl=true"),
    "jdbc oracle": _around("jdbc:oracle:thin:scott/", "@//h:1521/x"),
    "odbc string": _of(
        lambda p: f"{p.word(8)} {p.lower(6)}", "Driver={x};Server=h;Uid=sa;Pwd=", ";Encrypt=yes"
    ),
    "libpq string": _around("psql 'host=h user=u password=", " dbname=d'"),
    "env file": _around("DB_HOST=h\nDB_PASSWORD=", "\nDB_PORT=5432"),
    "env file short": _few("POSTGRES_PASSWORD=", "\n"),
    "env file quoted": _quoted("ADMIN_PASSWORD=", '"'),
    "env token": _around("export VERCEL_TOKEN="),
    "env key": _around("FASTLY_API_KEY="),
    "env secret": _around("SESSION_SECRET="),
    "env pass": _few("SMTP_PASS="),
    "env pat": _around("AZURE_DEVOPS_EXT_PAT="),
    "env inline": _few("PGPASSWORD=", " psql -h db -U app"),
    "env inline mysql": _few("MYSQL_PWD=", " mysqldump app"),
    "docker env": _around("docker run -e SECRET_KEY_BASE=", " app"),
    "dockerfile env": _around("ENV API_TOKEN ", "\nRUN x"),
    "fish set": _around("set -x CI_JOB_TOKEN "),
    "powershell": _around('$env:DB_PASSWORD = "', '"'),
    "json password": _quoted('{"user":"u","password":', '"', "}"),
    "json short": _few('{"password": "', '"}'),
    "json token": _around('{"access_token": "', '", "expires_in": 3600}'),
    "json in json": _json_in_json,
    "json spelled out": _spelled_out,
    "json client secret": _around('{"clientSecret":"', '"}'),
    "json docker auth": _of(lambda p: p.base64(36), '{"auths":{"r.io":{"auth":"', '"}}}'),
    "json name and value": _around('{"name":"DB_PASSWORD","value":"', '"}'),
    "yaml password": _of(
        lambda p: f"{p.word(8)} {p.lower(6)} {p.lower(6)}", "db:\n  password: ", "\n  port: 1"
    ),
    "yaml quoted": _quoted("password: ", "'"),
    "yaml folded": _folded,
    "yaml name and value": _around("- name: API_TOKEN\n  value: "),
    "kubeconfig token": _around("users:\n- user:\n    token: ", length=40),
    "kubeconfig key": _of(lambda p: p.base64(120), "    client-key-data: "),
    "kubernetes secret": _of(lambda p: p.base64(24), "kind: Secret\ndata:\n  db-password: "),
    "toml": _quoted("[db]\npassword = ", '"'),
    "ini": _around("[client]\nuser=root\npassword = "),
    "ini api key": _around("[x]\napi_key: "),
    "properties": _around("spring.datasource.password="),
    "xml element": _around("<server><password>", "</password></server>"),
    "xml attribute": _around('<add key="x" password="', '"/>'),
    "netrc": _around("machine h login u password ", "\n"),
    "pgpass": _around("db.example.com:5432:app:app:"),
    "npmrc": _around("//packages.example/:_authToken="),
    "npmrc auth": _of(lambda p: p.base64(28), "_auth="),
    "pip index": _around("index-url = https://u:", "@pypi.example.com/simple"),
    "git credentials": _around("https://u:", "@git.example.com"),
    "wireguard": _of(lambda p: p.base64(43), "[Interface]\nPrivateKey = ", "="),
    "wpa": _quoted("network={\n  psk=", '"'),
    "python code": _quoted("client = connect(user='u', password=", "'", ")"),
    "python dict": _around("{'api_key': '", "'}"),
    "python environ": _around('os.environ["STRIPE_KEY"] = "', '"'),
    "ruby hash": _around(':password => "', '"'),
    "go struct": _around('Config{Password: "', '"}'),
    "javascript": _around("const apiKey = '", "';"),
    "php define": _around("define('DB_PASSWORD', '", "');"),
    "terraform": _around('  secret_key = "', '"'),
    "sql": _around("CREATE USER u IDENTIFIED BY '", "';"),
    "sql alter": _around("ALTER ROLE u WITH PASSWORD '", "';"),
    "header bearer": _around("curl -H 'Authorization: Bearer ", "' https://x"),
    "header basic": _basic,
    "header token": _around("Authorization: Token "),
    "header api key": _around("X-Api-Key: "),
    "header vault": _around("X-Vault-Token: "),
    "header private token": _around('-H "PRIVATE-TOKEN: ', '"'),
    "header subscription": _of(lambda p: p.hex(32), "Ocp-Apim-Subscription-Key: "),
    "cookie": _around("Cookie: theme=dark; sessionid="),
    "set-cookie": _around("Set-Cookie: sid=", "; Path=/; HttpOnly"),
    "query token": _around("GET /x?user=1&access_token=", "&n=2"),
    "query api key": _around("https://api.example.com/v1?api_key="),
    "percent-encoded": _percent,
    "option password": _quoted("tool --password ", "'", " --verbose"),
    "option password short": _few("tool --password ", " --verbose"),
    "option token": _around("tool --auth-token=", " run"),
    "option in a list": _around('["tool", "--password", "', '", "run"]'),
    "option continued": _continued,
    "sshpass": _few("sshpass -p ", " ssh h"),
    "mysql": _few("mysql -u root -p", " -e 'select 1'"),
    "curl user": _few("curl -s -u admin:", " https://h/"),
    "redis-cli": _few("redis-cli -h h -a ", " ping"),
    "docker login": _few("docker login -u u -p ", " r.io"),
    "docker login stdin": _few("echo ", " | docker login -u u --password-stdin"),
    "sudo stdin": _few("echo '", "' | sudo -S apt update"),
    "chpasswd": _few("echo 'root:", "' | chpasswd"),
    "openssl": _few("openssl enc -pass pass:", " -in a"),
    "ldapsearch": _few("ldapsearch -D cn=a -w ", " -b dc=x"),
    "zip": _few("zip -P ", " a.zip b"),
    "htpasswd": _few("htpasswd -cb f admin "),
    "gpg": _few("gpg --batch --passphrase ", " -d f"),
    "keytool": _few("keytool -list -storepass ", " -keystore k"),
    "smbclient": _few("smbclient -U user%", " //h/s"),
    "heredoc": _around("cat > .env <<EOF\nJWT_SECRET=", "\nEOF"),
    "coloured": _coloured,
    "zero-width": _zero_width,
    "quoted URL with blanks": _quoted('DATABASE_URL="postgresql://bob:', "", '@db.example.com/app"'),
    "URL encoded twice": _twice_encoded,
    "Go MySQL address": _few("bob:", "@tcp(127.0.0.1:3306)/app?parseTime=true"),
    "doubled quote": _of(lambda p: f"{p.word(8)}''{p.word(12)}", "password: '", "'"),
    "three quotes": _around('PASSWORD = """', '"""'),
    "curl user with blanks": _of(lambda p: f"{p.word(5)} {p.word(12)}", "curl -sS -u 'bob:", "' https://h/"),
    "JSON pass": _around('curl -d \'{"user":"bob","pass":"', "\"}' https://h/"),
    "setting with blanks": _of(
        lambda p: f"{p.word(5)} {p.word(12)}", "terraform apply -var 'db_password=", "'"
    ),
    "ssh-keygen": _few("ssh-keygen -t ed25519 -N ", " -f k"),
    "expect": _around('expect "password:"\nsend "', '\\r"'),
    "kubectl literal": _few("kubectl create secret generic x --from-literal=db="),
    "gh secret": _few("gh secret set DEPLOY --body "),
    "two arguments": _around("requests.get(u, auth=('bob', '", "'))"),
    "full-width equals sign": _around("password\uff1d"),
    "Passwort": _few("Passwort: "),
    "sentence": _around("The password is ", "."),
    "sentence with curly quotes": _around("password is \u201c", "\u201d"),
    "sentence with a token": _of(lambda p: p.alternating(14), "use the token ", " for that"),
    "signing key": _of(lambda p: p.hex(64), "signing key "),
    "table of Markdown": _few("| user | password |\n|---|---|\n| bob | ", " |"),
    "table of psql": _few(" name | password | age \n------+----------+-----\n bob  | ", " | 7"),
    "appended": _few("FOO_TOKEN+="),
    "pw": _few("pw="),
    "pass in quotes": _around('user: bob, pass: "', '"'),
    "pgpass in backticks": _few("`db.example.com:5432:app:bob:", "`"),
    "pgpass before a colon": _few("May I run: db.example.com:5432:app:bob:", ": Bash"),
    "mnemonic": _of(lambda p: " ".join(p.lower(6) for _ in range(12)), 'mnemonic: "', '"'),
    "value before the word password": _around("", " is the password"),
    "value before my password": _few("I think ", " is my password for the db"),
    "value before the word token": _of(lambda p: p.alternating(14), "", " is the admin token"),
    "used as the password": _few("use '", "' as the password"),
    "used for the password": _few("I will use ", " for the password"),
    "password for a person": _few("password for bob: "),
    "password for a person is": _around("the password for bob is "),
    "password of a user": _few("Password for user bob: "),
    "password in parentheses": _few("ssh bob@h, password ("),
    "password should be": _around("the password should be "),
    "pw without a sign": _few("pw "),
    "credentials with a slash": _few("credentials: bob / "),
    "credentials with a colon": _around("creds admin:"),
    "login with a slash": _few("log in as admin/"),
    "api key of two words": _around("API key: "),
    "mot de passe": _few("mot de passe : "),
    "password in Russian": _few("\u043f\u0430\u0440\u043e\u043b\u044c: "),
    "password in Chinese": _few("\u5bc6\u7801\uff1a"),
    "password in Japanese": _few("\u30d1\u30b9\u30ef\u30fc\u30c9: "),
    "wachtwoord": _few("wachtwoord: "),
    "recovery code": _around("recovery code: "),
    "PIN": _of(lambda p: p.digits(6), "PIN: "),
    "query key": _around("GET https://maps.example.com/x?key="),
    "session of a web server": _around("JSESSIONID="),
    "property list": _few("<key>password</key><string>", "</string>"),
    "net user": _few("net user bob ", " /add"),
    "mc alias set": _around("mc alias set s3 https://h:9000 admin "),
    "wpa_passphrase": _few("wpa_passphrase Home "),
    "rabbitmqctl": _few("rabbitmqctl add_user bob "),
    "poetry http-basic": _few("poetry config http-basic.foo bob "),
    "bundle config": _few("bundle config gems.example.com bob:"),
    "smbclient with a word": _few("smbclient //h/share ", " -U bob"),
    "vault login": _around("vault login "),
    "cargo login": _around("cargo login "),
    "ngrok authtoken": _around("ngrok config add-authtoken "),
    "aws configure set": _of(lambda p: p.base64(40), "aws configure set aws_secret_access_key "),
    "aws put-parameter": _few("aws ssm put-parameter --name /a --value "),
    "azure key vault": _few("az keyvault secret set --vault-name v --name n --value "),
    "fly secrets": _few("fly secrets set FOO="),
    "vault kv put": _few("vault kv put secret/app key="),
    "skopeo credentials": _few("skopeo copy --src-creds bob:", " a b"),
    "lftp": _few("lftp -u bob,", " ftp.example.com"),
    "sqlplus": _few("sqlplus scott/", "@db"),
    "ipmitool": _few("ipmitool -H h -U admin -P ", " power status"),
    "useradd": _few("useradd -p ", " bob"),
    "twine": _around("twine upload -u __token__ -p "),
    "mosquitto": _few("mosquitto_pub -u bob -P ", " -t x"),
    "mosquitto_passwd": _few("mosquitto_passwd -b file bob "),
    "htpasswd to the screen": _few("htpasswd -nbB bob "),
    "schtasks": _few("schtasks /create /ru bob /rp "),
    "SecureString": _few("ConvertTo-SecureString '", "' -AsPlainText"),
    "openssl enc": _few("openssl enc -aes-256-cbc -k ", " -in a"),
    "requirepass": _few("requirepass "),
    "redis AUTH": _few("redis-cli -h h AUTH "),
    "router": _few("enable secret 0 "),
    "SNMP community": _few("snmpwalk -v2c -c ", " h"),
    "setter": _few('user.setPassword("', '")'),
    "npm config set": _around("npm config set //r/:_authToken "),
    "connection string with brackets": _of(
        lambda p: f"{p.word(6)}(!){p.word(6)}", "Server=db;User Id=sa;Password=", ";Encrypt=True"
    ),
    "exclamation mark": _of(lambda p: f"Maple!{p.digits(8)}", "nexusPassword="),
    "exclamation mark in an option": _of(lambda p: f"Maple!{p.digits(6)}", "mount -o user=bob,password="),
    "exclamation mark in YAML": _of(lambda p: f"Maple!{p.digits(7)}", "spring:\n  password: "),
    "Google app password": _of(lambda _: "qwer tyui opas dfgh", "smtp_pass = "),
    "SQL with a doubled quote": _of(
        lambda p: f"it''s-{p.word(8)}", "ALTER ROLE app WITH LOGIN PASSWORD '", "';"
    ),
    "CloudFormation parameter": _few("ParameterKey=DBPassword,ParameterValue="),
    "WordPress key far behind its name": _of(lambda p: p.word(20), "define('AUTH_KEY',         '", "');"),
    "key of a JSON web token": _few('jwt.sign(payload, "', '")'),
    "list of recovery codes": _of(
        lambda p: f"{p.lower(5)}-{p.lower(5)}", "Recovery codes:\na1b2c-d3e4f\n", "\nKeep them."
    ),
    "fetchmail": _of(lambda p: f"{p.word(4)} {p.lower(3)}7", 'poll h user "bob" password "', '"'),
    "Consul secret id": _of(lambda p: p.uuid(), "SecretID:         "),
    "cryptsetup": _of(
        lambda p: f"{p.word(5)} {p.lower(4)}", 'echo -n "', '" | cryptsetup luksOpen /dev/sda1 x -'
    ),
    "password below a sentence": _of(
        lambda p: p.hex(32), "Use the following password to proceed to installation:\n\n"
    ),
    "value before a sentence about it": _few("try ", ", it is the password for the db"),
    "net user with a quoted name": _few('net user "bob smith" ', " /add"),
    "mc alias with options": _around("mc alias set --api s3v4 prod https://s3.example.com ADMINUSER "),
    "rclone obscure": _few("rclone obscure "),
    "rclone config": _few("rclone config create r webdav url https://x user bob pass "),
    "yarn ident": _few('npmAuthIdent: "bob:', '"'),
    "private key in base64": _of(lambda p: p.base64(80), "KEY_B64=LS0tLS1CRUdJTi"),
    "cookie given to curl": _of(lambda p: p.lower(32), 'curl -b "session=', '" https://example.com'),
    "cookie given to curl, long": _of(lambda p: p.lower(26), "curl --cookie 'PHPSESSID=", "' https://x"),
    "mattermost webhook": _of(lambda p: p.lower(26), "curl -d x https://mm.example.com/hooks/"),
    "ntfy token": _of(lambda p: p.lower(29), "curl -u :tk_", " ntfy.sh/x"),
    "feishu webhook": _of(lambda p: p.uuid(), "https://open.feishu.cn/open-apis/bot/v2/hook/"),
    "pagerduty routing key": _of(lambda p: p.hex(32), '{"routing_key":"', '","event_action":"trigger"}'),
    "docker secret": _few('printf "', '" | docker secret create db_pw -'),
    "wpa_cli": _few("wpa_cli set_network 0 psk '\"", "\"'"),
    "kinit": _few("echo ", " | kinit bob@X"),
    "redis auth": _few("127.0.0.1:6379> AUTH "),
    "redis auth of a user": _few("127.0.0.1:6379> AUTH default "),
    "redis user": _few("user bob on >", " ~* +@all"),
    "android signing": _few('storePassword "', '"'),
    "ftp script": _few("open ftp.example.com\nuser bob ", "\nget x"),
    "juniper": _few('plain-text-password-value "', '"'),
    "openvpn login": _few("<auth-user-pass>\nbob\n", "\n</auth-user-pass>"),
    "ipsec login": _few('bob : EAP "', '"'),
    "ipsec pre-shared key": _few('%any : PSK "', '"'),
    "chap secrets": _few("# client server secret\nbob * ", " *"),
    "seed phrase": _of(
        lambda _: "abandon ability able about above absent absorb abstract absurd abuse access accident",
        "seed phrase: ",
    ),
    "password in German": _few("Das Passwort lautet "),
    "password in French": _few("le mot de passe est "),
    "password in Spanish": _few("la contrase\u00f1a es "),
    "csv": _few("user,password\nbob,", "\nada,x"),
    "argument of mysqli": _few('new mysqli("h", "root", "', '", "d")'),
    "argument of PDO": _few('new PDO("mysql:host=h", "root", "', '")'),
    "argument of an SSH library": _few('client.connect("h", 22, "bob", "', '")'),
    "argument of an SMTP library": _few('smtp.login("bob@x.org", "', '")'),
    "IMAP login": _few("* OK ready\na1 LOGIN bob "),
    "POP3 login": _few("USER bob\nPASS "),
    "SMTP login": _of(lambda p: f"Q7z{p.base64(21)}", "AUTH PLAIN "),
    "OAuth 1 signature": _of(
        lambda p: p.base64(28), 'Authorization: OAuth oauth_consumer_key="x", oauth_signature="', '"'
    ),
    "reset link": _of(lambda p: p.hex(40), "https://app.example.com/reset-password/"),
    "invitation link": _around("https://join.slack.com/t/x/shared_invite/zt-"),
    "cypher-shell": _few("cypher-shell -u neo4j -p "),
    "codecov": _of(lambda p: p.uuid(), "codecov -t "),
    "dotnet user-secrets": _few('dotnet user-secrets set "Db:Password" "', '"'),
    "glab": _around("glab auth login -t "),
    "pass insert": _few("echo ", " | pass insert -e x"),
    "keychain of macOS": _few("security add-generic-password -a bob -s x -w "),
    "answer file of Windows": _few("<AdministratorPassword><Value>", "</Value></AdministratorPassword>"),
    "NTLM hash": _of(lambda p: p.hex(32), "Administrator:500:aad3b435b51404eeaad3b435b51404ee:", ":::"),
    "kerberos hash": _of(lambda p: p.hex(64), "$krb5tgs$23$*svc$X$spn*$"),
    "cookie jar": _around("#HttpOnly_example.com\tFALSE\t/\tTRUE\t1893456000\tsid\t"),
    "kubeadm join": _of(lambda p: f"{p.lower(6)}.{p.lower(16)}", "kubeadm join h:6443 --token "),
    "nmcli": _few("nmcli dev wifi connect Home password "),
    "group policy": _of(lambda p: p.base64(44), 'cpassword="', '"'),
    "here-string to sudo": _few("sudo -S ls <<< '", "'"),
    "private key in one line": _of(
        lambda p: p.base64(64),
        '"key": "-----BEGIN PRIV' + "ATE KEY-----\\n",
        "\\n-----END PRIV" + 'ATE KEY-----\\n"',
    ),
    "digest login": _of(
        lambda p: p.hex(32), 'Authorization: Digest username="bob", realm="x", response="', '"'
    ),
    "wandb login": _of(lambda p: p.hex(40), "$ wandb login "),
    "snyk auth": _of(lambda p: p.uuid(), "snyk auth "),
    "vt init": _of(lambda p: p.hex(64), "vt init "),
    "cypress": _of(lambda p: p.uuid(), "cypress run --record --key "),
    "bw unlock": _few("bw unlock ", " --raw"),
    "kaggle": _of(lambda p: p.hex(32), '{"username":"bob","key":"', '"}'),
    "zhipu": _of(lambda p: f"{p.hex(32)}.{p.word(16)}", 'ZhipuAI("', '")'),
    "jenkins crumb": _of(lambda p: p.hex(64), "Jenkins-Crumb: "),
    "product key": _of(
        lambda p: "-".join(("A7" + p.upper(3), *(p.upper(5) for _ in range(4)))), "slmgr /ipk "
    ),
    "sumologic": _of(
        lambda p: p.word(86), "https://endpoint1.collection.sumologic.com/receiver/v1/http/", "=="
    ),
    "loggly": _of(lambda p: p.uuid(), "https://logs-01.loggly.com/inputs/", "/tag/http/"),
    "ifttt": _of(lambda p: p.word(22), "https://maker.ifttt.com/trigger/done/with/key/"),
    "healthchecks": _of(lambda p: p.uuid(), "curl -m 10 https://hc-ping.com/"),
    "victorops": _of(
        lambda p: p.uuid(), "https://alert.victorops.com/integrations/generic/20131114/alert/", "/key"
    ),
}


def _prefixed_kind(name: str) -> Kind:
    first, second, length = _PREFIXED[name]
    secret = _Parts(name).word(length)
    return Kind(name, f"{first}{second}{secret}", secret)


def _made_kind(name: str) -> Kind:
    return Kind(name, *_MADE[name](_Parts(name)))


KINDS: Final = (
    *(_prefixed_kind(name) for name in _PREFIXED),
    *(_made_kind(name) for name in _MADE),
)
