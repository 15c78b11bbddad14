"""Effect classes, the closed list of rules, and the table of programs. Data only.

The reference page is generated from it. A program that is not listed is unknown, never harmless.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct


class Effect(StrEnum):
    """Where an interrupted call may have left something half done. Unknown is treated as remote."""

    LOCAL = "local"
    UNKNOWN = "unknown"
    REMOTE = "remote"


class EffectRule(StrEnum):
    """Why a call has its class. Each rule has one effect."""

    READS = "reads"
    NETWORK_READ = "network-read"
    ASKS_PERSON = "asks-person"
    POLLS = "polls"
    LOCAL_WRITE = "local-write"
    INSTALL = "install"
    TEST_OR_BUILD = "test-or-build"
    NAMED_TASK = "named-task"
    INLINE_CODE = "inline-code"
    MCP_READ = "mcp-read"
    TAUGHT = "taught"

    UNKNOWN_PROGRAM = "unknown-program"
    PROJECT_PROGRAM = "project-program"
    UNNAMED_TASK = "unnamed-task"
    HIDDEN_COMMAND = "hidden-command"
    UNSEEN_CODE = "unseen-code"
    TYPED_INPUT = "typed-input"
    SUBAGENT = "subagent"
    MCP_TOOL = "mcp-tool"
    UNKNOWN_TOOL = "unknown-tool"
    UNREADABLE = "unreadable"
    POLLS_UNSEEN = "polls-unseen"

    GIT_PUSH = "git-push"
    FORGE_WRITE = "forge-write"
    HTTP_WRITE = "http-write"
    OTHER_HOST = "other-host"
    CLOUD_WRITE = "cloud-write"
    DATABASE = "database"
    PUBLISH = "publish"
    MESSAGE = "message"


class RuleMeaning(Struct, frozen=True):
    """Effect and description of a rule. `reads_only`: it changes nothing, not even locally."""

    effect: Effect
    says: str
    reads_only: bool = False


_LOCAL, _UNKNOWN, _REMOTE = Effect.LOCAL, Effect.UNKNOWN, Effect.REMOTE
# From harmless to worst: of several parts the worst decides.
MEANINGS: Final[Mapping[EffectRule, RuleMeaning]] = {
    EffectRule.READS: RuleMeaning(_LOCAL, "reads files, processes or its own data; changes nothing", reads_only=True),
    EffectRule.NETWORK_READ: RuleMeaning(
        _LOCAL, "asks a server for something and changes nothing there: GET, view, list, fetch", reads_only=True
    ),
    EffectRule.MCP_READ: RuleMeaning(_LOCAL, "an MCP tool whose name begins with a reading verb", reads_only=True),
    EffectRule.POLLS: RuleMeaning(_LOCAL, "checks a command that was started earlier and has its own class", reads_only=True),
    EffectRule.ASKS_PERSON: RuleMeaning(_LOCAL, "waits for a person's answer", reads_only=True),
    EffectRule.LOCAL_WRITE: RuleMeaning(_LOCAL, "changes files, processes or the repository of this machine"),
    EffectRule.INSTALL: RuleMeaning(_LOCAL, "fetches packages into this machine; their install scripts are not checked"),
    EffectRule.TEST_OR_BUILD: RuleMeaning(
        _LOCAL, "builds, tests, lints or formats with a well-known tool; the project's own tests are taken as local"
    ),
    EffectRule.NAMED_TASK: RuleMeaning(
        _LOCAL, "a task of the project named after testing, linting, formatting or building; its text is not seen"
    ),
    EffectRule.INLINE_CODE: RuleMeaning(
        _LOCAL, "code that was seen whole and names no network, no other program and no way to compute such a name"
    ),
    EffectRule.TAUGHT: RuleMeaning(_LOCAL, "a person said that it is local in this project: `wakeful checkpoint teach`"),
    EffectRule.PROJECT_PROGRAM: RuleMeaning(_UNKNOWN, "a script or program of the project, whose content is not checked"),
    EffectRule.UNKNOWN_PROGRAM: RuleMeaning(_UNKNOWN, "a program, or a subcommand of one, that no rule knows"),
    EffectRule.UNNAMED_TASK: RuleMeaning(_UNKNOWN, "a task of the project whose name does not say that it only tests or builds"),
    EffectRule.UNSEEN_CODE: RuleMeaning(_UNKNOWN, "code that names the network or other programs, or could compute such a name"),
    EffectRule.HIDDEN_COMMAND: RuleMeaning(_UNKNOWN, "what runs is decided while it runs: a variable, eval, a pipe into a shell"),
    EffectRule.TYPED_INPUT: RuleMeaning(_UNKNOWN, "text typed into a program that runs already"),
    EffectRule.POLLS_UNSEEN: RuleMeaning(_UNKNOWN, "waits for a command whose start is no longer known"),
    EffectRule.SUBAGENT: RuleMeaning(_UNKNOWN, "another agent, whose own calls are not checked here"),
    EffectRule.MCP_TOOL: RuleMeaning(_UNKNOWN, "an MCP tool that may write"),
    EffectRule.UNKNOWN_TOOL: RuleMeaning(_UNKNOWN, "a tool that no rule knows"),
    EffectRule.UNREADABLE: RuleMeaning(_UNKNOWN, "an input that was cut, or that does not fit the tool"),
    EffectRule.MESSAGE: RuleMeaning(_REMOTE, "sends mail or a message to people"),
    EffectRule.OTHER_HOST: RuleMeaning(_REMOTE, "acts on another host: ssh, copying to it, a raw connection"),
    EffectRule.HTTP_WRITE: RuleMeaning(_REMOTE, "an HTTP request with a body or a method that changes things"),
    EffectRule.DATABASE: RuleMeaning(_REMOTE, "a database client, unless every statement given to it only reads"),
    EffectRule.FORGE_WRITE: RuleMeaning(_REMOTE, "changes issues, pull requests, releases or settings at a forge"),
    EffectRule.CLOUD_WRITE: RuleMeaning(_REMOTE, "changes a cluster, a cloud account or a deployment"),
    EffectRule.PUBLISH: RuleMeaning(_REMOTE, "publishes or withdraws a package or an image"),
    EffectRule.GIT_PUSH: RuleMeaning(_REMOTE, "sends commits or patches to another repository"),
}  # fmt: skip
RANK: Final[Mapping[EffectRule, int]] = {rule: rank for rank, rule in enumerate(MEANINGS)}


class Verbs(Struct, frozen=True):
    """The subcommands of a program, of one or two words. `runs`: the rest of the line is another command."""

    rules: Mapping[str, EffectRule]
    otherwise: EffectRule
    valued: frozenset[str]
    runs: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()


def _verbs(otherwise: EffectRule, valued: str = "", runs: str = "", tasks: str = "", **rules: str) -> Verbs:
    by_verb = {
        verb: EffectRule(name.replace("_", "-")) for name, verbs in rules.items() for verb in verbs.split("|")
    }
    return Verbs(by_verb, otherwise, frozenset(valued.split()), _set(runs), _set(tasks))


def _set(verbs: str) -> frozenset[str]:
    return frozenset(filter(None, verbs.split("|")))


def rules_by_name(**rules: str) -> Mapping[str, EffectRule]:
    """The rule of each name; a keyword is a rule, its value a list of names."""
    return {
        name: EffectRule(rule.replace("_", "-")) for rule, names in rules.items() for name in names.split()
    }


# Whatever their arguments. Includes shell builtins.
PROGRAMS: Final[Mapping[str, EffectRule]] = rules_by_name(
    reads=": [ [[ ag b2sum base32 base64 basename bat break cal cat cd cksum cloc cmp column comm compgen continue "
    "cut date declare df diff diffstat dig dir dirname dirs du echo egrep exa exit expand export expr eza false fgrep "
    "file fmt fold free getconf getent getopts grep groups hash head help hexdump history host hostname htop iconv "
    "id jobs join jq json.tool last ldd let local locale look ls lsb_release lsof md5 md5sum "
    "nl nm nproc nslookup numfmt objdump od otool paste pgrep ping popd print printenv printf ps pstree pushd pwd "
    "read readelf readlink readonly realpath return rev rg scc seq set sha1sum sha256sum sha512sum "
    "shasum shellcheck shift shopt shuf size sleep sort ss stat strings sum sw_vers tac tail test times tokei top "
    "tput tr traceroute tree true tty type typeset ulimit umask uname unexpand uniq unset uptime users uuidgen vmstat "
    "w wait wc whereis which who whoami whois xxd yes yq zcat zgrep zless",
    local_write="age apply_patch bg bunzip2 bzip2 chgrp chmod chown clear codesign cp cpio csplit dd defaults disown "
    "dos2unix duckdb fallocate fg fuser gunzip gzip hdiutil install kill killall ln mkdir mkfifo mktemp mount "
    "mv open patch pbcopy pbpaste pkill plutil rename renice reset rm rmdir shred split sponge ssh-add ssh-keygen "
    "sqlite3 stty sync sysctl tar tee touch truncate umount unix2dos unlink unxz unzip venv virtualenv xdg-open xz zip zstd",
    test_or_build="aarch64-linux-gnu-gcc actionlint ar as autoconf autoreconf automake bats biome black c++ cc checkov "
    "clang clang++ clang-format clang-tidy cmake compileall coverage cpplint ctest esbuild eslint flake8 g++ gcc gofmt "
    "gofumpt goimports golangci-lint golint hadolint hk isort javac jest karma kotlinc ktlint ld luacheck markdownlint "
    "mdbook meson mocha musl-gcc mypy nosetests nox phpunit playwright pre-commit prettier protoc py.test "
    "py_compile pyflakes pylint pyright pytest rollup rspec rubocop ruff rustc rustfmt scalac shfmt sphinx-build "
    "staticcheck stylelint swiftformat swiftlint taplo tflint tox tsc typos unittest vitest vulture webpack "
    "x86_64-linux-gnu-gcc xcodebuild yamllint zig",
    install="apk apt apt-get asdf corepack dnf dpkg nvm pacman port pyenv rbenv rustup snap yum zypper",
    message="mail mailx msmtp mutt neomutt sendmail slack swaks telegram-send wall",
    other_host="amqp-publish ansible ansible-playbook autossh borg croc fab ftp kcat lftp mosh mosquitto_pub nc ncat "
    "netcat pssh rclone restic rlogin rsh sftp smbclient socat ssh ssh-copy-id sshpass telnet unison",
    database="alembic clickhouse-client cqlsh createdb createuser dbmate dropdb dropuser flyway influx liquibase "
    "mongoimport mongorestore mycli mysqladmin mysqlimport pg_restore pgcli sqlcmd sqlx",
    publish="cargo-release crane goreleaser oras release-it semantic-release skopeo twine",
    cloud_write="argocd cdk cdktf cf consul doctl eb eksctl firebase fly flyctl hcloud heroku ko kops linode-cli netlify "
    "nomad railway sam serverless skaffold sls supabase terragrunt vault vercel wrangler",
    network_read="pg_dump mysqldump mongodump",
)  # fmt: skip

_GIT_LOCAL: Final = (
    "add|am|apply|bisect start|bisect good|bisect bad|bisect reset|branch|bundle|checkout|cherry-pick|clean|commit|"
    "commit-graph|commit-tree|config|fetch-pack|gc|hash-object|init|lfs install|lfs track|merge|merge-file|mktree|"
    "mv|notes|pack-refs|prune|read-tree|rebase|reflog|remote|repack|replace|reset|restore|revert|rm|"
    "sparse-checkout|stash|submodule add|submodule init|submodule update|submodule sync|submodule deinit|switch|"
    "symbolic-ref|tag|update-index|update-ref|worktree|write-tree|maintenance|rerere|unpack-objects|index-pack"
)
_GIT_READS: Final = (
    "annotate|archive|bisect log|blame|cat-file|check-attr|check-ignore|cherry|count-objects|describe|diff|"
    "diff-files|diff-index|diff-tree|for-each-ref|format-patch|fsck|grep|help|log|ls-files|ls-tree|merge-base|"
    "merge-tree|name-rev|patch-id|range-diff|rev-list|rev-parse|shortlog|show|show-branch|show-ref|status|"
    "submodule status|submodule summary|submodule|var|verify-commit|verify-tag|version|whatchanged|lfs ls-files|"
    "lfs env|lfs status|request-pull|interpret-trailers|check-ref-format|stripspace"
)
_GH_READS: Final = (
    "attestation verify|auth status|auth token|cache list|codespace list|completion|config get|config list|"
    "discussion list|discussion view|extension list|gist list|gist view|gpg-key list|help|issue list|issue status|"
    "issue view|label list|org list|pr checks|pr diff|pr list|pr status|pr view|project item-list|project list|"
    "project view|project field-list|release list|release view|repo list|repo view|ruleset list|ruleset view|"
    "ruleset check|run list|run view|run watch|search|secret list|ssh-key list|status|variable get|variable list|"
    "version|workflow list|workflow view|mr list|mr view|mr diff|ci list|ci status|ci view|ci trace|ci get|alias list"
)
_GH: Final = _verbs(
    EffectRule.FORGE_WRITE,
    "-R --repo --hostname",
    network_read=_GH_READS,
    local_write="auth login|auth logout|auth refresh|auth setup-git|auth switch|browse|config set|gist clone|"
    "pr checkout|co|release download|repo clone|repo set-default|run download|mr checkout|"
    "extension install|extension upgrade|extension remove|alias set|alias delete",
)  # fmt: skip
_NODE_PACKAGES: Final = _verbs(
    EffectRule.UNKNOWN_PROGRAM,
    "-C --dir --prefix --cwd -w --workspace --filter -F",
    runs="exec|x|dlx",
    tasks="run|run-script",
    reads="ls|list|outdated|why|explain|bin|root|prefix|help|config|pkg|query|licenses|doctor|fund",
    network_read="view|info|show|search|ping|audit|whoami",
    install="install|i|ci|add|remove|rm|uninstall|un|update|up|upgrade|dedupe|prune|rebuild|link|unlink|cache|import|"
    "install-test|set|init -y|version|pack|store|patch|patch-commit|self-update|env|fetch",
    test_or_build="test|t|tst|build",
    unnamed_task="start|stop|restart",
    publish="publish|unpublish|deprecate|dist-tag|access|owner|team|token|login|adduser|logout|org|profile|hook|star",
)  # fmt: skip
_DEPLOY_OPTIONS: Final = (
    "--context --kube-context --kubeconfig -n --namespace --cluster --user -s --server --token"
)

VERBS: Final[Mapping[str, Verbs]] = {
    "git": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env",
        reads=_GIT_READS,
        local_write=_GIT_LOCAL,
        network_read="ls-remote|remote show",
        install="clone|fetch|pull|lfs fetch|lfs pull|remote update",
        hidden_command="submodule foreach|bisect run",
        git_push="push|send-email|send-pack|http-push|svn|p4|cvsexportcommit|lfs push|subtree push|imap-send",
    ),
    "gh": _GH,
    "glab": _GH,
    "kubectl": _verbs(
        EffectRule.CLOUD_WRITE,
        _DEPLOY_OPTIONS,
        network_read="get|describe|logs|explain|top|version|api-resources|api-versions|cluster-info|diff|events|wait|"
        "auth can-i|auth whoami|rollout status|rollout history|help",
        reads="config view|config get-contexts|config current-context|kustomize|completion",
        local_write="config use-context|config set-context|config set",
    ),
    "helm": _verbs(
        EffectRule.CLOUD_WRITE,
        _DEPLOY_OPTIONS,
        network_read="list|ls|get|status|history|show|search|diff",
        reads="template|lint|version|env|verify|help|completion",
        install="dependency|dep|pull|fetch|create|package|repo add|repo update|repo list|plugin",
    ),
    "terraform": _verbs(
        EffectRule.CLOUD_WRITE,
        reads="validate|fmt|version|graph|providers|output|show|state list|state show|workspace list|workspace show|help",
        network_read="plan",
        install="init|get|login|workspace select",
    ),
    "pulumi": _verbs(
        EffectRule.CLOUD_WRITE,
        "-s --stack -C --cwd",
        network_read="preview|stack ls|stack output|stack history|about|whoami|version|config get|logs|help",
        install="install|login|plugin",
    ),
    "docker": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        "--config -l --log-level",
        reads="ps|images|logs|inspect|version|info|stats|top|port|diff|history|events|container ls|image ls|network ls|"
        "volume ls|compose ps|compose logs|compose config|system df|context ls|help|container inspect|image inspect",
        local_write="stop|rm|rmi|kill|pause|unpause|tag|save|load|cp|commit|create|rename|update|login|logout|"
        "network create|network rm|volume create|volume rm|system prune|image prune|container prune|builder prune|"
        "compose stop|compose down|compose rm|wait|export|import|image rm|container rm|container stop",
        install="pull|compose pull|image pull",
        test_or_build="build|compose build|image build|buildx build|buildx bake",
        publish="push|compose push|image push|manifest push|plugin push",
    ),
    "npm": _NODE_PACKAGES,
    "pnpm": _NODE_PACKAGES,
    "yarn": _NODE_PACKAGES,
    "bun": _NODE_PACKAGES,
    "pip": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        reads="list|show|freeze|check|help|config|debug|inspect|hash|cache",
        network_read="index|search",
        install="install|uninstall|download|wheel|lock",
    ),
    "uv": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        "--directory --project --cache-dir",
        runs="run|x|tool run",
        install="sync|add|remove|lock|venv|init|python|pip|cache|export|self|tool install|tool upgrade|tool uninstall",
        reads="tree|version|help|tool list|tool dir",
        test_or_build="build|format",
        publish="publish",
    ),
    "poetry": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        "-C --directory",
        runs="run",
        install="install|add|remove|update|lock|sync|init|env|cache|self|version|new",
        reads="show|check|config|about|search|list|help|export",
        test_or_build="build",
        publish="publish",
    ),
    "cargo": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        "-C --config --color -Z --manifest-path",
        reads="metadata|tree|version|help|locate-project|pkgid|search|info|read-manifest|verify-project|audit|outdated",
        install="install|uninstall|add|remove|update|fetch|generate-lockfile|vendor|binstall|init|new",
        project_program="run|r",
        test_or_build="test|t|build|b|check|c|clippy|fmt|doc|d|bench|nextest|clean|fix|rustc|rustdoc|package|llvm-cov|"
        "insta|deny|machete|miri|expand|msrv|hack|sort|udeps|shear",
        publish="publish|yank|owner|login|logout|release|workspaces",
    ),
    "go": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        "-C",
        reads="list|doc|env|version|help",
        install="get|install|mod|work",
        test_or_build="test|build|vet|fmt|fix|clean|tool cover|tool pprof|tool nm|tool objdump",
        project_program="run|generate",
    ),
    "swift": _verbs(EffectRule.UNKNOWN_PROGRAM, test_or_build="build|test|format", install="package"),
    "dotnet": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        test_or_build="build|test|clean|format|msbuild|pack",
        install="restore|add|remove|new|sln|tool",
        reads="list|--info|--version",
        publish="nuget push|nuget delete",
    ),
    "bundle": _verbs(
        EffectRule.UNKNOWN_PROGRAM, runs="exec", install="install|update|add|lock|config|check|clean", reads="list|show|info"
    ),
    "gem": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        install="install|uninstall|update|fetch|cleanup",
        reads="list|search|info|env|which|contents|help",
        test_or_build="build",
        publish="push|yank|owner|signin",
    ),
    "composer": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        tasks="run|run-script",
        install="install|update|require|remove|dump-autoload|init",
        reads="show|outdated|validate|why|info",
    ),
    "mvn": _verbs(EffectRule.UNKNOWN_PROGRAM, test_or_build="test|compile|package|verify|clean|validate|install|site"),
    "mise": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        "--cd -C --env -E --jobs -j",
        runs="x|exec",
        tasks="run|r|tasks run|task run",
        reads="ls|list|current|where|which|env|doctor|version|outdated|help|bin-paths|registry|tasks|task",
        network_read="ls-remote|latest|search",
        install="install|i|use|u|uninstall|upgrade|up|trust|prune|cache|plugins|reshim|set|unset|link|lock|activate|fmt|"
        "settings|config",
    ),
    "hatch": _verbs(EffectRule.UNKNOWN_PROGRAM, tasks="run", test_or_build="build|test|fmt", publish="publish"),
    "pipx": _verbs(EffectRule.UNKNOWN_PROGRAM, runs="run", install="install|uninstall|upgrade|inject", reads="list"),
    "brew": _verbs(
        EffectRule.UNKNOWN_PROGRAM,
        install="install|uninstall|reinstall|update|upgrade|cleanup|link|unlink|tap|untap|pin|unpin|bundle|fetch",
        reads="list|ls|info|search|outdated|deps|uses|doctor|config|home|leaves|--prefix|--version",
    ),
    "mkdocs": _verbs(EffectRule.UNKNOWN_PROGRAM, test_or_build="build|serve|new|get-deps", publish="gh-deploy"),
    "bazel": _verbs(EffectRule.UNKNOWN_PROGRAM, test_or_build="build|test|clean|coverage", reads="query|cquery|info|version"),
}  # fmt: skip
ALIASES: Final[Mapping[str, str]] = {
    "k": "kubectl", "oc": "kubectl", "tofu": "terraform", "podman": "docker", "nerdctl": "docker", "pip3": "pip",
    "pdm": "poetry", "rye": "uv", "mvnw": "mvn", "gradlew": "gradle", "gmake": "make", "hub": "gh", "ggrep": "grep",
    "gsed": "sed", "gawk": "awk", "mawk": "awk", "gtimeout": "timeout", "gdate": "date", "gfind": "find",
}  # fmt: skip

# A task is local if its name contains a word of the first set and none of the second.
TASK_WORDS: Final = frozenset(
    {
        "all", "bench", "build", "check", "clean", "codegen", "compile", "coverage", "cov", "doc", "docs",
        "fix", "fmt", "format", "gen", "generate", "help", "install", "lint", "spec", "test", "tests", "tsc",
        "typecheck", "types", "unit", "verify", "vet",
    }
)  # fmt: skip
TASK_WORDS_REMOTE: Final = frozenset(
    {
        "announce", "apply", "aws", "bump", "cdn", "cloud", "db", "deploy", "email", "k8s", "kube", "pages", "post", "s3",
        "submit", "tag", "terraform", "tf", "destroy", "live", "migrate", "notify", "prod", "production",
        "promote", "publish", "push", "release", "remote", "rollback", "rollout", "seed", "send", "ship", "stage",
        "staging", "sync", "upload",
    }
)  # fmt: skip
