//! Journal of a run about the files that a person's tools execute.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use stockade_spec::{Before, Entry, Touched, Watched, read_journal};

use crate::place::{Place, as_root_and_user};

const NAMES: [(&str, bool); 6] = [
    ("Makefile", false),
    ("package.json", false),
    ("*.gradle", false),
    (".github/workflows", true),
    ("venv/bin", true),
    (".cargo/config.toml", false),
];

/// Runs `script` watched and returns its journal.
fn watched(place: &Place, script: &str) -> Vec<Entry> {
    let journal = place.base.join("journal");
    fs::write(&journal, "").unwrap();
    let mut spec = place.spec(script);
    spec.files.watched = Some(Watched {
        names: NAMES.map(|(name, tree)| (name.into(), tree)).into(),
        everywhere: vec![(".npmrc".into(), false), (".vscode".into(), true)],
        except: vec!["node_modules".into()],
        paths: vec![place.project.join("further")],
        journal: journal.clone(),
    });
    let ran = place.run(&spec);
    assert_eq!(ran.code, Some(0), "{script}: {}", ran.text);
    let entries = read_journal(&fs::read(&journal).unwrap());
    assert_eq!(entries.first(), Some(&Entry::Began), "{script}");
    entries
}

fn touched(place: &Place, entries: &[Entry]) -> BTreeMap<String, Before> {
    let touched = entries.iter().filter_map(|entry| match entry {
        Entry::Touched(touched) => Some(touched.clone()),
        Entry::Began | Entry::More(_) => None,
    });
    let name = |path: &Path| path.strip_prefix(&place.project).unwrap().display().to_string();
    touched.map(|Touched { path, before, .. }| (name(&path), before)).collect()
}

fn build(place: &Place) {
    let _ = fs::remove_dir_all(&place.project);
    for directory in ["sub/deep", "empty", "node_modules/x", ".github/workflows", "further"] {
        fs::create_dir_all(place.project.join(directory)).unwrap();
    }
    for name in ["Makefile", "sub/package.json", "sub/deep/Makefile", "node_modules/x/package.json"]
    {
        fs::write(place.project.join(name), format!("old {name}")).unwrap();
    }
    for name in ["plain", "target.txt", ".github/workflows/ci.yml", "further/any"] {
        fs::write(place.project.join(name), format!("old {name}")).unwrap();
    }
    std::os::unix::fs::symlink("../target.txt", place.project.join("empty/Makefile")).unwrap();
}

fn old(name: &str) -> Before {
    Before::Content(format!("old {name}").into())
}

fn led(content: Option<&str>) -> Before {
    Before::Led("../target.txt".into(), content.map(Into::into))
}

