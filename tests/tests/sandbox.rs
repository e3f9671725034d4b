//! Each protection: first the act succeeds unconfined, then it fails confined, as root and as an
//! ordinary user; and everyday work goes on.
#![cfg(target_os = "linux")]

#[path = "sandbox/place.rs"]
mod place;

#[path = "sandbox/bait.rs"]
mod bait;
#[path = "sandbox/caches.rs"]
mod caches;
#[path = "sandbox/elsewhere.rs"]
mod elsewhere;
#[path = "sandbox/fallback.rs"]
mod fallback;
#[path = "sandbox/files.rs"]
mod files;
#[path = "sandbox/foreign.rs"]
mod foreign;
#[path = "sandbox/git.rs"]
mod git;
#[path = "sandbox/groups.rs"]
mod groups;
#[path = "sandbox/guard.rs"]
mod guard;
#[path = "sandbox/inspection.rs"]
mod inspection;
#[path = "sandbox/kept.rs"]
mod kept;
#[path = "sandbox/kernel.rs"]
mod kernel;
#[path = "sandbox/leaving.rs"]
mod leaving;
#[path = "sandbox/life.rs"]
mod life;
#[path = "sandbox/links.rs"]
mod links;
#[path = "sandbox/memory.rs"]
mod memory;
#[path = "sandbox/own.rs"]
mod own;
#[path = "sandbox/patterns.rs"]
mod patterns;
#[path = "sandbox/reach.rs"]
mod reach;
#[path = "sandbox/ready.rs"]
mod ready;
#[path = "sandbox/refusal.rs"]
mod refusal;
#[path = "sandbox/repository.rs"]
mod repository;
#[path = "sandbox/review.rs"]
mod review;
#[path = "sandbox/root.rs"]
mod root;
#[path = "sandbox/shared.rs"]
mod shared;
#[path = "sandbox/streams.rs"]
mod streams;
#[path = "sandbox/terminal.rs"]
mod terminal;
#[path = "sandbox/turns.rs"]
mod turns;
#[path = "sandbox/watchers.rs"]
mod watchers;
