//! A machine for one test: mounts of its own over `/etc`, `/var`, `/run` and `/home` and processes of its own, so that this one
//! stays as it is, and an executable that root alone can change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The ordinary users: name and id.
pub const USERS: [(&str, u32); 3] = [("ada", 2001), ("bob", 2002), ("cay", 2003)];

/// The text that prepares the mounts; it runs in a mount namespace and stays there.
const PREPARE: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 none "$1"
for folder in etc var; do
    mkdir -p "$1/$folder/upper" "$1/$folder/work"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work" "/$folder"
done
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs -o mode=755 none /home
mount -t tmpfs -o mode=755 none /usr/local
mkdir -p /usr/local/bin
cp "$2" /usr/local/bin/stockade
chmod 755 /usr/local/bin/stockade
rm -rf /etc/stockade /var/log/stockade /var/lib/stockade
for user in ada:2001 bob:2002 cay:2003; do
    name=${user%:*} id=${user#*:}
    echo "$name:x:$id:$id::/home/$name:/bin/bash" >> /etc/passwd
    echo "$name:x:$id:" >> /etc/group
    mkdir -p "/home/$name/project"
    git init -q "/home/$name/project" 2> /dev/null || :
    chown -R "$id:$id" "/home/$name"
done
echo "extra:x:2100:ada" >> /etc/group
echo ready
exec sleep infinity
"#;

/// The text that puts AppArmor in force, as files tell it, with a parser that writes down how it is called. With `/run/old` it is one
/// that does not know `userns`. It writes `late` where the service runs already when a profile is loaded.
const APPARMOR: &str = r#"
set -e
for folder in module kernel; do mount -t tmpfs -o mode=755 none "/sys/$folder"; done
mkdir -p /sys/module/apparmor/parameters /sys/kernel/security/apparmor /etc/apparmor.d
echo Y > /sys/module/apparmor/parameters/enabled
: > /sys/kernel/security/apparmor/profiles
cat > /usr/local/bin/apparmor_parser <<'EOF'
#!/bin/sh
echo "$*" >> /run/parser.log
case $1 in
--quiet) text=$(cat); case $text in *userns,*) [ ! -e /run/old ] ;; esac ;;
--replace)
    [ ! -e /run/stockade ] || echo late >> /run/parser.log
    echo "stockade (unconfined)" > /sys/kernel/security/apparmor/profiles ;;
--remove) [ -e "$2" ] && : > /sys/kernel/security/apparmor/profiles ;;
esac
EOF
chmod 755 /usr/local/bin/apparmor_parser
"#;

/// One machine.
#[derive(Debug)]
pub struct Machine {
    keeper: Child,
    /// Its first process.
    first: String,
    folder: PathBuf,
}

impl Machine {
    /// Prepares one; none, with a reason that is printed, where this process may not.
    pub fn new() -> Option<Machine> {
        let skip = |why: &str| {
            println!("skipped: {why}");
            None
        };
        if !rustix::process::geteuid().is_root() {
            return skip("only root can install for all users");
        }
        let tools = ["unshare", "nsenter", "setpriv", "mount"];
        if let Some(tool) = tools.iter().find(|tool| !has(tool)) {
            return skip(&format!("there is no {tool}"));
        }
        let executable = stockade_tests::stockade();
        let folder = std::env::temp_dir().join(format!("stockade-machine-{}", unique()));
        // An earlier run that was killed may have had this number.
        drop(fs::remove_dir(&folder));
        fs::create_dir(&folder).expect("a folder");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", PREPARE, "sh"]).arg(&folder).arg(executable);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.spawn().expect("unshare starts");
        let mut said = std::io::BufReader::new(keeper.stdout.take().expect("its output"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).expect("its word");
        let children = format!("/proc/{0}/task/{0}/children", keeper.id());
        let first = fs::read_to_string(children).unwrap_or_default().trim().to_owned();
        let machine = Machine { keeper, first, folder };
        if line.trim() == "ready" {
            return Some(machine);
        }
        drop(machine);
        skip("this root cannot mount an overlay")
    }

    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--pid", "--target", &self.first, "--", program]);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::null());
        command
    }

    /// Returns a command of root on this machine.
    pub fn root(&self, words: &[&str]) -> Command {
        let mut command = self.inside("env");
        command.args(["--chdir", "/", "HOME=/root"]).args(words);
        command
    }

    /// Returns a command of an ordinary user on this machine, in a session of its own.
    pub fn user(&self, name: &str, words: &[&str]) -> Command {
        let mut command = self.inside("setpriv");
        let id = USERS.iter().find(|(user, _)| *user == name).expect("a user").1.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--init-groups", "env"]);
        command.args(["--chdir", &format!("/home/{name}/project"), &format!("HOME=/home/{name}")]);
        command.args(words);
        command
    }

    /// Runs shell text as root, and returns what it wrote; it must succeed.
    pub fn root_does(&self, text: &str) -> String {
        done(self.root(&["sh", "-c", text]).output())
    }

    /// Puts AppArmor in force.
    pub fn has_apparmor(&self) {
        self.root_does(APPARMOR);
    }

    /// Installs with `policy`, and starts the service.
    pub fn install(&self, policy: &str) {
        self.root_does(&format!("printf '%s' '{policy}' > /etc/policy.json"));
        self.root_does("stockade install --system --manager script --policy /etc/policy.json");
    }

    /// Runs `stockade run` as a user.
    pub fn run(&self, user: &str, line: &str) -> Output {
        self.user(user, &["stockade", "run", "--", line]).output().expect("it starts")
    }

    /// Returns the processes in `role`, by their number.
    pub fn processes(&self, role: &str) -> Vec<i32> {
        let mut found = Vec::new();
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let own = namespace(&self.first);
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            let plays = words.get(1).is_some_and(|word| *word == role.as_bytes());
            if plays && namespace(&name) == own {
                found.extend(name.parse::<i32>());
            }
        }
        found
    }

    /// Returns the records of the log.
    pub fn records(&self) -> Vec<serde_json::Value> {
        let text = self.root_does("cat /var/log/stockade/*.jsonl");
        let lines = text.trim_end_matches('\0').lines();
        lines.map(|line| serde_json::from_str(line).expect("a record")).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // With its first process all others of it end.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Returns what a command wrote; it must succeed.
pub fn done(output: std::io::Result<Output>) -> String {
    let output = output.expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Returns both outputs of a command.
pub fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}\n{}{}", output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn has(tool: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .chain([Path::new("/usr/sbin").into()])
        .any(|it| it.join(tool).exists())
}

fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
