//! No credentials by default: what holds nothing else is hidden, what holds settings as well is shown without its secrets, and
//! what a project keeps in `.env` is asked for. One line of the settings allows each.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use stockade_tests::{Place, is_root, root, skip};

/// A user without any rights of root.
const ORDINARY: u32 = 65534;

/// A secret that no command may print.
const SECRET: &str = "pw4711";

/// Runs `test` as this user, and as an ordinary one if that is root.
fn as_both(name: &str, test: impl Fn(&Place, &dyn Fn(&[&str]) -> Command)) {
    let place = Place::new(name);
    test(&place, &|arguments| place.stockade(arguments));
    if is_root() {
        let place = Place::new(name);
        test(&place, &|arguments| place.stockade_as(ORDINARY, arguments));
    } else {
        skip(name, "what an ordinary user does, who runs these tests anyway, is not tried twice");
    }
}

fn both(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned()).concat()
}

/// Returns what the default settings hide in the home directory.
fn hidden() -> Vec<String> {
    let text =
        fs::read_to_string(root().join("policies/profiles/default.json")).expect("the profile");
    let settings: Value = serde_json::from_str(&text).expect("JSON");
    let paths = settings["sandbox"]["filesystem"]["denyRead"].as_array().expect("a list");
    let home = paths.iter().filter_map(|path| path.as_str()?.strip_prefix("~/"));
    // Our own state is not a credential, and has a test of its own.
    home.filter(|path| !path.contains("stockade")).map(str::to_owned).collect()
}

/// Puts a secret into each of these below `folder`: into a file of this name, or where that is a folder as a rule, in it.
fn plant(folder: &Path, names: &[String]) {
    for name in names {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, SECRET).expect("a secret");
    }
}

