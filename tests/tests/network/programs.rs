//! git, pip, npm and cargo through the proxy, each with a server of the test that serves one package.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use stockade_tests::{Place, skip};

use crate::server::Server;
use crate::{object, user};

/// The loopback is reached without a proxy; these tests want it used.
const PROXIED: &str = "export NO_PROXY= no_proxy=; ";

fn sh(directory: &Path, line: &str) -> String {
    let output = Command::new("bash").args(["-ec", line]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{line}: {}", crate::text(&output.stderr));
    crate::text(&output.stdout)
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// Returns every file below `folder`, under `/PREFIX/`.
fn served(folder: &Path, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let list = sh(folder, "find . -type f");
    let file = |line: &str| {
        let name = line.trim_start_matches("./");
        (format!("/{prefix}/{name}"), std::fs::read(folder.join(name)).unwrap())
    };
    list.lines().map(file).collect()
}

/// Runs `line` with the server listed, and says the outcome; first without it being listed, which must fail.
fn only_with_a_rule(place: &Place, server: &Server, line: &str) -> String {
    let line = format!("{PROXIED}{line}");
    let refused = object(place, &line);
    assert_ne!(refused["exit_code"], 0, "without a rule: {refused}");
    assert_eq!(refused["violations"][0]["kind"], "network", "{refused}");
    assert_eq!(server.requests(), Vec::<String>::new());
    user(place, &json!({ "allowedDomains": [format!("127.0.0.1:{}", server.port())] }));
    let ran = object(place, &line);
    assert_eq!(ran["exit_code"], 0, "{ran}");
    ran["output"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn git_clones_over_http() {
    let place = Place::new("network-git");
    sh(
        &place.root,
        "export GIT_CONFIG_GLOBAL=/dev/null; git init -q made; cd made; echo text > file; git add file; \
         git -c user.name=a -c user.email=a@b commit -qm one; cd ..; git clone -q --bare made repository.git; \
         git -C repository.git update-server-info",
    );
    let files = served(&place.root.join("repository.git"), "repository.git");
    let server = Server::with(|_| Some(files));
    let url = format!("http://127.0.0.1:{}/repository.git", server.port());
    let told =
        only_with_a_rule(&place, &server, &format!("git clone -q {url} copy && cat copy/file"));
    assert_eq!(told, "text\n");
}

#[test]
fn pip_installs_from_an_index() {
    // The program itself: a shim in its place may have further plans.
    let python =
        Command::new("python3").args(["-c", "import pip, sys; print(sys.executable)"]).output();
    let python = match python {
        Ok(output) if output.status.success() => crate::text(&output.stdout).trim().to_owned(),
        Ok(_) | Err(_) => return skip("pip_installs_from_an_index", "pip is not installed"),
    };
    let place = Place::new("network-pip");
    sh(
        &place.root,
        "python3 - <<'END'\nimport zipfile\n\
         with zipfile.ZipFile('demo-1.0-py3-none-any.whl', 'w') as wheel:\n\
         \x20   wheel.writestr('demo.py', 'print(\"hello\")\\n')\n\
         \x20   wheel.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')\n\
         \x20   wheel.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\n\
         Root-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         \x20   wheel.writestr('demo-1.0.dist-info/RECORD', '')\nEND",
    );
    let wheel = std::fs::read(place.root.join("demo-1.0-py3-none-any.whl")).unwrap();
    let page =
        b"<a href=\"/files/demo-1.0-py3-none-any.whl\">demo-1.0-py3-none-any.whl</a>".to_vec();
    let server = Server::with(|_| {
        Some(BTreeMap::from([
            ("/simple/demo/".to_owned(), page),
            ("/files/demo-1.0-py3-none-any.whl".to_owned(), wheel),
        ]))
    });
    let line = format!(
        "{python} -m pip install -q --disable-pip-version-check --no-cache-dir --retries 0 --target out \
         --trusted-host 127.0.0.1 --index-url http://127.0.0.1:{}/simple/ demo && {python} out/demo.py",
        server.port()
    );
    let told = only_with_a_rule(&place, &server, &line);
    assert!(told.ends_with("hello\n"), "{told}");
}

#[test]
fn npm_installs_from_a_registry() {
    if !is_installed("npm") {
        return skip("npm_installs_from_a_registry", "npm is not installed");
    }
    let place = Place::new("network-npm");
    place.write(
        "package/package.json",
        r#"{"name": "demo", "version": "1.0.0", "main": "index.js"}"#,
    );
    place.write("package/index.js", "console.log('hello')\n");
    sh(&place.root, "tar -czf demo.tgz package");
    let tarball = std::fs::read(place.root.join("demo.tgz")).unwrap();
    let sum = sh(&place.root, "sha1sum demo.tgz | cut -d ' ' -f 1");
    let server = Server::with(|port| {
        let about = json!({
            "name": "demo",
            "dist-tags": { "latest": "1.0.0" },
            "versions": { "1.0.0": {
                "name": "demo",
                "version": "1.0.0",
                "dist": {
                    "tarball": format!("http://127.0.0.1:{port}/npm/demo.tgz"),
                    "shasum": sum.trim(),
                },
            } },
        });
        Some(BTreeMap::from([
            ("/npm/demo".to_owned(), about.to_string().into_bytes()),
            ("/npm/demo.tgz".to_owned(), tarball),
        ]))
    });
    let line = format!(
        "npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0 --cache \"$PWD/cache\" \
         --loglevel=error --registry http://127.0.0.1:{}/npm/ demo >/dev/null && node -e 'require(\"demo\")'",
        server.port()
    );
    let told = only_with_a_rule(&place, &server, &line);
    assert!(told.ends_with("hello\n"), "{told}");
}

#[test]
fn cargo_fetches_from_a_registry() {
    let place = Place::new("network-cargo");
    place.write("demo-0.1.0/Cargo.toml", "[package]\nname = \"demo\"\nversion = \"0.1.0\"\n");
    place.write("demo-0.1.0/src/lib.rs", "");
    sh(&place.root, "tar -czf demo.crate demo-0.1.0");
    let package = std::fs::read(place.root.join("demo.crate")).unwrap();
    let sum = sh(&place.root, "sha256sum demo.crate | cut -d ' ' -f 1");
    let server = Server::with(|port| {
        let config = json!({ "dl": format!("http://127.0.0.1:{port}/files/{{crate}}") });
        let line = json!({
            "name": "demo", "vers": "0.1.0", "deps": [], "cksum": sum.trim(), "features": {},
            "yanked": false,
        });
        Some(BTreeMap::from([
            ("/index/config.json".to_owned(), config.to_string().into_bytes()),
            ("/index/de/mo/demo".to_owned(), line.to_string().into_bytes()),
            ("/files/demo".to_owned(), package),
        ]))
    });
    place.write("project/src/lib.rs", "");
    place.write(
        "project/Cargo.toml",
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n\
         demo = { version = \"0.1\", registry = \"own\" }\n",
    );
    let cargo = env!("CARGO");
    let line = format!(
        "export CARGO_HOME=\"$PWD/cargo-home\" CARGO_NET_RETRY=0 RUSTC='{}'; \
         '{cargo}' --config 'registries.own.index=\"sparse+http://127.0.0.1:{}/index/\"' fetch && \
         ls cargo-home/registry/src/*/",
        Path::new(cargo).with_file_name("rustc").display(),
        server.port()
    );
    let told = only_with_a_rule(&place, &server, &line);
    assert!(told.ends_with("demo-0.1.0\n"), "{told}");
}
