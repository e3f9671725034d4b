// What the kernel alone takes for namespaces: `cc -O2 -static -o floor tests/floor.c && ./floor`.
//
// Clones a child, hears one byte from it, kills it and waits for it; prints least time, median and 90th percentile of 60
// rounds, in milliseconds, for each set of namespaces.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 60 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static int order(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static void print(const char *name, const char *part, double *times) {
    qsort(times, ROUNDS, sizeof *times, order);
    printf("%-28s %s %7.3f %7.3f %7.3f\n", name, part, times[0], times[ROUNDS / 2], times[ROUNDS * 9 / 10]);
}

static void measure(const char *name, unsigned long namespaces) {
    double starts[ROUNDS], ends[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        int ends_of_pipe[2];
        char byte = 0;
        if (pipe(ends_of_pipe) != 0) exit(1);
        double begin = now();
        long child = syscall(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0);
        if (child < 0) {
            perror(name);
            return;
        }
        if (child == 0) {
            if (write(ends_of_pipe[1], &byte, 1) == 1) pause();
            _exit(0);
        }
        if (read(ends_of_pipe[0], &byte, 1) != 1) exit(1);
        double spoken = now();
        kill((pid_t)child, SIGKILL);
        waitpid((pid_t)child, NULL, 0);
        ends[round] = now() - spoken;
        starts[round] = spoken - begin;
        close(ends_of_pipe[0]);
        close(ends_of_pipe[1]);
        usleep(3000); // the kernel takes namespaces down later
    }
    print(name, "start", starts);
    print(name, "end  ", ends);
}

int main(void) {
    const unsigned long others = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    measure("none", 0);
    measure("user, mount", CLONE_NEWUSER | CLONE_NEWNS);
    measure("user, network", CLONE_NEWUSER | CLONE_NEWNET);
    measure("all but network", CLONE_NEWUSER | CLONE_NEWNS | others);
    measure("all", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | others);
    return 0;
}