/// Reads each name of the list in every way that needs no rights, so that the text of the command names none of them.
const ACT: &str = r#"
mkdir -p out
while read -r name; do
    cat "$name"; cp "$name" out/copy && cat out/copy; rm -f out/copy
    ln "$name" out/hard && cat out/hard; ln -s "$name" out/soft; cat out/soft; cat "/proc/self/root$name"; cat "/proc/$$/root$name"
    tar -cf - -C "$(dirname "$name")" "$(basename "$name")" | cat
    dd if="$name"; perl -e 'open F, "<", $ARGV[0] and print <F>' "$name"; (exec 9<"$name" && cat <&9)
    ( cd "$(dirname "$name")" && cat "./$(basename "$name")" ); mv "$name" out/moved && cat out/moved
    rm -f out/*
done < names
rm -rf out
true
"#;

/// The same in few processes, for a long list.
const MANY: &str = r#"
mkdir -p out
while read -r name; do
    ln "$name" "out/$RANDOM$RANDOM"; ln -s "$name" "out/$RANDOM$RANDOM"; echo "/proc/self/root$name"
done < names > names2
cat $(cat names names2) out/*; cp $(cat names) out; cat out/*
perl -ne 'chomp; open F, "<", $_ or next; print <F>' names names2
cd ~ && tar -cf - . | cat; grep -r . . ; find . -type f -exec cat {} +
cd - && rm -rf out
true
"#;

fn list(paths: impl IntoIterator<Item = String>) -> String {
    paths.into_iter().map(|path| path + "\n").collect()
}

/// The home directory as settings have to name it: it is not that of the password database, so `~` allows nothing.
fn home(place: &Place) -> PathBuf {
    fs::canonicalize(place.home()).expect("a folder")
}

fn open_to_all(place: &Place) {
    fs::set_permissions(place.home(), fs::Permissions::from_mode(0o755)).expect("chmod");
}

#[test]
fn what_holds_nothing_but_secrets_is_read_by_no_command() {
    as_both("credentials-hidden", |place, stockade| {
        let names = hidden();
        assert!(names.len() > 150, "{}", names.len());
        // One that lies in another is hidden with it.
        let names: Vec<String> = {
            let lies_in = |name: &&String| {
                names.iter().any(|it| it != *name && Path::new(name).starts_with(it))
            };
            names.iter().filter(|name| !lies_in(name)).cloned().collect()
        };
        plant(&place.home(), &names);
        open_to_all(place);
        let paths = names.iter().map(|name| place.home().join(name).display().to_string());
        place.write("project/names", &list(paths));
        place.write("project/act.sh", MANY);
        let act = "while read -r name; do cat \"$name\"; done < names";
        let mut plain = Command::new("bash");
        let plain = plain.args(["-c", act]).current_dir(place.project()).output().expect("bash");
        let told = String::from_utf8_lossy(&plain.stdout).matches(SECRET).count();
        assert_eq!(told, names.len(), "unconfined each is read");
        let output =
            stockade(&["run", "--no-daemon", "--", "bash act.sh"]).output().expect("stockade");
        let told = both(&output);
        assert!(output.status.success() && !told.contains(SECRET), "{told}");
        for name in names {
            let left = fs::read_to_string(place.home().join(&name)).expect(&name);
            assert_eq!(left, SECRET, "{name}");
        }
    });
}

#[test]
fn what_variables_put_elsewhere_is_hidden_there() {
    as_both("credentials-elsewhere", |place, stockade| {
        let elsewhere = place.root.join("elsewhere");
        let at = |name: &str| elsewhere.join(name).display().to_string();
        let moved = [
            ("XDG_CONFIG_HOME", at("config"), "config/gh/hosts.yml"),
            ("XDG_DATA_HOME", at("data"), "data/keyrings/login.keyring"),
            ("CARGO_HOME", at("cargo"), "cargo/credentials.toml"),
            ("DOCKER_CONFIG", at("docker"), "docker/config.json"),
            ("GNUPGHOME", at("gnupg"), "gnupg/private-keys-v1.d/k.key"),
            ("AWS_SHARED_CREDENTIALS_FILE", at("aws-keys"), "aws-keys"),
            ("KUBECONFIG", format!("{}:{}", at("kube-a"), at("kube-b")), "kube-b"),
            ("HISTFILE", at("history"), "history"),
            ("GOOGLE_APPLICATION_CREDENTIALS", at("key.json"), "key.json"),
            ("NPM_CONFIG_USERCONFIG", at("npmrc"), "npmrc"),
            ("PIP_CONFIG_FILE", at("pip.conf"), "pip.conf"),
        ];
        for (_, _, file) in &moved {
            let text = match *file {
                "npmrc" => {
                    format!("registry=http://127.0.0.1:9/\n//127.0.0.1:9/:_authToken={SECRET}\n")
                }
                "pip.conf" => {
                    format!("[global]\nindex-url = http://u:{SECRET}@127.0.0.1:9/simple\n")
                }
                _ => SECRET.to_owned(),
            };
            place.write(&format!("elsewhere/{file}"), &text);
        }
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).expect("chmod");
        place.write("project/names", &list(moved.iter().map(|it| at(it.2))));
        place.write("project/act.sh", ACT);
        let mut command = stockade(&["run", "--no-daemon", "--", "bash act.sh"]);
        let output = command.envs(moved.iter().map(|it| (it.0, &it.1))).output().expect("stockade");
        let told = both(&output);
        assert!(output.status.success() && !told.contains(SECRET), "{told}");
        assert!(told.contains("registry=http://127.0.0.1:9/"), "{told}");
        assert!(told.contains("index-url = http://127.0.0.1:9/simple"), "{told}");
        // Nothing else of such a folder is: settings of the shell's kind are no secrets.
        assert!(!told.contains("No such file or directory: registry"), "{told}");
    });
}

#[test]
fn a_file_of_the_home_with_another_name_is_shown_without_its_secrets() {
    as_both("credentials-renamed", |place, stockade| {
        let text =
            format!("npmRegistryServer: \"http://127.0.0.1:9/npm\"\nnpmAuthToken: {SECRET}\n");
        place.write("home/.mine.yml", &text);
        open_to_all(place);
        let mut command = stockade(&["run", "--no-daemon", "--", "cat ~/.mine.yml"]);
        // Without the variable the file is like any other.
        let told = both(&command.output().expect("stockade"));
        assert!(told.contains(SECRET), "{told}");
        let told = both(&command.env("YARN_RC_FILENAME", ".mine.yml").output().expect("stockade"));
        assert!(!told.contains(SECRET) && told.contains("http://127.0.0.1:9/npm"), "{told}");
    });
}

/// Files with settings and secrets, and what is to be seen of them.
const MIXED: [(&str, &str, &str); 11] = [
    (
        ".npmrc",
        "registry=http://127.0.0.1:9/npm/\n@mine:registry=http://u:pw4711@127.0.0.1:9/mine/\n//127.0.0.1:9/:_authToken=pw4711\n_auth=pw4711\nother=pw4711\nfund=false\n",
        "registry=http://127.0.0.1:9/npm/\n@mine:registry=http://127.0.0.1:9/mine/\nfund=false\n",
    ),
    (
        ".yarnrc.yml",
        "npmRegistryServer: \"http://127.0.0.1:9\"\nnpmAuthToken: pw4711\nnpmScopes:\n  a:\n    npmAuthToken: pw4711\n",
        "npmRegistryServer: \"http://127.0.0.1:9\"\n",
    ),
    (
        ".pip/pip.conf",
        "[global]\nindex-url = http://u:pw4711@127.0.0.1:9/simple\n",
        "[global]\nindex-url = http://127.0.0.1:9/simple\n",
    ),
    (
        ".config/pip/pip.conf",
        "[global]\nextra-index-url =\n  http://u:pw4711@127.0.0.1:9/b\npassword = pw4711\n",
        "[global]\nextra-index-url =\n  http://127.0.0.1:9/b\n",
    ),
    (
        ".m2/settings.xml",
        "<settings><servers><server><id>m</id><password>pw4711</password></server></servers><mirrors><mirror><id>m</id><url>http://127.0.0.1:9/m</url></mirror></mirrors></settings>\n",
        "<settings><mirrors><mirror><id>m</id><url>http://127.0.0.1:9/m</url></mirror></mirrors></settings>\n",
    ),
    (
        ".gradle/gradle.properties",
        "org.gradle.parallel=true\nnexusPassword=pw4711\nmirror=http://127.0.0.1:9/g\n",
        "org.gradle.parallel=true\nnexusPassword=\nmirror=http://127.0.0.1:9/g\n",
    ),
    (
        ".terraformrc",
        "credentials \"app.terraform.io\" {\n  token = \"pw4711\"\n}\nprovider_installation {\n  network_mirror {\n    url = \"http://127.0.0.1:9/\"\n  }\n}\n",
        "provider_installation {\n  network_mirror {\n    url = \"http://127.0.0.1:9/\"\n  }\n}\n",
    ),
    (
        ".config/uv/uv.toml",
        "[[index]]\nurl = \"http://u:pw4711@127.0.0.1:9/simple\"\ndefault = true\n",
        "[[index]]\nurl = \"http://127.0.0.1:9/simple\"\ndefault = true\n",
    ),
    (
        ".cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"mine\"\n[source.mine]\nregistry = \"sparse+http://127.0.0.1:9/\"\n[registries.mine]\ntoken = \"pw4711\"\n",
        "[source.crates-io]\nreplace-with = \"mine\"\n[source.mine]\nregistry = \"sparse+http://127.0.0.1:9/\"\n[registries.mine]\n",
    ),
    // A file that cannot be read in its format is hidden.
    (".tofurc", "credentials \"x\" {\n token = \"pw4711\"\n", ""),
    (".bunfig.toml", "[install]\nregistry = '''http://u:pw4711@h'''\n", ""),
];

#[test]
fn settings_with_secrets_are_seen_without_them() {
    as_both("credentials-mixed", |place, stockade| {
        for (name, text, _) in MIXED {
            place.write(&format!("home/{name}"), text);
        }
        open_to_all(place);
        let paths = || MIXED.iter().map(|it| place.home().join(it.0).display().to_string());
        place.write("project/names", &list(paths()));
        place.write("project/act.sh", ACT);
        let told = both(
            &stockade(&["run", "--no-daemon", "--", "bash act.sh"]).output().expect("stockade"),
        );
        assert!(!told.contains(SECRET), "{told}");
        for (name, text, expected) in MIXED {
            let path = place.home().join(name);
            let read = format!("cat {}", path.display());
            let output = stockade(&["run", "--no-daemon", "--", &read]).output().expect("stockade");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}");
            // Nothing of a copy can be changed, and the file stays what it is.
            let write = format!("chmod 777 {0}; echo x >> {0}; rm {0}; mv {0} x", path.display());
            place.write("project/write.sh", &write);
            stockade(&["run", "--no-daemon", "--", "bash write.sh"]).output().expect("stockade");
            assert_eq!(fs::read_to_string(&path).expect(name), text, "{name}");
        }
    });
}

#[test]
fn a_project_shows_its_settings_as_they_are_unless_they_hold_secrets() {
    as_both("credentials-project", |place, stockade| {
        let plain = "# pnpm's\nnode-linker=hoisted\nodd=thing\n//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n";
        place.write("project/.npmrc", plain);
        place.write("project/packages/a/.npmrc", &format!("odd=thing\n_auth={SECRET}\n"));
        let run =
            |text: &str| stockade(&["run", "--no-daemon", "--", text]).output().expect("stockade");
        assert_eq!(String::from_utf8_lossy(&run("cat .npmrc").stdout), plain);
        assert_eq!(String::from_utf8_lossy(&run("cat packages/a/.npmrc").stdout), "odd=thing\n");
        let output = run("cd packages; cd a; cat .npmrc");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "odd=thing\n");
    });
}

/// Says what a program prints outside and inside.
fn outside_and_inside(
    place: &Place,
    stockade: &dyn Fn(&[&str]) -> Command,
    text: &str,
) -> [String; 2] {
    let rustup = std::env::var("RUSTUP_HOME");
    let rustup = rustup.unwrap_or_else(|_| std::env::var("HOME").unwrap_or_default() + "/.rustup");
    let mut inside = stockade(&["run", "--no-daemon", "--", text]);
    let inside = inside.env("RUSTUP_HOME", &rustup).output().expect("stockade");
    let mut outside = Command::new("bash");
    outside.args(["-c", text]).env_clear().env("HOME", place.home()).current_dir(place.project());
    outside.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    outside.env("RUSTUP_HOME", rustup);
    let outside = outside.output().expect("bash");
    [outside, inside].map(|it| String::from_utf8_lossy(&it.stdout).trim_end().to_owned())
}

#[test]
fn the_registry_inside_is_the_one_outside() {
    as_both("credentials-registry", |place, stockade| {
        place.write(
            "home/.npmrc",
            "registry=http://127.0.0.1:9/npm/\n//127.0.0.1:9/npm/:_authToken=pw4711\n",
        );
        place.write("home/.config/pip/pip.conf", "[global]\nindex-url = http://127.0.0.1:9/simple\nextra-index-url = http://u:pw4711@127.0.0.1:9/b\n");
        place.write(
            "home/.yarnrc",
            "registry \"http://127.0.0.1:9/yarn/\"\n\"//127.0.0.1:9/yarn/:_authToken\" pw4711\n",
        );
        place.write("home/.cargo/config.toml", "[source.crates-io]\nreplace-with = \"mine\"\n[source.mine]\nregistry = \"sparse+http://127.0.0.1:9/\"\n[registries.mine]\ntoken = \"pw4711\"\n");
        place.write("project/Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nserde = \"1\"\n[workspace]\n");
        place.write("project/src/lib.rs", "");
        open_to_all(place);
        let programs = [
            ("npm", "npm config get registry", "http://127.0.0.1:9/npm/"),
            ("pip3", "pip3 config get global.index-url", "http://127.0.0.1:9/simple"),
            ("yarn", "yarn config get registry", "http://127.0.0.1:9/yarn/"),
            ("cargo", "cargo fetch 2>&1 | grep -o 'Updating.*index'", "Updating `mine` index"),
        ];
        for (program, text, expected) in programs {
            let [_, found] = outside_and_inside(place, stockade, &format!("command -v {program}"));
            if found.is_empty() {
                let why = format!("there is no {program} for this user");
                skip("credentials-registry", &why);
                continue;
            }
            let [outside, inside] = outside_and_inside(place, stockade, text);
            assert_eq!((outside.as_str(), inside.as_str()), (expected, expected), "{program}");
        }
    });
}

#[test]
fn one_line_of_the_settings_allows_each() {
    as_both("credentials-allowed", |place, stockade| {
        plant(&place.home(), &[".netrc".to_owned(), ".config/gh/hosts.yml".to_owned()]);
        place.write("home/.npmrc", "_auth=pw4711\n");
        place.write("project/.env", "A=pw4711\n");
        open_to_all(place);
        let home = home(place);
        let env = fs::canonicalize(place.project()).expect("a folder").join(".env");
        for (path, text) in [
            (home.join(".netrc"), "cat ~/.netrc"),
            (home.join(".config/gh"), "cat ~/.config/gh/hosts.yml"),
            (home.join(".npmrc"), "grep pw ~/.npmrc"),
            (env, "cat .env"),
        ] {
            let output = stockade(&["run", "--no-daemon", "--", text]).output().expect("stockade");
            let told = both(&output);
            assert!(!output.status.success() && !told.contains(SECRET), "{text}: {told}");
            let line = format!(
                "to allow: sandbox.filesystem.allowRead: [\"{}\"] (user settings)",
                path.display()
            );
            assert!(told.contains(&line), "{text}: {told}");
            let settings = json!({"sandbox": {"filesystem": {"allowRead": [path]}}}).to_string();
            place.write("home/.config/stockade/settings.json", &settings);
            let output = stockade(&["run", "--no-daemon", "--", text]).output().expect("stockade");
            assert!(
                output.status.success() && both(&output).contains(SECRET),
                "{text}: {}",
                both(&output)
            );
            fs::remove_file(place.home().join(".config/stockade/settings.json")).expect("settings");
        }
    });
}

#[test]
fn what_a_person_refuses_stays_refused() {
    as_both("credentials-refused", |place, stockade| {
        plant(&place.home(), &[".netrc".to_owned(), ".npmrc".to_owned()]);
        place.write("home/.npmrc", "registry=http://127.0.0.1:9/\n_auth=pw4711\n");
        open_to_all(place);
        let lists = json!({"denyRead": ["~/.netrc", "~/.npmrc"], "allowRead": [home(place).join(".netrc"), home(place).join(".npmrc")]});
        let settings = json!({"sandbox": {"filesystem": lists}}).to_string();
        place.write("home/.config/stockade/settings.json", &settings);
        for text in ["cat ~/.netrc", "cat ~/.npmrc"] {
            let output = stockade(&["run", "--no-daemon", "--", text]).output().expect("stockade");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{text}");
        }
        // A wider rule does not mean what is hidden in it.
        let settings =
            json!({"sandbox": {"filesystem": {"allowRead": [home(place), home(place).join(".config")]}}}).to_string();
        place.write("home/.config/stockade/settings.json", &settings);
        let output =
            stockade(&["run", "--no-daemon", "--", "cat ~/.netrc"]).output().expect("stockade");
        assert!(!both(&output).contains(SECRET));
    });
}

#[test]
fn the_projects_own_is_asked_for_by_name_and_empty_for_others() {
    as_both("credentials-env", |place, stockade| {
        for name in [".env", ".env.local", "packages/a/.env"] {
            place.write(&format!("project/{name}"), "A=pw4711\n");
        }
        place.write("project/.env.example", "A=example\n");
        let names = [".env", ".env.local", "packages/a/.env"]
            .map(|name| place.project().join(name).display().to_string());
        place.write("project/names", &list(names));
        place.write("project/act.sh", ACT);
        let run =
            |text: &str| stockade(&["run", "--no-daemon", "--", text]).output().expect("stockade");
        let output = run("bash act.sh");
        assert!(output.status.success() && !both(&output).contains(SECRET), "{}", both(&output));
        for text in ["cp -r . /tmp/x; cat /tmp/x/.e*", "tar -cf - . | cat", "grep -rn A= ."] {
            let told = both(&run(text));
            assert!(!told.contains(SECRET) && !told.contains("needs a person"), "{text}: {told}");
        }
        // Nothing that a first command leaves opens it to a second and a third one.
        for step in [
            "ln -s .env link; ln .env hard; mkdir d; mv packages d/packages; chmod 300 packages; mv .env d/env; chmod 777 .env",
            "cat packages/a/.e*; chmod 700 packages; cp -al . ../copy; mount --bind . d",
            "bash act.sh; chmod 0 packages/a packages",
            "chmod 700 packages packages/a; bash act.sh; for i in $(seq 300); do mkdir -p \"many/$i/x\"; done; mv packages/a many",
            "cat link d/* hard many/a/.e* d/packages/a/.e*; bash act.sh",
        ] {
            place.write("project/step.sh", step);
            let told = both(&run("bash step.sh"));
            assert!(!told.contains(SECRET), "{step}: {told}");
        }
        for folder in ["packages", "packages/a"] {
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(place.project().join(folder), open).expect("chmod");
        }
        assert_eq!(
            fs::read_to_string(place.project().join("packages/a/.env")).expect("a file"),
            "A=pw4711\n"
        );
        // No command gets a link to what is hidden from it; a person may make one.
        std::os::unix::fs::symlink(".env", place.project().join("link")).expect("a link");
        for text in [
            "cat .env",
            "cat ./.env.local | wc",
            "source packages/a/.env",
            "node x < .env",
            "cat link",
        ] {
            let output = run(text);
            let told = both(&output);
            assert_eq!(output.status.code(), Some(121), "{text}: {told}");
            assert!(told.contains("may contain secrets"), "{text}: {told}");
        }
        for text in ["cat .env.example", "echo .env", "cp .env.example .env.test"] {
            let output = run(text);
            assert!(output.status.success(), "{text}: {}", both(&output));
        }
    });
}

#[test]
fn one_deep_in_the_project_is_empty_for_others_too() {
    as_both("credentials-deep", |place, stockade| {
        let deep = "a/b/c/d/e/f/g/.env";
        place.write(&format!("project/{deep}"), "A=pw4711\n");
        place.write(
            "project/act.sh",
            &format!("cat {deep} || true; find . -name '.e*' -exec cat {{}} +"),
        );
        let run =
            |text: &str| stockade(&["run", "--no-daemon", "--", text]).output().expect("stockade");
        let output = run("bash act.sh");
        assert!(output.status.success() && !both(&output).contains(SECRET), "{}", both(&output));
        assert_eq!(run(&format!("cat {deep}")).status.code(), Some(121));
    });
}

#[test]
fn a_search_of_an_agents_tool_through_such_files_is_asked_for() {
    let place = Place::new("credentials-search");
    place.write("project/.env", "A=pw4711\n");
    place.write("project/packages/a/.env.local", "A=pw4711\n");
    place.write("project/src/x.ts", "A\n");
    let decides = |tool: &str, input: Value| {
        let input = input.to_string();
        let words = ["check", "--no-daemon", "--json", "--tool", tool, "--input", &input];
        let told: Value = serde_json::from_slice(&place.output(words).stdout).expect("JSON");
        told["decision"].as_str().expect("a decision").to_owned()
    };
    let root = place.project();
    for asked in [
        json!({"pattern": "A"}),
        json!({"pattern": "A", "path": root}),
        json!({"pattern": "A", "path": "/"}),
        json!({"pattern": "A", "path": "packages"}),
        json!({"pattern": "A", "path": ".env"}),
        json!({"pattern": "A", "glob": ".*"}),
        json!({"pattern": "A", "glob": "!*.ts"}),
        json!({"pattern": "A", "glob": "**/.env*"}),
    ] {
        assert_eq!(decides("Grep", asked.clone()), "ask", "{asked}");
    }
    for free in [
        json!({"pattern": "A", "path": "src"}),
        json!({"pattern": "A", "glob": "*.{ts,tsx}"}),
        json!({"pattern": "A", "glob": "!.env*"}),
        json!({"pattern": "A", "glob": "!**/.env*"}),
    ] {
        assert_eq!(decides("Grep", free.clone()), "allow", "{free}");
    }
    // Names alone are no secret.
    assert_eq!(decides("LS", json!({"path": root})), "allow");
    assert_eq!(decides("Glob", json!({"pattern": "**/*.ts"})), "allow");
    // One line allows it.
    let lines = json!({"sandbox": {"filesystem": {"allowRead": [root.join(".env"), root.join("packages/a/.env.local")]}}});
    place.write("home/.config/stockade/settings.json", &lines.to_string());
    assert_eq!(decides("Grep", json!({"pattern": "A"})), "allow");
}

