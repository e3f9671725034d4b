//! How many commands a second, four at a time.

use std::path::Path;
use std::time::Instant;

use crate::Ground;
use crate::table::Contender;

/// Commands at a time.
const AT_ONCE: usize = 4;

pub(crate) fn measure(ground: &Ground, rounds: usize) {
    println!("commands a second, {AT_ONCE} at a time");
    let mut all = vec![
        Contender::new("bash -c true", "bash -c", &["true"]),
        Contender::new("run -- true, one shot", &ground.one_shot(), &["--", "true"]),
    ];
    if ground.gateway.is_some() {
        let line = ground.through_gateway();
        all.push(Contender::new("run -- true, running gateway", &line, &["--", "true"]));
        let session = ["--session", "bench", "--", "true"];
        all.push(Contender::new("run -- true, running gateway, a session", &line, &session));
    }
    for contender in &all {
        match rate(contender, rounds, &ground.path("project")) {
            Some(rate) => println!("{:<42} {rate:>9.0}", contender.name()),
            None => println!("left out, does not run here: {}", contender.name()),
        }
    }
    println!();
}

/// Returns the rate over `AT_ONCE * rounds` commands; none if one fails.
fn rate(contender: &Contender, rounds: usize, cwd: &Path) -> Option<f64> {
    let start = Instant::now();
    let all_ran = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| scope.spawn(|| (0..rounds).all(|_| contender.time(cwd).is_some())))
            .collect();
        workers.into_iter().all(|worker| worker.join().unwrap_or(false))
    });
    let seconds = start.elapsed().as_secs_f64();
    all_ran.then(|| (AT_ONCE * rounds) as f64 / seconds.max(1e-9))
}
