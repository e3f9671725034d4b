//! Work that waits for the file system.

use crate::protocol::errors::{Failure, broken};

/// Does work that waits for the file system where waiting holds nobody up.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(broken("a step of the gateway failed")))
}
