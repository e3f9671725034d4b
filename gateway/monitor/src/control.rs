//! Messages of a caller about its command that does not run yet.

use tokio::sync::mpsc;

use crate::protocol::types::Control;

/// Interrupt from the keyboard (signal(7)).
pub const SIGINT: i32 = 2;

/// Signals that end what they reach, unless it provides for them (signal(7)): HUP, INT, QUIT, KILL, TERM.
const ENDING: [i32; 5] = [1, SIGINT, 3, 9, 15];

fn gives_up(control: &Control) -> bool {
    match control {
        Control::Stop => true,
        Control::Signal(number) => ENDING.contains(number),
        Control::Resize(_) | Control::Background => false,
    }
}

/// Waits until the caller of a command that does not run yet gives it up. Other signals reach nothing.
pub async fn given_up(control: &mut mpsc::Receiver<Control>) {
    while let Some(sent) = control.recv().await {
        if gives_up(&sent) {
            return;
        }
    }
    std::future::pending().await
}

/// Says whether the caller of a command that does not run yet gave it up.
pub fn was_given_up(control: &mut mpsc::Receiver<Control>) -> bool {
    while let Ok(sent) = control.try_recv() {
        if gives_up(&sent) {
            return true;
        }
    }
    false
}
