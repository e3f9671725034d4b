use std::os::unix::fs::symlink;

use super::*;
use crate::testing::Folder;

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

    fn read(&self) -> Result<Snapshot, Failure> {
        let root = self.folder.path();
        let place = Place {
            cwd: root.join("project"),
            project: root.join("project"),
            home: root.join("home"),
            additional: Vec::new(),
        };
        super::read(&Sources {
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
    let file = |layer: Layer, name: &str| (layer, name.to_string(), layer != Layer::Project);
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
fn a_local_file_that_the_repository_carries_is_not_trusted() {
    let case = Case::new();
    let name = "project/.stockade/settings.local.json";
    case.folder.write(name, "{}");
    case.folder.write("project/.git/index", b"DIRC\0\0\0\x02..\0.stockade/settings.local.json\0");
    assert_eq!(case.files(), [(Layer::Local, name.into(), false)]);
    case.folder.write("project/.git/index", b"DIRC\0\0\0\x02..\0src/main.rs\0");
    assert_eq!(case.files(), [(Layer::Local, name.into(), true)]);
    case.folder.write("project/.git/index", b"DIRC\0\0\0\x04..\0src/main.rs\0");
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
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
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
            "the settings file `home/.config/stockade/settings.json` is rejected: it is larger than 1048576 bytes"
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
            + &format!("{}`: others can write it", managed.display())
                .replace(&format!("{}/", case.folder.path().display()), "")
    );
}

#[test]
fn the_digest_changes_with_content_and_trust() {
    let case = Case::new();
    let none = case.read().unwrap().sha256;
    let path = case.folder.write("project/.stockade/settings.json", "{}");
    let waiting = case.read().unwrap().sha256;
    trust::trust(&case.folder.path().join("state"), &path, b"{}").unwrap();
    let trusted = case.read().unwrap().sha256;
    assert!(none != waiting && waiting != trusted && none.len() == 64);
}
