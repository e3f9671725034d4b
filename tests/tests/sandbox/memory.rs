//! Memory: what is reserved is free, what is filled counts, and the rest of the machine comes first.

use std::fs;

use stockade_tests::skip;

use crate::place::{Place, Ran, as_root_and_user, run, told};

/// Reserves 100 GiB that may be written and fills one MiB of it.
const RESERVES: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    size_t size = 100UL << 30;
    int flags = MAP_PRIVATE | MAP_NORESERVE | MAP_ANONYMOUS;
    char *start = mmap(0, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED) return 1;
    memset(start + size / 2, 1, 1 << 20);
    puts("reserved");
    return 0;
}
"#;

/// Fills so many MiB with so many threads in so many processes, each its part, and waits as long as the last word says.
const FILLS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static size_t part;
static void *fill(void *nothing) {
    int flags = MAP_PRIVATE | MAP_NORESERVE | MAP_ANONYMOUS;
    char *start = mmap(0, part, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED) exit(1);
    madvise(start, part, MADV_HUGEPAGE);
    memset(start, 1, part);
    return nothing;
}
int main(int count, char **words) {
    if (count != 5) return 2;
    int threads = atoi(words[2]), processes = atoi(words[3]), first = 1;
    part = ((size_t)atoi(words[1]) << 20) / threads / processes;
    for (int i = 1; i < processes; i++) if (fork() == 0) { first = 0; break; }
    pthread_t all[64];
    for (int i = 0; i < threads; i++) if (pthread_create(all + i, 0, fill, 0)) return 1;
    for (int i = 0; i < threads; i++) pthread_join(all[i], 0);
    sleep(atoi(words[4]));
    if (!first) return 0;
    while (wait(0) > 0) {}
    puts("filled");
    return 0;
}
"#;

/// Ends its first thread, fills so many MiB with another one, and waits as long as the last word says.
const OUTLIVES: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static size_t size;
static int seconds;
static void *fill(void *nothing) {
    char first = 1;
    while (first != '0') {
        FILE *file = fopen("/proc/self/statm", "r");
        if (!file || fread(&first, 1, 1, file) != 1) exit(1);
        fclose(file);
    }
    char *start = malloc(size);
    if (!start) exit(1);
    memset(start, 1, size);
    sleep(seconds);
    puts("filled");
    exit(start[size / 2] != 1);
    return nothing;
}
int main(int count, char **words) {
    if (count != 3) return 2;
    size = (size_t)atoi(words[1]) << 20;
    seconds = atoi(words[2]);
    pthread_t other;
    if (pthread_create(&other, 0, fill, 0)) return 1;
    pthread_exit(0);
}
"#;

/// Has 128 MiB kept as shared memory that it does not attach, as messages or as semaphores, waits as long as the last word
/// says, and removes them.
const KEEPS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>
static int ids[128], made, failed;
static int memory(void) {
    int id = shmget(IPC_PRIVATE, 1 << 20, 0600);
    char *start = id < 0 ? (char *)-1 : shmat(id, 0, 0);
    if (start == (char *)-1) return id;
    memset(start, 1, 1 << 20);
    shmdt(start);
    return id;
}
static int messages(void) {
    struct { long kind; char text; } message = {1, 1};
    int id = msgget(IPC_PRIVATE, 0600);
    while (id >= 0 && msgsnd(id, &message, 1, IPC_NOWAIT) == 0) {}
    return id;
}
static int semaphores(void) { return semget(IPC_PRIVATE, 16384, 0600); }
int main(int count, char **words) {
    if (count != 3) return 2;
    char kind = words[1][1];
    while (made < 128 && !failed) {
        int id = kind == 'h' ? memory() : kind == 's' ? messages() : semaphores();
        if (id < 0) failed = 1; else ids[made++] = id;
    }
    if (!failed) sleep(atoi(words[2]));
    while (made--) {
        if (kind == 'h') shmctl(ids[made], IPC_RMID, 0);
        else if (kind == 's') msgctl(ids[made], IPC_RMID, 0);
        else semctl(ids[made], 0, IPC_RMID);
    }
    if (!failed) puts("kept");
    return failed;
}
"#;

/// Has no fault, unless it is called with a word: then it reads behind the end of what it was given.
const SANITIZED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    (void)words;
    volatile char *given = malloc(8);
    given[0] = 1;
    int value = given[count > 1 ? 8 : 0];
    free((void *)given);
    puts("done");
    return value != 1;
}
"#;

/// Puts `text` into `place` and compiles it; says whether that could be done.
fn compile(place: &Place, text: &str, options: &str) -> bool {
    fs::write(place.project.join("it.c"), text).unwrap();
    place.plain(&format!("cc -O1 {options} -pthread -o it it.c")).code == Some(0)
}

