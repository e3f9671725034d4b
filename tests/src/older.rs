//! Processes that see an older kernel than this one: `landlock-abi-N`, or `no-detached-copies`.
//!
//! The kernel stops the call that tells the difference, and a handler in the process answers it as the older kernel does.
//! A filter alone cannot: what it returns is an error or nothing.
#![allow(
    unsafe_code,
    reason = "the answer of a call that was stopped is written into the registers of its thread"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// `OPEN_TREE_CLONE | AT_RECURSIVE | AT_EMPTY_PATH`: a copy of a tree of mounts, by its descriptor.
const COPY_OF_TREE: u64 = 0x9001;

/// The sixth argument of a call that the handler itself makes; the kernel does not look at it.
const AGAIN: u64 = 0x5354_4F43;

static LANDLOCK_ABI: AtomicI64 = AtomicI64::new(0);

/// How often process 1 of a run copied a tree: first the host's, then that copy, which is attached nowhere.
static COPIES: AtomicU32 = AtomicU32::new(0);

extern "C" fn answer(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a `ucontext_t` of this thread, which nothing else uses meanwhile.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    // SAFETY: for SIGSYS the number of the call follows the three first fields and an address (`sigaction(2)`).
    let number = unsafe { *info.cast::<u8>().add(24).cast::<libc::c_int>() };
    let result = if libc::c_long::from(number) == libc::SYS_landlock_create_ruleset {
        LANDLOCK_ABI.load(Ordering::Relaxed)
    } else if std::process::id() == 1 && COPIES.fetch_add(1, Ordering::Relaxed) == 1 {
        // As Linux before 6.15.
        -i64::from(libc::EINVAL)
    } else {
        let arguments =
            [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX].map(|it| registers[it as usize]);
        // SAFETY: the call that was stopped, with the same arguments and one that the kernel does not look at.
        let result = unsafe {
            let [first, second, third] = arguments;
            libc::syscall(libc::c_long::from(number), first, second, third, 0_u64, 0_u64, AGAIN)
        };
        match result {
            -1 => {
                -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
            }
            descriptor => descriptor,
        }
    };
    registers[libc::REG_RAX as usize] = result;
}

fn is(argument: u8, operator: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).expect("a condition")
}

/// Makes this process, and all that it forks, see the older kernel.
pub fn set(kernel: &str) {
    let (call, conditions) = match kernel.strip_prefix("landlock-abi-") {
        Some(abi) => {
            LANDLOCK_ABI.store(abi.parse().expect("a number"), Ordering::Relaxed);
            // LANDLOCK_CREATE_RULESET_VERSION
            (libc::SYS_landlock_create_ruleset, vec![is(2, SeccompCmpOp::Eq, 1)])
        }
        None => {
            assert_eq!(kernel, "no-detached-copies");
            let copies = is(2, SeccompCmpOp::MaskedEq(COPY_OF_TREE), COPY_OF_TREE);
            (libc::SYS_open_tree, vec![copies, is(5, SeccompCmpOp::Ne, AGAIN)])
        }
    };
    // SAFETY: zero is a valid value of every field; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = answer as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()), 0);
    }
    let rule = SeccompRule::new(conditions).expect("a rule");
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, vec![rule])]),
        SeccompAction::Allow,
        SeccompAction::Trap,
        std::env::consts::ARCH.try_into().expect("a known architecture"),
    );
    let program: BpfProgram = filter.expect("a filter").try_into().expect("a program");
    apply_filter(&program).expect("it holds");
}
