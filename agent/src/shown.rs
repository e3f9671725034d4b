//! Names and times are shown to a person in a form of their own, in one line.

use std::time::SystemTime;

use stockade_files::visible;

/// Returns text in one line, with what could deceive a reader or draw on a terminal made visible. A repository names its
/// branch, an archive its session.
pub(crate) fn plain(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// Returns how long ago something was, in the largest unit.
pub(crate) fn ago(then: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => "now".to_owned(),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_draw_or_look_like_others() {
        assert_eq!(
            plain("a\u{1b}[2Jb\u{202e}c\u{2066}d\u{200f}\n\u{9b}é"),
            "a\\u{1b}[2Jb\\u{202e}c\\u{2066}d\\u{200f} \\u{9b}é"
        );
    }
}