#[test]
fn every_way_to_change_a_watched_file_is_written_down_with_what_it_held() {
    as_root_and_user(
        "review::every_way_to_change_a_watched_file_is_written_down_with_what_it_held",
        || {
            let place = Place::new("review");
            let mine = ("Makefile", old("Makefile"));
            let fresh = |name: &'static str| (name, Before::Nothing);
            let sub = || ("sub/package.json", old("sub/package.json"));
            let deep = || ("sub/deep/Makefile", old("sub/deep/Makefile"));
            let cases: Vec<(&str, Vec<(&str, Before)>)> = vec![
                ("cat Makefile sub/package.json; echo x > plain", vec![]),
                ("echo new > Makefile; echo newer > Makefile", vec![mine.clone()]),
                ("echo new >> $P/sub/../Makefile", vec![mine.clone()]),
                ("exec 3<>Makefile; echo x >&3", vec![mine.clone()]),
                ("exec 3<Makefile; echo x > /proc/self/fd/3", vec![mine.clone()]),
                ("truncate -s 1 Makefile", vec![mine.clone()]),
                ("perl -e 'truncate(\"Makefile\", 0) or exit 1'", vec![mine.clone()]),
                ("rm Makefile", vec![mine.clone()]),
                ("mv plain Makefile", vec![mine.clone()]),
                ("mv Makefile plain", vec![mine.clone()]),
                ("ln Makefile other; echo x > other", vec![mine.clone()]),
                ("ln plain build.gradle", vec![fresh("build.gradle")]),
                ("ln -sf plain Makefile", vec![mine.clone()]),
                ("echo x > sub/makefile", vec![fresh("sub/makefile")]),
                ("mkfifo sub/Makefile", vec![fresh("sub/Makefile")]),
                ("echo x > empty/Makefile", vec![("empty/Makefile", led(Some("old target.txt")))]),
                ("rm target.txt; echo x > empty/Makefile", vec![("empty/Makefile", led(None))]),
                (
                    "rm empty/Makefile",
                    vec![("empty/Makefile", Before::Link("../target.txt".into()))],
                ),
                ("echo x > node_modules/x/package.json", vec![]),
                ("echo x > further/any", vec![("further/any", old("further/any"))]),
                ("mkdir venv venv/bin; echo x > venv/bin/python", vec![fresh("venv/bin/python")]),
                (
                    "echo x > .github/workflows/ci.yml",
                    vec![(".github/workflows/ci.yml", old(".github/workflows/ci.yml"))],
                ),
                // Whole directories, and what they are put together from.
                (
                    "mv sub elsewhere",
                    vec![
                        sub(),
                        deep(),
                        fresh("elsewhere/package.json"),
                        fresh("elsewhere/deep/Makefile"),
                    ],
                ),
                ("mv node_modules/x sub/deep/x", vec![fresh("sub/deep/x/package.json")]),
                ("mkdir x; echo x > x/config.toml; mv x .cargo", vec![fresh(".cargo/config.toml")]),
                (
                    "mkdir -p x/workflows; echo x > x/workflows/a.yml; mv .github y; mv x .github",
                    vec![
                        (".github/workflows/ci.yml", old(".github/workflows/ci.yml")),
                        fresh(".github/workflows/a.yml"),
                    ],
                ),
                ("mkdir x; mv .github y; ln -s x .github", {
                    vec![
                        (".github/workflows/ci.yml", old(".github/workflows/ci.yml")),
                        fresh(".github"),
                    ]
                }),
                (
                    // renameat2 with exchange
                    "perl -e 'syscall(316, -100, $a = \"sub/deep\", -100, $b = \"empty\", 2) == 0 or exit 1'",
                    vec![deep(), ("empty/Makefile", Before::Link("../target.txt".into()))],
                ),
                (
                    // O_TMPFILE, then a name for it
                    "perl -e 'sysopen(F, \".\", 020200002, 0600) or exit 2; $n = \"/proc/self/fd/\".fileno(F); \
                     syscall(265, -100, $n, -100, $g = \"sub/Makefile\", 0x400) == 0 or exit 1'",
                    vec![fresh("sub/Makefile")],
                ),
                (
                    // A directory held open goes on being one wherever it is.
                    "mkdir x; cd x; mv ../x ../node_modules/y && mv ../y ../../z && echo x > Makefile",
                    vec![fresh("z/Makefile")],
                ),
            ];
            for (script, expected) in cases {
                build(&place);
                let entries = watched(&place, script);
                let expected: BTreeMap<String, Before> =
                    expected.into_iter().map(|(name, before)| (name.to_owned(), before)).collect();
                assert_eq!(touched(&place, &entries), expected, "{script}");
            }
        },
    );
}

#[test]
fn an_entry_names_the_call_and_the_program() {
    let place = Place::new("review-by");
    build(&place);
    let entries = watched(&place, "/bin/mv plain Makefile");
    let Some(Entry::Touched(touched)) = entries.get(1) else { panic!("{entries:?}") };
    assert_eq!((touched.call.as_str(), touched.program.as_str()), ("rename", "mv"));
    assert!(touched.at > 1_600_000_000_000, "{touched:?}");
}

#[test]
fn what_is_too_large_is_told_by_its_size_and_what_is_too_much_by_its_number() {
    let place = Place::new("review-much");
    build(&place);
    fs::write(place.project.join("Makefile"), vec![b'x'; (256 << 10) + 1]).unwrap();
    fs::write(place.project.join("sub/package.json"), vec![b'x'; 256 << 10]).unwrap();
    let script = "echo > Makefile; echo > sub/package.json; for ((n = 0; n < 2010; n++)); do > $n.gradle; done";
    let entries = watched(&place, script);
    let listed = touched(&place, &entries);
    assert_eq!(listed.get("Makefile"), Some(&Before::Large((256 << 10) + 1)));
    let kept = Before::Content("x".repeat(256 << 10).into());
    assert_eq!(listed.get("sub/package.json"), Some(&kept));
    assert_eq!(listed.len(), 2_000);
    assert_eq!(entries.last(), Some(&Entry::More(12)));
}

#[test]
fn a_checkout_is_written_down() {
    let place = Place::new("review-git");
    build(&place);
    let script = "git init -q . && git add Makefile && git -c user.name=a -c user.email=a@b commit -qm one && \
                  echo two > Makefile && git -c user.name=a -c user.email=a@b commit -qam two";
    let outside = place.plain(script);
    assert_eq!(outside.code, Some(0), "{}", outside.text);
    let entries = watched(&place, "git checkout -q HEAD~1");
    let expected = [("Makefile".to_owned(), Before::Content("two\n".into()))];
    assert_eq!(touched(&place, &entries), expected.into());
}
