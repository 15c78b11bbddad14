"""Table of credential formats that are recognised by their spelling alone, as providers publish them.

There is one row for each kind; `docs/reference/redaction.md` is generated from it. A pattern must be linear:
no nested repeats, and bounds where a prefix may occur many times in a text. Passwords on command lines are in
`secret_commands`, secrets known by name in `named_secrets`.
"""

import re
from typing import Final, NamedTuple

# Characters that follow a provider's prefix.
_WORD: Final = "[A-Za-z0-9]"
_NAME: Final = "[A-Za-z0-9_-]"
_TELLING_CHARS_MIN: Final = 5
# A URL up to its password. A port is no password.
_URL_USER: Final = r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,100}:(?!\d{1,5}(?:[/?#\s\"'\\]|\Z))"


# Where a pattern asks for the border of a word.
_BORDER: Final = re.compile(r"(?<!\\)\\b|\(\?<!\[(?:[^]\\]|\\.)+\]\)")


def with_escaped_breaks(pattern: str) -> str:
    """The pattern, with a border of a word behind `\\n`, `\\r` and `\\t`, too: in JSON a line begins behind a letter."""
    return _BORDER.sub(r"(?:\g<0>|(?<=\\\\[nrt]))", pattern)


class Format(NamedTuple):
    """One kind of secret. Every match contains one of `hints` in lower case: searching them first is ten times faster."""

    name: str
    hints: tuple[str, ...]
    pattern: str
    shown: str = "[token]"
    # Whether every match contains a run of sixteen letters, digits, `_` and `-`: a text without one is skipped.
    long: bool = False


def _prefix_format(name: str, *prefixes: str, behind: str = _NAME, chars_min: int = 16) -> Format:
    """Tokens that begin with one of these prefixes, in any case. A dot in a prefix is a dot."""
    begins = "|".join(
        # Hidden characters may precede it, so only a prefix that could end an ordinary word needs a border.
        ("" if len(prefix) >= _TELLING_CHARS_MIN else "(?<![A-Za-z0-9])") + prefix.replace(".", r"\.")
        for prefix in prefixes
    )
    return Format(name, tuple(prefixes), rf"(?:{begins}){behind}{{{chars_min},}}", long=True)


TOKENS: Final = (
    Format(
        "private key (PEM, OpenSSH, PGP, PuTTY)",
        ("private key", "private-lines:"),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
        # The end alone: the beginning was cut off or is in another record.
        r"|(?:[A-Za-z0-9+/=]{16,4000}+(?:\s|\\+[nr]){1,8}+){1,200}+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|Private-Lines:\s*\d+\s+[A-Za-z0-9+/=\s\\]{16,}",
        "[private key]",
    ),
    Format("private key in base64", ("ls0tls1crudjti",),
        r"LS0tLS1CRUdJTi[A-Za-z0-9]{2}[A-Za-z0-9+/=]{6,}", "[private key]", long=True),
    _prefix_format("ntfy token", "tk_", behind=_WORD, chars_min=24),
    Format("hash of a Windows or Kerberos password", ("$krb5", ":"),
        r"(\$krb5\w{2,8}\$)[^\s\"'\\]{16,}|(:[0-9a-f]{32}:)[0-9a-f]{32}(?=:::)", r"\1\2[password hash]"),
    Format("OpenSSH private key without its frame", ("b3blbnnzac1rzxktdje",),
        r"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=\s\\]{8,}", "[private key]", long=True),
    Format("age private key", ("age-secret-key-1",),
        r"AGE-SECRET-KEY-1[A-Z0-9]{8,}", "[private key]", long=True),
    Format("extended private key of a wallet", ("prv",),
        r"(?<![A-Za-z0-9])[xyztuv]prv[1-9A-HJ-NP-Za-km-z]{40,}", "[private key]", long=True),
    # Behind a letter only forms that cannot be an ordinary word: `disk-usage` contains `sk-`.
    Format("OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse key", ("k-",),
        r"\b[spr]k-[A-Za-z0-9_-]{8,}|[spr]k-(?:(?:ant|proj|live|test|svcacct|admin|or|lf)-[A-Za-z0-9_-]{8,}|[A-Za-z0-9]{20,})", "[key]"),
    Format("Stripe, Paystack, Clerk key", ("k_live_", "k_test_", "k_prod_"),
        r"(?:sk|pk|rk)_(?:live|test|prod)_[A-Za-z0-9]{8,}", "[key]"),
    Format("ElevenLabs key", ("sk_",), r"(?<![A-Za-z0-9])sk_[0-9a-f]{40,}", "[key]", long=True),
    _prefix_format("Stripe, Svix webhook secret", "whsec_"),
    Format("GitHub token", ("gh", "github_pat_"),
        r"gh[pousr]_[A-Za-z0-9]{12,}|github_pat_[A-Za-z0-9_]{12,}", long=True),
    Format("GitLab token", ("gl", "gr1348941"),
        r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas|ffct)-[A-Za-z0-9_-]{12,}[A-Za-z0-9_.-]*|GR1348941[A-Za-z0-9_-]{16,}", long=True),
    Format("Slack token", ("xox", "xapp-"),
        r"xox[abeprsc](?:\.xox[a-z])?-[A-Za-z0-9-]{8,}|xapp-\d-[A-Za-z0-9-]{8,}"),
    _prefix_format("npm token", "npm_", behind=_WORD, chars_min=20),
    _prefix_format("PyPI token", "pypi-", chars_min=20),
    _prefix_format("Hugging Face token", "hf_", "api_org_", behind=_WORD, chars_min=20),
    Format("AWS access key id", ("akia", "asia", "abia", "acca", "absk"),
        r"(?-i:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b|(?-i:ABSK)[A-Za-z0-9+/]{40,}", "[key]", long=True),
    Format("Google API key", ("aiza",), r"AIza[A-Za-z0-9_-]{30,}", "[key]", long=True),
    Format("Google OAuth token, secret and HMAC key", ("ya29.", "gocspx-", "1//0", "goog1"),
        r"ya29\.[A-Za-z0-9_-]{16,}[A-Za-z0-9_.-]*|GOCSPX-[A-Za-z0-9_-]{16,}|(?<![\w/])1//0[A-Za-z0-9_-]{20,}|(?-i:\bGOOG1[A-Z0-9]{20,})", long=True),
    # Bounded: a text of many beginnings would be scanned once for each of them.
    Format("JSON web token", ("eyj",), r"eyJ[A-Za-z0-9_-]{8,2000}+(?:\.[A-Za-z0-9_-]{0,2000}+){2,4}"),
    Format("encoded JSON object as a token", ("eyj",),
        r"(?<![A-Za-z0-9+/_-])eyJ[A-Za-z0-9+/_-]{60,}={0,2}", long=True),
    Format("Telegram bot token", (":",), r"(?:bot)?[0-9]{6,12}:[A-Za-z0-9_-]{30,}", "[bot token]", long=True),
    # Greedy up to the last @ before a blank: passwords may contain slashes and at signs.
    Format("password in a URL", ("://",),
        rf"({_URL_USER})[^\s\"'<>\\`]{{1,200}}@", r"\1[password]@"),
    # Within quotes the password may contain blanks.
    Format("password with blanks in a quoted URL", ("://",),
        rf"(?<=\")({_URL_USER})[^\n\"\\]{{1,200}}@(?=[\w.\[-])|(?<=['`])({_URL_USER})[^\n'`\\]{{1,200}}@(?=[\w.\[-])", r"\1\2[password]@"),
    Format("password in an address of Go's MySQL driver", ("@tcp(", "@unix(", "@cloudsql("),
        r"([\w.-]{1,60}:)[^\s\"'`\\]{1,100}(@(?:tcp|unix|cloudsql)\()", r"\1[password]\2"),
    Format("user and password as two arguments", ("auth",),
        r"((?:\bauth\s{0,2}=\s{0,2}|\w{0,20}BasicAuth)\(\s{0,2}[rbuf]?\\{0,3}[\"'][^\"'\n\\]{1,100}\\{0,3}[\"'],\s{0,2}[rbuf]?\\{0,3}[\"'])[^\"'\n\\]{1,200}", r"\1[password]"),
    Format("token as a URL's user", ("://",), r"(https?://)[A-Za-z0-9_.~-]{16,300}@", r"\1[token]@"),
    Format("Oracle JDBC password", ("jdbc:oracle",),
        r"(jdbc:oracle:\w{2,10}:[^\s/@:]{1,60}/)[^\s@]{1,100}@", r"\1[password]@"),
    Format("webhook URL (Slack, Discord, Teams, Zapier, Google Chat)", ("hook", "/triggers/"),
        r"(hooks\.slack(?:-gov)?\.com/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/|hooks\.zapier\.com/|/IncomingWebhook/|/triggers/manual/paths/|(?<=[\w.])/hooks/(?=\S{0,60}[0-9])(?=[A-Za-z0-9_-]{20})|/bot/v2/hook/)[^\s\"'<>\\]{8,}", r"\1[token]"),
    # Anyone who knows such an address may report through it.
    Format("address of a log collector or a heartbeat", ("://",),
        r"(://[\w.-]{1,100}/(?:[\w.-]{1,40}/){0,5}(?:key|token|inputs?|receiver/v\d/http|heartbeats?|collect(?:or)?|ingest|alert)/)"
        r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[A-Za-z_=]{0,40}[0-9])[\w=]{16,200}+)(?!\w|[.-]\w)"
        r"|(://(?:\w{1,10}\.)?(?:hc-ping\.com|nosnch\.in|cronitor\.link/p|webhook\.site)/)[\w-]{8,100}", r"\1\2[token]"),
    Format("address of an alert service (Apprise)", ("://",),
        r"\b((?:tgram|discord|slack|pover|pbul|gotifys?|ntfys?|matrixs?|mmosts?|rockets?|twilio|sendgrid|mailgun|pagerduty|opsgenie|msteams|workflows|ifttt|prowl|webex|signals?|whatsapp|json|xml|form)s?://)[^\s\"'<>\\]{4,}", r"\1[token]"),
    Format(
        "authorization scheme",
        ("bearer", "basic", "digest", "ssws", "apikey", "aws4-hmac"),
        r"(bearer|ssws|apikey)\s+(?=[A-Za-z._~+/:|-]{0,200}(?-i:[0-9=]|[a-z][A-Z]))[A-Za-z0-9._~+/=:|-]{8,}"
        # Base64 has whole groups of four; `basic TypeScript` has not.
        r"|(basic)\s+(?=[A-Za-z+/-]{0,200}(?-i:[0-9=]|[a-z][A-Z]))(?:[A-Za-z0-9+/_-]{4}){2,}[A-Za-z0-9=]{0,3}=?(?![A-Za-z0-9])"
        r"|(AWS4-HMAC-SHA256)\s+[^\"'\n\\]{8,}|(digest)\s+username(?:[^\n\\]|\\{1,127}\"){8,}",
        r"\1\2\3\4 [token]",
    ),
    _prefix_format("DigitalOcean token", "dop_v1_", "doo_v1_", "dor_v1_"),
    _prefix_format("Shopify token", "shpat_", "shpca_", "shppa_", "shpss_", "shpua_"),
    Format("SendGrid key", ("sg.",),
        r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", "[key]", long=True),
    Format("Mailgun key", ("key-",), r"\b(?:pub)?key-[0-9a-f]{32}\b", "[key]", long=True),
    Format("Mailchimp key", ("-us",), r"\b[0-9a-f]{32}-us\d{1,2}\b", "[key]", long=True),
    Format("Twilio key and account", ("sk", "ac"), r"(?-i:\b(?:SK|AC)[0-9a-f]{32}\b)", "[key]", long=True),
    Format("Discord bot token", (".",),
        r"(?-i:(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})", long=True),
    Format("Azure AD client secret", ("q~",),
        r"(?-i:(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})", "[secret]", long=False),
    Format("Azure DevOps and Cosmos key", ("azdo", "acdb", "+ast"),
        r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{50,200}?(?:AZDO[A-Za-z0-9]{4}|ACDb[A-Za-z0-9=]{1,10}|\+ASt[A-Za-z0-9=]{1,10})", "[key]"),
    Format("HashiCorp Vault token", ("hvs.", "hvb.", "hvr.", "s."),
        r"hv[sbr]\.[A-Za-z0-9_-]{16,}|(?-i:(?<![A-Za-z0-9._-])s\.(?=[A-Za-z0-9]{0,23}\d)(?=[A-Za-z0-9]{0,23}[A-Z])[A-Za-z0-9]{24}(?![A-Za-z0-9]))", long=True),
    Format("Terraform Cloud token", (".atlasv1.",),
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{20,}", long=True),
    _prefix_format("Databricks token", "dapi", behind="[0-9a-f]", chars_min=24),
    _prefix_format("Grafana token", "glc_", "glsa_"),
    _prefix_format("New Relic key", "nrak-", "nrjs-", "nrii-", "nrra-", "nrbr-"),
    _prefix_format("Sentry token", "sntrys_", "sntryu_"),
    _prefix_format("Linear key", "lin_api_", "lin_oauth_"),
    _prefix_format("Notion token", "secret_", "ntn_", behind=_WORD, chars_min=30),
    Format("Airtable token", ("pat",), r"(?-i:\bpat[A-Za-z0-9]{14}\.[0-9a-f]{32,})", long=True),
    Format("Asana token", ("/",), r"(?<![\w/])[012]/\d{10,20}(?:/\d{10,20})?:[0-9a-f]{32}", long=True),
    _prefix_format("Atlassian token", "atatt3", "atctt3", "atbb", "atsvc", chars_min=20),
    _prefix_format("Figma token", "figd_", "figu_"),
    _prefix_format("Dropbox token", "sl.u.", "sl.b", "sl.a", chars_min=40),
    Format("Square token", ("eaaa", "sq0"),
        r"(?-i:\bEAAA[A-Za-z0-9_-]{50,})|sq0[a-z]{3}-[A-Za-z0-9_-]{16,}", long=True),
    Format("Braintree and PayPal token", ("access_token$",),
        r"access_token\$(?:production|sandbox)\$[A-Za-z0-9$]{16,}"),
    Format("Plaid token", ("access-",),
        r"access-(?:production|sandbox|development)-[0-9a-f-]{20,}", long=True),
    _prefix_format("Postman key", "pmak-", "pmat-"),
    _prefix_format("Pulumi token", "pul-", behind="[0-9a-f]", chars_min=32),
    _prefix_format("PlanetScale token", "pscale_tkn_", "pscale_pw_", "pscale_oauth_", chars_min=16),
    _prefix_format("Prefect key", "pnu_", "pnb_", behind=_WORD, chars_min=24),
    _prefix_format("ReadMe key", "rdme_"),
    _prefix_format("RubyGems key", "rubygems_"),
    Format("Doppler token", ("dp.",),
        r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[A-Za-z0-9_-]{1,20}\.)?[A-Za-z0-9_-]{20,}", long=True),
    _prefix_format("Duffel token", "duffel_test_", "duffel_live_"),
    Format("EasyPost key", ("ezak", "eztk"), r"(?-i:\bEZ[AT]K[A-Za-z0-9]{32,})", "[key]", long=True),
    Format("Fly.io token", ("fo1_", "fm1r_", "fm2_"),
        r"\b(?:fo1_[A-Za-z0-9_-]{20,}|fm(?:1r|2)_[A-Za-z0-9+/=_-]{20,})"),
    _prefix_format("Frame.io token", "fio-u-"),
    Format("Facebook token", ("eaa",), r"(?-i:\bEAA[A-Z][A-Za-z0-9]{60,})", long=True),
    Format("Twitter bearer token", ("aaaaaaaaa",), r"(?-i:A{15,}[A-Za-z0-9%]{30,})"),
    _prefix_format("Infracost key", "ico-", behind=_WORD, chars_min=24),
    Format("JFrog key", ("akcp", "cmvmdgtuo"),
        r"(?-i:\bAKCp[A-Za-z0-9]{50,}|\bcmVmdGtuO[A-Za-z0-9]{40,})", "[key]", long=True),
    Format("LaunchDarkly key", ("sdk-", "mob-", "api-"),
        r"\b(?:sdk|mob|api)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[key]", long=True),
    Format("Mapbox token", ("k.eyj",), r"\b[spt]k\.eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]{8,})?", long=True),
    Format("OpenShift token", ("sha256~",), r"sha256~[A-Za-z0-9_-]{30,}", long=True),
    _prefix_format("PostHog key", "phc_", "phx_", "phs_", chars_min=24),
    _prefix_format("Replicate token", "r8_", behind=_WORD, chars_min=24),
    _prefix_format("SonarQube token", "sqp_", "squ_", "sqa_", behind="[0-9a-f]", chars_min=24),
    _prefix_format("Sourcegraph token", "sgp_", "slk_", "sgd_"),
    _prefix_format("Supabase key", "sbp_", "sb_secret_"),
    _prefix_format("Tailscale key", "tskey-"),
    _prefix_format("Typeform token", "tfp_"),
    Format("Yandex token", ("y0_", "y1_", "y2_", "y3_", "aqvn", "t1."),
        r"\by[0-3]_[A-Za-z0-9_-]{40,}|(?-i:\bAQVN[A-Za-z0-9_-]{30,}|\bt1\.[A-Z0-9a-z_-]{20,}=*\.[A-Za-z0-9_-]{60,})", long=True),
    Format("Alibaba key id", ("ltai",), r"(?-i:\bLTAI[A-Za-z0-9]{12,30}\b)", "[key]", long=True),
    Format("Tencent key id", ("akid",), r"(?-i:\bAKID[A-Za-z0-9]{32}\b)", "[key]", long=True),
    _prefix_format("Adafruit key", "aio_", behind=_WORD, chars_min=24),
    _prefix_format("Clojars token", "clojars_"),
    _prefix_format("Cloudflare token", "v1.0-", "cfut_", "cfat_", "cfk_", chars_min=30),
    _prefix_format("Contentful token", "cfpat-"),
    _prefix_format("Netlify token", "nfp_", "nfc_", "nfo_", "nfu_", behind=_WORD, chars_min=24),
    _prefix_format("Docker Hub token", "dckr_pat_", "dckr_oat_"),
    _prefix_format("Groq key", "gsk_", behind=_WORD, chars_min=24),
    _prefix_format("xAI key", "xai-", behind=_WORD, chars_min=24),
    _prefix_format("Perplexity key", "pplx-", behind=_WORD, chars_min=24),
    _prefix_format("NVIDIA key", "nvapi-", chars_min=24),
    _prefix_format("Fireworks, Together, Anyscale key", "fw_", "tgp_v1_", "esecret_", chars_min=20),
    _prefix_format("LangSmith key", "lsv2_pt_", "lsv2_sk_", "ls__"),
    _prefix_format("Pinecone key", "pcsk_", chars_min=24),
    _prefix_format("Tavily, Jina, Firecrawl, LlamaCloud key",
        "tvly-", "jina_", "fc-", "llx-", behind=_WORD, chars_min=24),
    _prefix_format("1Password service token", "ops_eyj", chars_min=24),
    Format("1Password secret key", ("a3-",),
        r"(?-i:\bA3-[A-Z0-9]{6}-[A-Z0-9]{6}(?:-[A-Z0-9]{5}){4}\b|\bA3-[A-Z0-9]{6}-[A-Z0-9]{11}(?:-[A-Z0-9]{5}){3}\b)", "[key]", long=True),
    _prefix_format("Brevo key", "xkeysib-", "xsmtpsib-"),
    Format("Resend key", ("re_",),
        r"(?-i:(?<![A-Za-z0-9_])re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,})", "[key]", long=True),
    _prefix_format("Razorpay, Shippo, Lob key",
        "rzp_live_", "rzp_test_", "shippo_live_", "shippo_test_", "live_pub_", "test_pub_", chars_min=12),
    Format("Flutterwave key", ("flwseck",), r"FLWSECK(?:_TEST)?-[A-Za-z0-9-]{12,}", "[key]", long=True),
    _prefix_format("CircleCI token", "ccipat_", "cciprj_"),
    _prefix_format("Buildkite token", "bkua_", "bkaa_", "bkct_", behind=_WORD, chars_min=24),
    _prefix_format("Heroku token", "hrku-"),
    Format("HubSpot token", ("pat-",), r"\bpat-(?:na|eu)\d-[0-9a-f-]{20,}", long=True),
    Format("Dynatrace token", ("dt0",), r"\bdt0[a-z]\d{2}\.[A-Z0-9]{8,}\.[A-Z0-9]{16,}", long=True),
    _prefix_format("Honeycomb, Axiom key", "hcaik_", "hcalk_", "hcxik_", "xaat-", "xapt-", chars_min=20),
    _prefix_format("MongoDB Atlas, Neon secret", "mdb_sa_sk_", "napi_", chars_min=20),
    _prefix_format("Socket, Semgrep, Snyk token", "sktsec_", "snyk_uat.", "snyk_sat."),
    _prefix_format("Anchore, Scalr, Bitbucket, Codacy token of a project", "bbdc-", "scalr_"),
    Format("password hash (crypt, bcrypt, Argon2)", ("$",),
        r"\$(?:2[abxy]\$\d\d|[156y]|apr1|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+-]{16,}", "[password hash]"),
    Format("product key", ("-",),
        r"(?-i:(?<![\w-])[A-Z0-9]{5}(?:-[A-Z0-9]{5}){4}(?![\w-]))", "[key]", long=True),
    Format("Zhipu key", (".",),
        r"(?-i:(?<![\w.])[0-9a-f]{32}\.[A-Za-z0-9]{16}(?!\w|\.\w))", "[key]", long=True),
    Format("crumb of Jenkins", ("crumb",),
        r"(\b(?:jenkins-)?crumb\\{0,127}[\"']?\s{0,3}[:=]\s{0,3}\\{0,127}[\"']?)[0-9a-f]{32,}", r"\1[token]"),
    Format("Ansible vault", ("$ansible_vault",),
        r"\$ANSIBLE_VAULT;[^\s\\]{1,60}(?:(?:\s|\\+[nr]){1,8}[0-9a-f]{16,200}){1,400}", "[secret]"),
    Format("one-time password secret", ("otpauth://",), r"(otpauth://)[^\s\"'<>\\]{8,}", r"\1[secret]"),
    Format("line of a .pgpass file", (":",),
        r"(?m)((?:^|\\[nrt]|[\"'`\s])[\w.*-]{1,100}:(?:\d{4,5}|\*):[^:\s\"'`\\]{1,60}:[^:\s\"'`\\]{1,60}:)[^\s:\"'`\\]{1,100}(?=$|:\s|[\s\"'`\\])", r"\1[password]"),
    Format("signature of a signed URL", ("sig",),
        r"([?&;](?:x-(?:amz|goog|oss)-)?sig(?:nature)?(?:=|%3D))[^\s\"'&<>\\]{8,}", r"\1[signature]"),
)  # fmt: skip
