//! Times as a person writes them on a command line, one form for all subcommands.

/// The beginning of what is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Since<'a> {
    /// So many seconds ago.
    Ago(i64),
    /// The beginning of this day, UTC.
    Today,
    /// A point in time, which is to be RFC 3339.
    At(&'a str),
}

impl Since<'_> {
    /// Reads `2h` (s, m, h, d), which may begin with a minus, `today`, or a point in time.
    pub fn of(text: &str) -> Since<'_> {
        match text {
            "today" => Since::Today,
            text => ago(text.strip_prefix('-').unwrap_or(text)).map_or(Since::At(text), Since::Ago),
        }
    }
}

fn ago(text: &str) -> Option<i64> {
    let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let digits = count.bytes().all(|byte| byte.is_ascii_digit());
    let count = count.parse::<u32>().ok().filter(|_| digits)?;
    i64::from(count).checked_mul(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit_and_may_have_a_minus() {
        for (text, seconds) in
            [("2h", 7200), ("-2h", 7200), ("0m", 0), ("7d", 604_800), ("90s", 90)]
        {
            assert_eq!(Since::of(text), Since::Ago(seconds), "{text}");
        }
        assert_eq!(Since::of("today"), Since::Today);
        for at in
            ["", "-", "h", "2", "+2h", "--2h", "2w", "2 h", "4294967296d", "2026-01-31T08:00:00Z"]
        {
            assert_eq!(Since::of(at), Since::At(at));
        }
    }
}
