//! A process gives up its own rights, for good.

use std::io;

/// Takes every right from this process but reading descriptor 0, writing descriptors 1 and 2, and
/// memory: for the scan worker, before it has a second thread. After it any other call kills the process.
#[cfg(target_os = "linux")]
pub fn confine_worker() -> io::Result<()> {
    crate::worker::confine()
}

/// Takes from this process all but what carrying connections needs: files but those of the name service, new
/// programs, other processes, servers of its own. For the proxy, before it has a second thread.
#[cfg(target_os = "linux")]
pub fn confine_proxy() -> io::Result<()> {
    crate::egress::confine()
}

/// Takes every right from this process but taking connections of a socket that listens, asking who made them, and passing
/// them on: for the listener of the machine's service, before it has a second thread. After it any other call kills the process.
#[cfg(target_os = "linux")]
pub fn confine_listener() -> io::Result<()> {
    crate::service::confine_listener()
}

/// Takes from this process, and from all that it starts from then on, namespaces, mounts, other processes' memory and the
/// kernel's interfaces that no command gets either: for the gateway of a user in the machine's service, after it forked what
/// makes launchers and before it has a second thread.
#[cfg(target_os = "linux")]
pub fn confine_gateway() -> io::Result<()> {
    crate::service::confine(crate::service::Role::Gateway)
}

/// Takes from this process what [`confine_gateway`] takes, new programs, signals to others and new connections: for the
/// recorder of the machine's service, before it has a second thread.
#[cfg(target_os = "linux")]
pub fn confine_recorder() -> io::Result<()> {
    crate::service::confine(crate::service::Role::Recorder)
}

/// Takes from this process, and from all that it starts from then on, the kernel's interfaces of which no gateway, launcher or
/// command has any need: for the keeper of the machine's service, before it has a second thread.
#[cfg(target_os = "linux")]
pub fn confine_keeper() -> io::Result<()> {
    crate::service::confine(crate::service::Role::Keeper)
}

/// Every platform but Linux refuses.
#[cfg(not(target_os = "linux"))]
macro_rules! refuse {
    ($($name:ident)*) => {
        $(
            /// Refuses.
            pub fn $name() -> io::Result<()> {
                Err(io::ErrorKind::Unsupported.into())
            }
        )*
    };
}

#[cfg(not(target_os = "linux"))]
refuse!(confine_worker confine_proxy confine_listener confine_gateway confine_recorder confine_keeper);
