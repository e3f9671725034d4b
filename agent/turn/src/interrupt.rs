//! The order to end a turn.

use tokio::sync::watch;

/// Receives the order to end a turn.
#[derive(Debug, Clone)]
pub struct Interrupt(watch::Receiver<bool>);

/// Gives the order to end a turn.
#[derive(Debug, Clone)]
pub struct Interrupter(watch::Sender<bool>);

/// Returns both ends. They serve one turn.
#[must_use]
pub fn interrupt() -> (Interrupter, Interrupt) {
    let (sender, receiver) = watch::channel(false);
    (Interrupter(sender), Interrupt(receiver))
}

impl Interrupter {
    /// Orders the turn to end.
    pub fn interrupt(&self) {
        self.0.send_replace(true);
    }
}

impl Interrupt {
    /// Says whether the order was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the order; for ever when nobody can give it any more.
    pub async fn given(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|given| *given).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