#[test]
fn a_rule_about_such_files_answers_for_them_and_a_wider_one_does_not() {
    as_both("credentials-rule", |place, stockade| {
        place.write("project/.env", "A=pw4711\n");
        place.write("project/act.sh", "cat .e*");
        let settings = |rule: &str| {
            let settings = json!({"permissions": {"allow": [rule, "Bash(cat *)"]}}).to_string();
            place.write("home/.config/stockade/settings.json", &settings);
        };
        let run =
            |text: &str| stockade(&["run", "--no-daemon", "--", text]).output().expect("stockade");
        let read = || {
            let input = json!({"file_path": ".env"}).to_string();
            let output =
                stockade(&["check", "--no-daemon", "--json", "--tool", "Read", "--input", &input]);
            let told: Value =
                serde_json::from_slice(&{ output }.output().expect("stockade").stdout)
                    .expect("JSON");
            told["decision"].as_str().expect("a decision").to_owned()
        };
        for wide in ["Read", "Read(**)", "Read(./**)", "Read(./.*)"] {
            settings(wide);
            assert_eq!(run("cat .env").status.code(), Some(121), "{wide}");
            assert_ne!(read(), "allow", "{wide}");
        }
        settings("Read(.env)");
        assert_eq!(String::from_utf8_lossy(&run("cat .env").stdout), "A=pw4711\n");
        assert_eq!(read(), "allow");
        // A command that does not name the file sees it empty all the same.
        assert_eq!(String::from_utf8_lossy(&run("bash act.sh").stdout), "");
    });
}

#[test]
fn a_wider_rule_that_shows_a_folder_shows_no_secrets_in_it() {
    as_both("credentials-wider", |place, stockade| {
        place.write(
            "home/.config/pip/pip.conf",
            "[global]\nindex-url = http://u:pw4711@127.0.0.1:9/simple\n",
        );
        place.write("home/.config/x", "x\n");
        open_to_all(place);
        let lists =
            json!({"denyRead": ["~/.config"], "allowRead": [home(place).join(".config/pip")]});
        let settings = json!({"sandbox": {"filesystem": lists}}).to_string();
        place.write("home/.config/stockade/settings.json", &settings);
        let run =
            |text: &str| stockade(&["run", "--no-daemon", "--", text]).output().expect("stockade");
        assert_eq!(String::from_utf8_lossy(&run("cat ~/.config/x").stdout), "");
        let told = run("cat ~/.config/pip/pip.conf");
        let expected = "[global]\nindex-url = http://127.0.0.1:9/simple\n";
        assert_eq!(String::from_utf8_lossy(&told.stdout), expected);
    });
}
