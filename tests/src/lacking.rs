//! Kernels that lack something, or refuse a step: filters around the processes that a test starts.
//!
//! Such a filter holds for the calling thread and whatever it starts, so each test has a thread of its own for it.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// A system call that fails, for some of its arguments.
#[derive(Debug, Clone)]
pub struct Refused {
    number: libc::c_long,
    conditions: Vec<SeccompCondition>,
    errno: i32,
}

impl Refused {
    /// A call that fails with `EPERM` whatever its arguments are.
    pub fn call(number: libc::c_long) -> Refused {
        Refused { number, conditions: Vec::new(), errno: libc::EPERM }
    }

    /// Only where the lower half of an argument has this value.
    pub fn with(self, argument: u8, value: u32) -> Refused {
        self.when(argument, SeccompCmpOp::Eq, value)
    }

    /// Only where the lower half of an argument has all these bits.
    pub fn with_bits(self, argument: u8, bits: u32) -> Refused {
        self.when(argument, SeccompCmpOp::MaskedEq(bits.into()), bits)
    }

    /// Only where the lower half of an argument has none of these bits.
    pub fn without_bits(self, argument: u8, bits: u32) -> Refused {
        self.when(argument, SeccompCmpOp::MaskedEq(bits.into()), 0)
    }

    /// Makes the call fail with this error.
    pub fn error(self, errno: i32) -> Refused {
        Refused { errno, ..self }
    }

    fn when(mut self, argument: u8, operator: SeccompCmpOp, value: u32) -> Refused {
        let length = SeccompCmpArgLen::Dword;
        let condition = SeccompCondition::new(argument, length, operator, value.into());
        self.conditions.push(condition.expect("a condition"));
        self
    }

    fn filter(&self) -> BpfProgram {
        let rules = match &self.conditions[..] {
            [] => Vec::new(),
            all => vec![SeccompRule::new(all.to_vec()).expect("a rule")],
        };
        let filter = SeccompFilter::new(
            BTreeMap::from([(self.number, rules)]),
            SeccompAction::Allow,
            SeccompAction::Errno(self.errno.unsigned_abs()),
            std::env::consts::ARCH.try_into().expect("a known architecture"),
        );
        filter.expect("a filter").try_into().expect("a program")
    }
}

/// Runs `body` in a thread where these calls fail, for it and for every process that it starts.
pub fn without<T: Send>(refused: &[Refused], body: impl FnOnce() -> T + Send) -> T {
    let programs: Vec<BpfProgram> = refused.iter().map(Refused::filter).collect();
    let all = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            for program in &programs {
                apply_filter(program).expect("the filter holds");
            }
            body()
        });
        thread.join()
    });
    all.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// User namespaces, and with them all others: what most containers and hardened kernels refuse.
pub fn user_namespaces() -> Vec<Refused> {
    let flag = libc::CLONE_NEWUSER.unsigned_abs();
    vec![
        Refused::call(libc::SYS_clone).with_bits(0, flag),
        Refused::call(libc::SYS_unshare).with_bits(0, flag),
        // Its flags are in memory: the library goes on with `clone`.
        Refused::call(libc::SYS_clone3).error(libc::ENOSYS),
    ]
}

/// Landlock.
pub fn landlock() -> Refused {
    Refused::call(libc::SYS_landlock_create_ruleset).error(libc::ENOSYS)
}

/// Filters whose calls wait for a supervisor: the kernel gives one to a process (`seccomp(2)`, `EBUSY`).
pub fn notifications() -> Refused {
    let listener = u32::try_from(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER).expect("a flag");
    Refused::call(libc::SYS_seccomp).with_bits(1, listener).error(libc::EBUSY)
}

/// Control groups: none can be locked.
pub fn control_groups() -> Refused {
    Refused::call(libc::SYS_flock)
}
