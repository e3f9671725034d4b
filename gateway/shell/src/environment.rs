//! Builds the environment of a command anew: what is passed, what is dropped and by which rule. The
//! rules are data, in `policies/environment.jsonc`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use stockade_programs::tables::{Table, view};
use stockade_text::json::view::View;

use stockade_wire::errors::{Code, Failure};

/// Search path when the caller has none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The number of the record of a command, which is that of its task if it is one.
pub const TASK_ID: &str = "STOCKADE_TASK_ID";

/// Every variable that may be added to give a command a cache of its own.
pub const CACHES: [&str; 13] = [
    "CARGO_HOME",
    "COMPOSER_CACHE_DIR",
    "DENO_DIR",
    "GOCACHE",
    "GOMODCACHE",
    "GRADLE_USER_HOME",
    "NUGET_PACKAGES",
    "PIP_CACHE_DIR",
    "POETRY_CACHE_DIR",
    "PRE_COMMIT_HOME",
    "UV_CACHE_DIR",
    "YARN_CACHE_FOLDER",
    "npm_config_cache",
];

/// The environment of one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// Every variable, sorted by name.
    pub variables: BTreeMap<String, String>,
    /// Names of variables that were dropped, sorted.
    pub dropped: Vec<String>,
    /// Names that settings set, sorted.
    pub set: Vec<String>,
}

/// Inputs of an environment besides the caller's variables.
#[derive(Debug, Clone, Copy)]
pub struct Additions<'a> {
    /// `env` of the settings.
    pub settings: &'a BTreeMap<String, String>,
    /// Exact names that are passed although a rule drops them.
    pub pass: &'a [String],
    /// Exact names that are not passed.
    pub deny: &'a [String],
    /// Home directory of the caller.
    pub home: &'a Path,
    /// Working directory.
    pub cwd: &'a Path,
    /// The agent, as its front end says.
    pub agent: Option<&'a str>,
    /// The session, as its front end says.
    pub session: Option<&'a str>,
}

/// Builds the environment of a confined command.
pub fn build(
    caller: &[(String, String)],
    additions: &Additions<'_>,
) -> Result<Environment, Failure> {
    let rules = rules()?;
    let mut built = Environment::default();
    for (name, value) in caller {
        let lifted = additions.pass.contains(name) && !listed(&rules.effect, name);
        let denied = additions.deny.contains(name);
        if !denied && (lifted || rules.passes(name, value)) {
            built.variables.insert(name.clone(), value.clone());
        } else {
            built.dropped.push(name.clone());
        }
    }
    for (name, value) in additions.settings {
        let denied = additions.deny.contains(name);
        if denied || listed(&rules.effect, name) || !is_variable_name(name) {
            built.dropped.push(name.clone());
            continue;
        }
        built.variables.insert(name.clone(), value.clone());
        built.set.push(name.clone());
    }
    built.dropped.sort();
    built.dropped.dedup();
    let mut own = |name: &str, value: &str| {
        built.variables.insert(name.into(), value.into());
    };
    own("HOME", &additions.home.to_string_lossy());
    own("PWD", &additions.cwd.to_string_lossy());
    own("STOCKADE", "1");
    for (name, value) in [("AI_AGENT", additions.agent), ("STOCKADE_SESSION_ID", additions.session)]
    {
        // A NUL byte ends a variable for the kernel (environ(7)).
        value.iter().filter(|value| !value.contains('\0')).for_each(|value| own(name, value));
    }
    built.variables.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
    Ok(built)
}

/// Returns the caller's variables without those that change how a loader or shell reads what follows: for
/// hooks, which run with the person's rights but must do what they were written to do.
pub fn without_effects(caller: &[(String, String)]) -> Result<BTreeMap<String, String>, Failure> {
    let rules = rules()?;
    let kept = caller.iter().filter(|(name, _)| !listed(&rules.effect, name));
    Ok(kept.filter(|(name, _)| is_variable_name(name)).cloned().collect())
}

/// Returns the variables by which programs find the proxy of a run.
pub fn of_proxy(http: u16, socks: u16) -> Result<Vec<(String, String)>, Failure> {
    let (http, socks) = (http.to_string(), socks.to_string());
    let fill = |text: &str| text.replace("{http}", &http).replace("{socks}", &socks);
    Ok(rules()?.proxy.iter().map(|(name, value)| (name.to_string(), fill(value))).collect())
}

/// Adds the variables with which programs do and leave nothing beside their work: those of git where none of them is set, and
/// the same for python.
pub fn without_upkeep(variables: &mut BTreeMap<String, String>) -> Result<(), Failure> {
    for group in &rules()?.upkeep {
        if !group.iter().any(|(name, _)| variables.contains_key(*name)) {
            let set = group.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            variables.extend(set);
        }
    }
    Ok(())
}

/// Says whether a name suggests a secret, by its words.
pub fn speaks_of_secret(name: &str) -> bool {
    // Without the rules every name does.
    rules().map_or(true, |rules| rules.names_secret(name))
}

