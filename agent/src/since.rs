//! The beginning of what is shown or sent, as a person writes it.

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use stockade_wire::times::Since;

/// Reads a beginning: how long ago (`2h`), `today`, or RFC 3339.
pub(crate) fn since(text: &str) -> anyhow::Result<Timestamp> {
    let now = Timestamp::now();
    let found = match Since::of(text) {
        Since::Ago(seconds) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
        Since::Today => {
            Timestamp::from_second(now.as_second() - now.as_second().rem_euclid(86_400)).ok()
        }
        Since::At(time) => time.parse().ok(),
    };
    found.with_context(|| {
        let text = text.escape_debug();
        format!("`{text}` is no time; write 2h, 7d, today or 2026-01-31T08:00:00Z")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_an_age_a_day_or_a_time() {
        let ago = |text: &str| {
            let since = since(text).expect("a time");
            (Timestamp::now() - since).get_seconds()
        };
        for (text, seconds) in [("90s", 90), ("-90s", 90), ("2h", 7200), ("-7d", 604_800)] {
            assert!((seconds..seconds + 60).contains(&ago(text)), "{text}");
        }
        assert!((0..86_460).contains(&ago("today")));
        let time = since("2026-01-31T08:00:00Z").expect("a time");
        assert_eq!(time.to_string(), "2026-01-31T08:00:00Z");
        let error = since("yesterday").expect_err("no time");
        assert_eq!(
            error.to_string(),
            "`yesterday` is no time; write 2h, 7d, today or 2026-01-31T08:00:00Z"
        );
        for bad in
            ["", "-", "h", "2", "2w", "--2h", "99999999999999999999d", "9223372036854775807d"]
        {
            assert!(since(bad).is_err(), "{bad}");
        }
    }
}
