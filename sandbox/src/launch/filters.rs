//! The system-call filters of a run, which can be made before its spec is there.

use std::sync::OnceLock;

use stockade_kernel::bpf::Table;
use stockade_kernel::seccomp::{self, Options};

/// The filters of one run, as tables and as programs.
pub(super) struct Filters {
    /// Table of the command's filter.
    pub(super) table: Table,
    /// The command's filter.
    pub(super) program: Vec<libc::sock_filter>,
    /// The filter of pid 1.
    pub(super) own: Vec<libc::sock_filter>,
}

/// Options that most runs need.
const LIKELY: Options =
    Options { internet: true, supervised: true, guarded: true, namespaces: true, truncates: false };

static OF_MOST: OnceLock<Filters> = OnceLock::new();

impl Filters {
    fn of(options: Options) -> Filters {
        let table = seccomp::table(options);
        let (program, own) = (table.compile(), seccomp::own_table().compile());
        Filters { table, program, own }
    }

    /// Makes those that most runs need, for this process and all that are forked from it.
    pub(super) fn of_most() -> &'static Filters {
        OF_MOST.get_or_init(|| Filters::of(LIKELY))
    }

    /// Returns those of a run with these options. A process asks once: what is made for it stays until its end.
    pub(super) fn choose(options: Options) -> &'static Filters {
        match options == LIKELY {
            true => Filters::of_most(),
            false => Box::leak(Box::new(Filters::of(options))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_were_made_before_are_those_of_their_options_and_of_no_others() {
        let plain = |program: &[libc::sock_filter]| {
            program.iter().map(|it| (it.code, it.jt, it.jf, it.k)).collect::<Vec<_>>()
        };
        let made = Filters::of_most();
        assert!(std::ptr::eq(made, Filters::choose(LIKELY)));
        let others = [
            Options { internet: false, ..LIKELY },
            Options { supervised: false, guarded: false, ..LIKELY },
            Options { guarded: false, ..LIKELY },
            Options { namespaces: false, ..LIKELY },
        ];
        for options in [LIKELY].into_iter().chain(others) {
            let chosen = Filters::choose(options);
            assert_eq!(plain(&chosen.program), plain(&seccomp::table(options).compile()));
            let differs = plain(&chosen.program) != plain(&made.program);
            assert_eq!(differs, options != LIKELY, "{options:?}");
        }
    }
}
