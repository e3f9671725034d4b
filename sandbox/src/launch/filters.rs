//! The system-call filters of a run, which can be made before its spec is there.

use crate::linux::bpf::Table;
use crate::linux::seccomp::{self, Options};

/// The filters of one run, as tables and as programs.
pub(super) struct Filters {
    options: Options,
    /// What the command's filter says.
    pub(super) table: Table,
    /// The command's filter.
    pub(super) program: Vec<libc::sock_filter>,
    /// The filter of pid 1.
    pub(super) own: Vec<libc::sock_filter>,
}

impl Filters {
    /// Makes those of a run with these options.
    pub(super) fn of(options: Options) -> Filters {
        let table = seccomp::table(options);
        let (program, own) = (table.compile(), seccomp::own_table().compile());
        Filters { options, table, program, own }
    }

    /// Makes those that most runs need.
    pub(super) fn likely() -> Filters {
        Filters::of(Options {
            internet: true,
            supervised: true,
            guarded: true,
            namespaces: true,
            truncates: false,
        })
    }

    /// Returns `made` if these are its options, else others.
    pub(super) fn choose(made: Option<Filters>, options: Options) -> Filters {
        made.filter(|made| made.options == options).unwrap_or_else(|| Filters::of(options))
    }
}
