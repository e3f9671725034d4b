//! macOS: the text of a Seatbelt profile. It is made on every platform, so that its tests run on every one.

mod seatbelt;

pub use seatbelt::profile as seatbelt_profile;
