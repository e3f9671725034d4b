//! Layered rules: settings texts become [`Rules`], each rule with the matcher of its specifier.
//!
//! [`load`] is a function of its texts; [`lint`] tells which rules do not do what they seem to. A decision about a
//! call is made in `stockade-policy`. May touch nothing: no files, no environment, no clock.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod confine;
mod decision;
pub mod index;
#[allow(missing_docs, reason = "fields are columns of the tables in policies/, which explain them")]
pub mod knowledge;
mod layer;
mod lint;
mod load;
mod mode;
mod network;
mod normal;
pub mod pattern;
pub mod protected;
mod punycode;
pub mod rule;
mod settings;
mod spelling;

pub use confine::sandbox_settings;
pub use decision::Decision;
pub use layer::{Layer, Origin};
pub use lint::{lint, misplaced};
pub use load::load;
pub use load::values::{SettingsValue, settings_values};
pub use mode::Mode;
pub use network::name::{Host, HostError, HostName};
pub use network::{HostRule, NetworkRules, Reach};
pub use normal::normal;
pub use rule::Rule;
pub use settings::hook::{Blocking, CommandHook, Condition, Handler, Hook, HookEvent, HttpHook};
pub use settings::merged::Rules;
pub use settings::{LoadedSettings, Problem, SandboxSettings, Settings, SettingsText, Severity};