/// Runs `script` with `limit` bytes of memory, and has it ended and told of for that reason alone.
fn is_ended(place: &Place, script: &str, limit: u64) {
    let mut spec = place.spec(script);
    spec.limits.memory_bytes = limit;
    let Ran { exit, text, violations, .. } = run(&spec).unwrap();
    assert_eq!((exit.signal, text.as_str()), (Some(9), ""), "{script}");
    let limits: Vec<_> = violations.iter().map(|it| (&*it.call, &*it.rule)).collect();
    assert_eq!(limits, [("memory", "builtin: sandbox.limits.memory")], "{script}");
}

#[test]
fn what_is_only_reserved_is_free() {
    let name = "memory::what_is_only_reserved_is_free";
    as_root_and_user(name, || {
        let place = Place::new("reserved");
        if !compile(&place, RESERVES, "") {
            return skip(name, "there is no C compiler");
        }
        if place.plain("./it").text != "reserved\n" {
            return skip(name, "this machine does not give 100 GiB of addresses");
        }
        let mut spec = place.spec("./it; ulimit -d; ulimit -v");
        spec.limits.memory_bytes = 200 << 20;
        let expected = place.plain("./it; ulimit -d; ulimit -v");
        assert_eq!(place.run(&spec), expected);
    });
}

#[test]
fn programs_with_sanitizers_run() {
    let name = "memory::programs_with_sanitizers_run";
    as_root_and_user(name, || {
        let place = Place::new("sanitizers");
        for kind in ["address", "thread", "undefined", "leak"] {
            let built = compile(&place, SANITIZED, &format!("-fsanitize={kind}"));
            if !built || place.plain("./it").text != "done\n" {
                skip(name, &format!("programs with the sanitizer `{kind}` do not work here"));
                continue;
            }
            let mut spec = place.spec("./it");
            spec.limits.memory_bytes = 1 << 30;
            let ran = run(&spec).unwrap();
            let seen = (ran.exit.code, ran.text.as_str(), told(&ran));
            assert_eq!(seen, (Some(0), "done\n", Vec::new()), "{kind}");
            if kind == "address" {
                let found = place.confined("./it with a fault 2>&1 | grep -o heap-buffer-overflow");
                assert!(found.text.starts_with("heap-buffer-overflow\n"), "{found:?}");
            }
        }
    });
}

#[test]
fn what_a_tree_fills_counts_and_ends_it() {
    let name = "memory::what_a_tree_fills_counts_and_ends_it";
    as_root_and_user(name, || {
        let place = Place::new("filled");
        if !compile(&place, FILLS, "") {
            return skip(name, "there is no C compiler");
        }
        // One thread; many; processes that share the limit; and such as hold it slowly.
        for words in ["1 1", "8 1", "2 4", "1 4"] {
            assert_eq!(place.plain(&format!("./it 1024 {words} 0")).text, "filled\n", "{words}");
            is_ended(&place, &format!("./it 1024 {words} 20"), 200 << 20);
        }
    });
}

#[test]
fn what_outlives_the_first_thread_counts() {
    let name = "memory::what_outlives_the_first_thread_counts";
    as_root_and_user(name, || {
        let place = Place::new("outlives");
        if !compile(&place, OUTLIVES, "") {
            return skip(name, "there is no C compiler");
        }
        assert_eq!(place.plain("./it 512 0").text, "filled\n");
        is_ended(&place, "./it 512 20", 200 << 20);
    });
}

#[test]
fn what_no_process_has_open_counts() {
    let name = "memory::what_no_process_has_open_counts";
    as_root_and_user(name, || {
        let place = Place::new("kept");
        if !compile(&place, KEEPS, "") {
            return skip(name, "there is no C compiler");
        }
        for kind in ["shm", "msg", "sem"] {
            if place.plain(&format!("./it {kind} 0")).text != "kept\n" {
                skip(name, &format!("this machine does not keep 128 MiB of `{kind}`"));
                continue;
            }
            is_ended(&place, &format!("./it {kind} 20"), 64 << 20);
        }
    });
}

#[test]
fn a_kernel_without_memory_ends_a_run_before_others() {
    as_root_and_user("memory::a_kernel_without_memory_ends_a_run_before_others", || {
        let place = Place::new("sooner");
        let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let own: i32 = own.trim().parse().unwrap();
        let file = "/proc/self/oom_score_adj";
        // A shell may take back what it was not given by its superiors; not so in a run.
        let script = format!("cat {file}; {{ echo {own} > {file}; }} 2> /dev/null; cat {file}");
        assert_eq!(place.plain(&script).text, format!("{own}\n{own}\n"));
        let sooner = own.max(500);
        assert_eq!(place.confined(&script).text, format!("{sooner}\n{sooner}\n"));
    });
}
