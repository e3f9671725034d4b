//! Chooses how the executable is linked, so that less is done before its first line runs.
//!
//! Nothing here changes what the program does. Each choice is tried first, with the compiler, the linker and the C
//! library of this build, and left out where the trial cannot be built or does not run.

#![allow(
    clippy::disallowed_methods,
    reason = "it starts the compiler, for the gateway not to need anything of it"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that unwinds, has pointers that are adjusted when it starts, a thread, and looks a name up.
const TRIAL: &str = r#"
use std::net::ToSocketAddrs as _;
static WORDS: [&str; 2] = ["one", "two"];
fn main() {
    let _ = ("localhost", 80).to_socket_addrs(); // known or not: it must come back
    std::thread::spawn(|| std::hint::black_box(WORDS)).join().unwrap();
    let caught = std::panic::catch_unwind(|| assert_eq!(std::hint::black_box(WORDS).len(), 3));
    std::process::exit(if caught.is_err() { 0 } else { 1 });
}
"#;

/// The unwinder is a part of the executable: one library less to find, map and bind.
const UNWINDER: [&str; 2] = ["-l", "gcc_eh"];

/// Addresses that the loader adjusts are a map of bits instead of 24 bytes each (`DT_RELR`; glibc 2.36 and newer).
const PACKED: [&str; 2] = ["-C", "link-arg=-Wl,-z,pack-relative-relocs"];

/// A static executable that can still be loaded anywhere: no loader, no libraries to find, map and bind.
///
/// The last one keeps weak symbols that nothing defines at zero; without it LLVM's linker gives them the start of
/// the program (seen with LLD 21, `_init` calling `__gmon_start__`).
const WHOLE: [&str; 4] =
    ["-static-pie", "-Wl,-z,pack-relative-relocs", "-Wl,-z,nodynamic-undefined-weak", "-L"];

/// The libraries that the compiler names, as linker scripts that name their archives.
///
/// The option that the compiler has for this (`crt-static`) can be set by whoever builds, not by a package.
const ARCHIVES: [(&str, &str); 3] = [
    ("libgcc_s.so", "GROUP(-l:libgcc_eh.a -l:libc.a)"),
    ("libc.so", "GROUP(-l:libc.a -l:libgcc_eh.a)"),
    ("libm.so", "GROUP(-l:libm.a)"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(trial) = Trial::of_this_build() else { return };
    if let Some(archives) = trial.archives() {
        let whole = WHOLE.map(str::to_owned).into_iter().chain([archives]);
        let arguments: Vec<String> =
            whole.clone().map(|argument| format!("-Clink-arg={argument}")).collect();
        if trial.runs("whole", &arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
            whole.for_each(|argument| println!("cargo::rustc-link-arg-bins={argument}"));
            return;
        }
    }
    if trial.runs("unwinder", &UNWINDER) {
        println!("cargo::rustc-link-lib=gcc_eh");
    }
    if trial.runs("packed", &PACKED) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// How this build makes programs.
struct Trial {
    compiler: String,
    target: String,
    linker: Option<String>,
    flags: Vec<String>,
    directory: PathBuf,
}

impl Trial {
    /// Returns none where a trial would say nothing: on another system, and for another machine than this.
    fn of_this_build() -> Option<Trial> {
        let variable = |name: &str| env::var(name).ok();
        let target = variable("TARGET")?;
        let is_ours = target.ends_with("-linux-gnu") && variable("HOST")? == target;
        let flags = variable("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        is_ours.then_some(Trial {
            compiler: variable("RUSTC")?,
            target,
            linker: variable("RUSTC_LINKER"),
            flags: flags.split('\x1f').filter(|flag| !flag.is_empty()).map(str::to_owned).collect(),
            directory: PathBuf::from(variable("OUT_DIR")?),
        })
    }

    /// Writes [`ARCHIVES`] and returns the folder that holds them.
    fn archives(&self) -> Option<String> {
        let folder = self.directory.join("archives");
        std::fs::create_dir_all(&folder).ok()?;
        for (name, script) in ARCHIVES {
            std::fs::write(folder.join(name), script).ok()?;
        }
        folder.into_os_string().into_string().ok()
    }

    /// Says whether a program that is built with `arguments` catches its panic.
    fn runs(&self, name: &str, arguments: &[&str]) -> bool {
        let source = self.directory.join("trial.rs");
        let program = self.directory.join(name);
        let is_there = std::fs::write(&source, TRIAL).is_ok();
        is_there
            && self.is_built(&source, &program, arguments)
            && succeeds(&mut Command::new(program))
    }

    fn is_built(&self, source: &Path, program: &Path, arguments: &[&str]) -> bool {
        let mut compiler = Command::new(&self.compiler);
        compiler.args(["--edition", "2024", "--crate-name", "trial", "--target", &self.target]);
        if let Some(linker) = &self.linker {
            compiler.arg(format!("-Clinker={linker}"));
        }
        compiler.args(&self.flags).args(arguments).arg("-o").arg(program).arg(source);
        succeeds(&mut compiler)
    }
}

/// Says whether `command` ends well; what it prints is of no interest.
fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
