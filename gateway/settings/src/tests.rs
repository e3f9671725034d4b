use std::os::unix::fs::symlink;

use super::*;
use stockade_scratch::Folder;

struct Case {
    folder: Folder,
    context: Context,
}

impl Case {
    fn new() -> Case {
        let folder = Folder::new();
        for name in ["home", "project", "managed", "state"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Case { folder, context: Context::default() }
    }

    fn read(&self) -> Result<std::sync::Arc<Snapshot>, Failure> {
        let root = self.folder.path();
        let place = Place {
            cwd: root.join("project"),
            session: None,
            project: root.join("project"),
            roots: Vec::new(),
            home: root.join("home"),
            homes: Vec::new(),
            additional: Vec::new(),
        };
        super::read(&Sources {
            regions: &[],
            managed: &root.join("managed"),
            managed_owner: rustix::process::geteuid().as_raw(),
            state: &root.join("state"),
            place: &place,
            context: &self.context,
        })
    }

    fn files(&self) -> Vec<(Layer, String, bool)> {
        let snapshot = self.read().unwrap();
        let root = self.folder.path();
        let name = |text: &SettingsText| {
            let file = text.file.strip_prefix(root).unwrap_or(&text.file);
            (text.layer, file.to_string_lossy().into_owned(), text.trusted)
        };
        snapshot.texts.iter().skip(1).map(name).collect()
    }

    fn failure(&self) -> (Code, String) {
        let failure = self.read().unwrap_err();
        let root = format!("{}/", self.folder.path().display());
        (failure.code, failure.message.replace(&root, ""))
    }
}

#[test]
fn every_layer_is_found_in_its_order() {
    let mut case = Case::new();
    for file in [
        "home/.config/stockade/settings.json",
        "project/.stockade/settings.json",
        "project/.stockade/settings.local.json",
        "managed/managed-settings.json",
        "managed/managed-settings.d/20.json",
        "managed/managed-settings.d/10.json",
        "managed/managed-settings.d/.hidden.json",
        "managed/managed-settings.d/readme.txt",
    ] {
        case.folder.write(file, "{}");
    }
    case.context.settings = vec!["{}".into()];
    case.context.disallowed_tools = vec!["Bash(curl:*)".into()];
    let file = |layer: Layer, name: &str| {
        (layer, name.to_string(), !matches!(layer, Layer::Project | Layer::Local))
    };
    assert_eq!(
        case.files(),
        [
            file(Layer::User, "home/.config/stockade/settings.json"),
            file(Layer::Project, "project/.stockade/settings.json"),
            file(Layer::Local, "project/.stockade/settings.local.json"),
            file(Layer::Flag, "<--settings>"),
            file(Layer::Flag, "<--disallowed-tools>"),
            file(Layer::Policy, "managed/managed-settings.json"),
            file(Layer::Policy, "managed/managed-settings.d/10.json"),
            file(Layer::Policy, "managed/managed-settings.d/20.json"),
        ]
    );
}

#[test]
fn what_is_forbidden_above_a_project_stays_forbidden_and_nothing_is_allowed_from_there() {
    let case = Case::new();
    let text =
        r#"{ "permissions": { "allow": ["Bash(a)"], "deny": ["Bash(id)"] }, "no-such-key": 1 }"#;
    case.folder.write(".stockade/settings.json", text);
    case.folder.write("project/.stockade/settings.json", "{}");
    let snapshot = case.read().unwrap();
    let found: Vec<(PathBuf, bool)> =
        snapshot.texts.iter().skip(1).map(|text| (text.anchor.clone(), text.above)).collect();
    let root = case.folder.path();
    assert_eq!(found, [(root.to_path_buf(), true), (root.join("project"), false)]);
    let rules: Vec<&str> = snapshot.rules.rules().iter().map(|rule| rule.text.as_str()).collect();
    assert_eq!(rules, ["Bash(id)"]);
    assert_eq!(snapshot.warnings, Vec::<String>::new());
    case.folder.write(".stockade/settings.json", "nonsense");
    assert_eq!(case.failure().0, Code::SettingsRejected);
}

#[test]
fn sources_can_be_left_out_but_not_the_managed_ones() {
    let mut case = Case::new();
    case.folder.write("project/.stockade/settings.json", "nonsense");
    case.folder.write("managed/managed-settings.json", "{}");
    case.context.setting_sources = Some(vec!["user".into()]);
    assert_eq!(case.files(), [(Layer::Policy, "managed/managed-settings.json".into(), true)]);
}

#[test]
fn a_project_file_is_trusted_for_the_content_that_was_seen() {
    let case = Case::new();
    let path = case.folder.write("project/.stockade/settings.json", "{}");
    let state = case.folder.path().join("state");
    trust::trust(&state, &path, b"{}").unwrap();
    assert_eq!(case.files(), [(Layer::Project, "project/.stockade/settings.json".into(), true)]);
    std::fs::write(&path, "{ }").unwrap();
    assert_eq!(case.files(), [(Layer::Project, "project/.stockade/settings.json".into(), false)]);
}

#[test]
fn a_local_file_is_trusted_for_the_content_that_was_seen_and_no_index_changes_that() {
    let case = Case::new();
    let name = "project/.stockade/settings.local.json";
    let path = case.folder.write(name, "{}");
    let index = b"DIRC\0\0\0\x02..\0.stockade/settings.local.json\0";
    case.folder.write("project/.git/index", index);
    assert_eq!(case.files(), [(Layer::Local, name.into(), false)]);
    // A confined `git read-tree --empty` and `rm .git/index` leave these states.
    case.folder.write("project/.git/index", b"DIRC\0\0\0\x02\0\0\0\0");
    assert_eq!(case.files(), [(Layer::Local, name.into(), false)]);
    std::fs::remove_file(case.folder.path().join("project/.git/index")).unwrap();
    assert_eq!(case.files(), [(Layer::Local, name.into(), false)]);
    trust::trust(&case.folder.path().join("state"), &path, b"{}").unwrap();
    assert_eq!(case.files(), [(Layer::Local, name.into(), true)]);
    std::fs::write(&path, "{ }").unwrap();
    assert_eq!(case.files(), [(Layer::Local, name.into(), false)]);
}

#[test]
fn what_is_no_plain_file_refuses() {
    let case = Case::new();
    let path = case.folder.path().join("project/.stockade/settings.json");
    let refused = |reason: &str| {
        let message =
            format!("the settings file `project/.stockade/settings.json` cannot be read: {reason}");
        (Code::SettingsUnreadable, message)
    };
    std::fs::create_dir_all(&path).unwrap();
    assert_eq!(case.failure(), refused("it is a directory"));
    std::fs::remove_dir(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    assert_eq!(case.failure(), refused("it is a FIFO"));
    std::fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert_eq!(case.failure(), refused("it is a symbolic link"));
    std::fs::remove_file(&path).unwrap();
    let address = stockade_base::sockets::Address::of(&path).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(address.path()).unwrap();
    assert_eq!(case.failure(), refused("it is a socket"));
}

#[test]
fn a_huge_file_is_one_refusal() {
    let case = Case::new();
    let path = case.folder.write("home/.config/stockade/settings.json", "");
    std::fs::File::options().write(true).open(path).unwrap().set_len(50 << 20).unwrap();
    assert_eq!(
        case.failure(),
        (
            Code::SettingsRejected,
            "the settings file `home/.config/stockade/settings.json` is rejected: it is larger than 16777216 bytes"
                .into()
        )
    );
}

#[test]
fn managed_settings_that_others_can_write_are_rejected() {
    use std::os::unix::fs::PermissionsExt as _;
    let case = Case::new();
    case.folder.write("managed/managed-settings.json", "{}");
    let managed = case.folder.path().join("managed");
    std::fs::set_permissions(&managed, std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, message) = case.failure();
    assert_eq!(code, Code::SettingsRejected);
    assert_eq!(
        message,
        "managed settings in `managed/managed-settings.json` are rejected: `".to_string()
            + &format!("{}`: other users can write it", managed.display())
                .replace(&format!("{}/", case.folder.path().display()), "")
    );
}

#[test]
fn the_digest_changes_with_content_and_trust() {
    let case = Case::new();
    let none = case.read().unwrap().sha256.clone();
    let path = case.folder.write("project/.stockade/settings.json", "{}");
    let waiting = case.read().unwrap().sha256.clone();
    trust::trust(&case.folder.path().join("state"), &path, b"{}").unwrap();
    let trusted = case.read().unwrap().sha256.clone();
    assert!(none != waiting && waiting != trusted && none.len() == 64);
}

#[test]
fn import_reads_each_file_of_the_other_product_at_its_own_layer() {
    let mut case = Case::new();
    for file in [
        "home/.claude/settings.json",
        "project/.claude/settings.json",
        "project/.claude/settings.local.json",
        "elsewhere/settings.json",
    ] {
        case.folder.write(file, "{}");
    }
    assert_eq!(case.files(), []);
    case.context.import = vec!["claude-code".into()];
    let file = |layer: Layer, name: &str| {
        (layer, name.to_string(), !matches!(layer, Layer::Project | Layer::Local))
    };
    let shared = [
        file(Layer::Project, "project/.claude/settings.json"),
        file(Layer::Local, "project/.claude/settings.local.json"),
    ];
    let user = file(Layer::User, "home/.claude/settings.json");
    assert_eq!(case.files(), [[user].as_slice(), &shared].concat());
    let elsewhere = case.folder.path().join("elsewhere").display().to_string();
    case.context.environment = vec![("CLAUDE_CONFIG_DIR".into(), elsewhere)];
    let user = file(Layer::User, "elsewhere/settings.json");
    assert_eq!(case.files(), [[user].as_slice(), &shared].concat());
}

#[test]
fn import_by_the_user_file_is_enough_and_by_a_project_file_is_not() {
    let case = Case::new();
    case.folder.write("home/.claude/settings.json", "{}");
    case.folder.write("project/.stockade/settings.json", r#"{"import": ["claude-code"]}"#);
    assert_eq!(case.files(), [(Layer::Project, "project/.stockade/settings.json".into(), false)]);
    case.folder.write("home/.config/stockade/settings.json", r#"{"import": ["claude-code"]}"#);
    assert_eq!(case.files().len(), 3);
}

#[test]
fn a_drop_in_that_cannot_be_read_refuses_and_the_rest_still_stands() {
    let case = Case::new();
    case.folder
        .write("managed/managed-settings.json", r#"{"permissions": {"deny": ["Bash(a:*)"]}}"#);
    let bad = case.folder.write("managed/managed-settings.d/10.json", "{");
    let (code, message) = case.failure();
    assert_eq!(code, Code::SettingsRejected);
    assert!(message.contains("10.json:1:"), "{message}");
    std::fs::remove_file(bad).unwrap();
    // An entry that is wrong leaves the others of its file, and those of the other files.
    case.folder.write(
        "managed/managed-settings.d/20.json",
        r#"{"permissions": {"allow": ["Bash(", "Bash(c)"], "deny": ["Bash(b:*)"]}, "unknown": 1}"#,
    );
    let snapshot = case.read().unwrap();
    let texts: Vec<&str> = snapshot.rules.rules().iter().map(|rule| rule.text.as_str()).collect();
    assert_eq!(texts, ["Bash(a:*)", "Bash(c)", "Bash(b:*)"]);
    assert_eq!(snapshot.warnings.len(), 2);
}

#[test]
fn a_drop_in_that_is_a_link_or_belongs_to_somebody_else_refuses() {
    let case = Case::new();
    let target = case.folder.write("home/mine.json", "{}");
    case.folder.write("managed/managed-settings.d/10.json", "{}");
    symlink(&target, case.folder.path().join("managed/managed-settings.d/20.json")).unwrap();
    assert_eq!(case.failure().0, Code::SettingsUnreadable);
    std::fs::remove_file(case.folder.path().join("managed/managed-settings.d/20.json")).unwrap();
    if !rustix::process::geteuid().is_root() {
        let test = "a_drop_in_that_is_a_link_or_belongs_to_somebody_else_refuses";
        return stockade_scratch::skip(test, "only root can give a file away");
    }
    let drop_in = case.folder.path().join("managed/managed-settings.d/10.json");
    std::os::unix::fs::chown(&drop_in, Some(12_345), None).unwrap();
    let (code, message) = case.failure();
    assert_eq!(code, Code::SettingsRejected);
    assert!(
        message.ends_with("`managed/managed-settings.d/10.json`: it belongs to uid 12345"),
        "{message}"
    );
}

#[test]
fn an_edit_counts_at_the_next_reading() {
    let case = Case::new();
    let user = case.folder.write("home/.config/stockade/settings.json", "{}");
    let before = case.read().unwrap();
    std::fs::write(&user, r#"{"permissions": {"deny": ["Bash(a)"]}}"#).unwrap();
    let after = case.read().unwrap();
    assert_eq!((before.rules.rules().len(), after.rules.rules().len()), (0, 1));
    assert_ne!(before.sha256, after.sha256);
}

#[test]
fn the_same_texts_are_merged_once_and_any_change_anew() {
    let text = |rule: &str, trusted: bool| SettingsText {
        layer: Layer::Project,
        file: "/merged-once/settings.json".into(),
        text: format!("{{\"permissions\": {{\"allow\": [\"{rule}\"]}}}}").into_bytes(),
        anchor: "/merged-once".into(),
        trusted,
        above: false,
    };
    let first = merge(vec![text("Bash(ls)", true)]).unwrap();
    let again = merge(vec![text("Bash(ls)", true)]).unwrap();
    assert_eq!((&again.sha256, again.rules.rules().len()), (&first.sha256, 1));
    for changed in [text("Bash(la)", true), text("Bash(ls)", false)] {
        let changed = merge(vec![changed]).unwrap();
        assert_ne!(changed.sha256, first.sha256);
    }
    assert!(merge(vec![text("\\u0000", true)]).is_err());
}
