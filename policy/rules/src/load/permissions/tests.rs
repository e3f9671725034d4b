use crate::load;
use crate::{Layer, Mode, SettingsText};

/// Returns the mode that the settings of a project ask for, and whether something is told.
fn mode(trusted: bool, name: &str) -> (Option<Mode>, bool) {
    mode_of(Layer::Project, trusted, name)
}

fn mode_of(layer: Layer, trusted: bool, name: &str) -> (Option<Mode>, bool) {
    let text = SettingsText {
        layer,
        file: "/p/.stockade/settings.json".into(),
        text: format!(r#"{{"permissions": {{"defaultMode": "{name}"}}}}"#).into_bytes(),
        anchor: "/p".into(),
        trusted,
        above: false,
    };
    let loaded = load(&[text]);
    (loaded.rules.settings().default_mode, !loaded.problems.is_empty())
}

#[test]
fn a_mode_that_widens_waits_for_trust_and_one_that_does_not_counts_at_once() {
    assert_eq!(mode(true, "acceptEdits"), (Some(Mode::AcceptEdits), false));
    assert_eq!(mode(false, "acceptEdits"), (None, true));
    assert_eq!(mode(true, "plan"), (Some(Mode::Plan), false));
    assert_eq!(mode(false, "plan"), (Some(Mode::Plan), false));
    assert_eq!(mode(true, "bypassPermissions"), (Some(Mode::Default), true));
    assert_eq!(
        mode_of(Layer::User, true, "bypassPermissions"),
        (Some(Mode::BypassPermissions), false)
    );
}