/// Says whether a value has the shape of a credential.
pub fn looks_like_credential(value: &str) -> bool {
    rules().map_or(true, |rules| rules.is_credential(value))
}

impl Environment {
    /// Says whether the locale is C or UTF-8 (setlocale(3): `LC_ALL`, then `LC_CTYPE`, then `LANG`).
    pub fn is_utf8_or_c(&self) -> bool {
        let named = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| self.variables.get(*name).filter(|value| !value.is_empty()));
        let Some(locale) = named else { return true };
        let lower = locale.to_ascii_lowercase();
        lower == "c" || lower == "posix" || lower.ends_with("utf-8") || lower.ends_with("utf8")
    }
}

struct Rules {
    effect: Vec<&'static str>,
    pass: Vec<&'static str>,
    drop: Vec<&'static str>,
    words: Vec<&'static str>,
    pairs: Vec<(&'static str, &'static str)>,
    value_prefixes: Vec<&'static str>,
    proxy: Vec<(&'static str, &'static str)>,
    /// Of each program.
    upkeep: [Vec<(&'static str, &'static str)>; 2],
}

fn rules() -> Result<&'static Rules, Failure> {
    static RULES: LazyLock<Option<Rules>> = LazyLock::new(read_rules);
    RULES.as_ref().ok_or_else(|| {
        Failure::new(Code::Internal, "cannot read the rules for variables", "report this")
    })
}

fn read_rules() -> Option<Rules> {
    let table = view(Table::Environment).members()?;
    let list = |key: &str| table.get(key).and_then(View::texts);
    let pair = |text: &'static str, at| text.split_once(at);
    let assigned =
        |key: &str| list(key)?.into_iter().map(|it| pair(it, '=')).collect::<Option<_>>();
    Some(Rules {
        effect: list("effect")?,
        pass: list("pass")?,
        drop: [list("channel")?, list("cloud")?].concat(),
        words: list("words")?,
        pairs: list("pairs")?.into_iter().map(|it| pair(it, ' ')).collect::<Option<_>>()?,
        value_prefixes: list("value_prefixes")?,
        proxy: assigned("proxy")?,
        upkeep: [assigned("upkeep")?, assigned("bytecode")?],
    })
}

impl Rules {
    fn passes(&self, name: &str, value: &str) -> bool {
        if !is_variable_name(name) || listed(&self.effect, name) || self.is_credential(value) {
            return false;
        }
        listed(&self.pass, name) || !(listed(&self.drop, name) || self.names_secret(name))
    }

    fn names_secret(&self, name: &str) -> bool {
        let words = words_of(name);
        let secret = |word: &String| self.words.contains(&word.as_str());
        let pair = |pair: &[String]| {
            let [first, second] = pair else { return false };
            self.pairs.iter().any(|(a, b)| a == first && b == second)
        };
        words.iter().any(secret) || words.windows(2).any(pair)
    }

    fn is_credential(&self, value: &str) -> bool {
        let prefixed = |prefix: &&str| {
            value.strip_prefix(prefix).is_some_and(|rest| {
                rest.len() >= 12 && rest.bytes().all(|byte| byte.is_ascii_graphic())
            })
        };
        self.value_prefixes.iter().any(prefixed)
            || value.contains("-----BEGIN ")
            || is_signed_token(value)
            || has_password(value)
    }
}

/// Says whether a list of names, each with `*` for any rest, holds `name`.
fn listed(list: &[&str], name: &str) -> bool {
    let first = name.as_bytes().first();
    // Most entries are told by their first byte.
    let may_fit = |entry: &&&str| entry.as_bytes().first() == first || entry.starts_with('*');
    list.iter().filter(may_fit).any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => *entry == name,
    })
}

/// Says whether a shell can hold a variable of this name; exported functions and odd names are none.
fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the words of a name, split at `_` and where a capital follows a small letter, in small letters.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for character in name.chars() {
        if character == '_' || (before.is_lowercase() && character.is_uppercase()) {
            words.push(String::new());
        }
        if let (Some(word), true) = (words.last_mut(), character != '_') {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Says whether `value` is a signed token: three parts in the URL alphabet of base 64, the first a JSON object.
fn is_signed_token(value: &str) -> bool {
    let parts: Vec<&str> = value.trim().split('.').collect();
    let alphabet = |part: &&str| {
        part.len() >= 4 && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b))
    };
    parts.len() == 3 && value.trim().starts_with("eyJ") && parts.iter().all(alphabet)
}

/// Says whether `value` holds a URL with a password: `scheme://user:password@host`.
fn has_password(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#', ' ', '\n']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| {
            user.split_once(':').is_some_and(|(_, password)| !password.is_empty())
        })
    })
}

