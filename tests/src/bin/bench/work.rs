//! Ordinary commands, plain and confined.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::table::{self, Contender};
use crate::{Ground, on_path};

/// Files in the repository that `git status` looks at.
const FILES: usize = 300;

/// How many times as long the work may take confined.
const MOST: f64 = 1.05;

pub(crate) fn measure(ground: &Ground, rounds: usize) {
    let project = ground.path("work");
    if let Err(error) = prepare(&project) {
        println!("left out, the ordinary commands: {error}");
        return;
    }
    // The cost of a start alone is the other measure, and is taken off here.
    let starts = timed(ground, "true", rounds, &project, || {});
    for (program, text, again) in [
        ("git", "git status --short", ""),
        // Files that only another user may read, root included here, are not part of the work.
        ("find", "find /usr -name '*.none' 2> /dev/null || true", ""),
        ("cc", "cc -O2 -o program main.c", ""),
        ("cargo", "cargo build --offline --quiet", "target"),
    ] {
        if !on_path(program) {
            println!("not installed: {program}");
            continue;
        }
        let built = project.join(again);
        let contenders = timed(ground, text, rounds, &project, || {
            if !again.is_empty() {
                // The folder is not there the first time.
                let _ = std::fs::remove_dir_all(&built);
            }
        });
        table::print(text, &contenders);
        print_without_starts(&contenders, &starts);
    }
}

/// Times `text`, plain and confined.
fn timed(
    ground: &Ground,
    text: &str,
    rounds: usize,
    project: &Path,
    before: impl Fn(),
) -> Vec<Contender> {
    let mut contenders = vec![Contender::new("bash -c", "bash -c", &[text])];
    let options = ["--allowed-tools", "Bash", "--", text];
    contenders.push(Contender::new("run, one shot", &ground.one_shot(), &options));
    if ground.gateway.is_some() {
        let line = ground.through_gateway();
        contenders.push(Contender::new("run, running gateway", &line, &options));
    }
    table::in_turn(&mut contenders, rounds, project, before);
    contenders
}

/// Prints how the work itself compares: each median without what the same way takes for `true`.
fn print_without_starts(contenders: &[Contender], starts: &[Contender]) {
    let work = |contender: &Contender| {
        let start = starts.iter().find(|it| it.name() == contender.name())?.median()?;
        Some(contender.median()?.saturating_sub(start).as_secs_f64())
    };
    let Some((plain, confined)) = contenders.split_first() else { return };
    let Some(base) = work(plain).filter(|base| *base > 0.0) else {
        return println!("the work is too short to be told from a start\n");
    };
    for contender in confined {
        let Some(took) = work(contender) else { continue };
        println!(
            "  the work alone, {}: {:.3}x (aim: at most {MOST}x)",
            contender.name(),
            took / base
        );
    }
    println!();
}

/// Makes a repository with a small crate and a small program in C.
fn prepare(project: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(project.join("src"))?;
    for number in 0..FILES {
        let folder = project.join(format!("folder{}", number % 20));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("file{number}")), number.to_string())?;
    }
    std::fs::write(project.join(".gitignore"), "target\nprogram\n")?;
    std::fs::write(
        project.join("Cargo.toml"),
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n",
    )?;
    let functions: String = (0..200)
        .map(|n| format!("pub fn f{n}(x: u64) -> u64 {{ x.rotate_left({n} % 64) }}\n"))
        .collect();
    std::fs::write(
        project.join("src/main.rs"),
        format!("{functions}fn main() {{ println!(\"{{}}\", f1(2)); }}\n"),
    )?;
    let functions: String =
        (0..400).map(|n| format!("int f{n}(int x) {{ return x * {n} + {n}; }}\n")).collect();
    std::fs::write(
        project.join("main.c"),
        format!("{functions}int main(void) {{ return f0(0); }}\n"),
    )?;
    for arguments in [vec!["init", "-q"], vec!["add", "-A"]] {
        // Without git its line is left out anyway.
        let _ =
            Command::new("git").args(arguments).current_dir(project).stderr(Stdio::null()).status();
    }
    Ok(())
}