/// Every variable that a command may get beside those of its environment. The parser takes others for unset, so
/// whatever adds one names it here, or in `plan::caches::VARIABLES`.
pub const ADDED: [&str; 25] = [
    TASK_ID,
    "TMPDIR",
    "TMP",
    "TEMP",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SOCKS_PROXY",
    "socks_proxy",
    "RSYNC_PROXY",
    "NODE_USE_ENV_PROXY",
    "SSL_CERT_FILE",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0",
    "GIT_CONFIG_VALUE_0",
    "GIT_CONFIG_KEY_1",
    "GIT_CONFIG_VALUE_1",
    "PYTHONDONTWRITEBYTECODE",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn built(caller: &[(&str, &str)], pass: &[&str]) -> Environment {
        let pair = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let caller: Vec<_> = caller.iter().map(pair).collect();
        let pass: Vec<String> = pass.iter().map(|name| name.to_string()).collect();
        let additions = Additions {
            settings: &BTreeMap::from([
                ("SET".into(), "1".into()),
                ("LD_AUDIT".into(), "x".into()),
            ]),
            pass: &pass,
            deny: &["DENIED".to_string()],
            home: Path::new("/h"),
            cwd: Path::new("/p"),
            agent: Some("tester"),
            session: None,
        };
        build(&caller, &additions).unwrap()
    }

    fn kept(name: &str, value: &str) -> bool {
        built(&[(name, value)], &[]).variables.contains_key(name)
    }

    #[test]
    fn ordinary_variables_are_passed() {
        for name in
            ["PATH", "LC_TIME", "CARGO_HOME", "MY_SETTING", "KEYBOARD", "AWS_REGION", "Path"]
        {
            assert!(kept(name, "value"), "{name}");
        }
    }

    #[test]
    fn secrets_are_dropped_by_name() {
        for name in [
            "GITHUB_TOKEN",
            "DB_PASSWORD",
            "myApiKey",
            "MY_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "npm_token",
            "SESSION_COOKIE",
            "SSH_AUTH_SOCK",
            "SENTRY_DSN",
            "DOCKER_HOST",
            "DISPLAY",
            "PGPASSWORD",
        ] {
            assert!(!kept(name, "x"), "{name}");
        }
    }

    #[test]
    fn secrets_are_dropped_by_value() {
        for value in [
            "ghp_0123456789abcdef",
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "eyJhbGciOi.eyJzdWIi.c2lnbmF0",
            "postgres://u:p@host/db",
        ] {
            assert!(!kept("HARMLESS", value), "{value}");
        }
        assert!(kept("HARMLESS", "https://host:8080/a@b"));
    }

    #[test]
    fn what_changes_the_shell_is_dropped_whatever_settings_say() {
        for name in
            ["LD_PRELOAD", "BASH_ENV", "BASH_FUNC_ls%%", "IFS", "PS4", "GIT_SSH_COMMAND", "_"]
        {
            assert!(!kept(name, "x"), "{name}");
            assert!(!built(&[(name, "x")], &[name]).variables.contains_key(name), "{name}");
        }
        assert!(!built(&[], &[]).variables.contains_key("LD_AUDIT"));
        assert!(!kept("DENIED", "x"));
    }

    #[test]
    fn settings_pass_and_set_by_exact_name() {
        let environment = built(&[("MY_TOKEN", "t"), ("OTHER_TOKEN", "t")], &["MY_TOKEN"]);
        let names: Vec<&str> = environment.variables.keys().map(String::as_str).collect();
        assert_eq!(names, ["AI_AGENT", "HOME", "MY_TOKEN", "PATH", "PWD", "SET", "STOCKADE"]);
        assert_eq!(environment.dropped, ["LD_AUDIT", "OTHER_TOKEN"]);
        assert_eq!(environment.set, ["SET"]);
    }

    #[test]
    fn what_is_added_is_known_to_the_parser() {
        let mut added: BTreeMap<String, String> = of_proxy(1, 2).unwrap().into_iter().collect();
        without_upkeep(&mut added).unwrap();
        let unknown: Vec<_> = added.keys().filter(|name| !ADDED.contains(&name.as_str())).collect();
        assert_eq!(unknown, [] as [&str; 0]);
        let mut own = BTreeMap::from([("GIT_CONFIG_COUNT".to_owned(), "0".to_owned())]);
        without_upkeep(&mut own).unwrap();
        let names: Vec<&str> = own.keys().map(String::as_str).collect();
        assert_eq!(names, ["GIT_CONFIG_COUNT", "PYTHONDONTWRITEBYTECODE"]);
        let mut own = BTreeMap::from([("PYTHONDONTWRITEBYTECODE".to_owned(), String::new())]);
        without_upkeep(&mut own).unwrap();
        let value = own.get("PYTHONDONTWRITEBYTECODE").map(String::as_str);
        assert_eq!((own.len(), value), (6, Some("")), "the person's own are left as they are");
    }

    #[test]
    fn odd_locales_are_told() {
        let utf8 = |name: &str, value: &str| built(&[(name, value)], &[]).is_utf8_or_c();
        assert!(utf8("LANG", "C") && utf8("LANG", "de_DE.UTF-8") && utf8("LANG", ""));
        assert!(!utf8("LANG", "ja_JP.SJIS") && !utf8("LC_ALL", "de_DE"));
    }
}
