//! When a failed try is repeated, and after how long.

use std::time::{Duration, SystemTime};

/// How often and how patiently a request is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Most tries, the first one included.
    pub tries: u32,
    /// Wait after the first try; it doubles with each further one.
    pub first: Duration,
    /// Longest wait that is computed.
    pub longest: Duration,
    /// Longest wait that the endpoint may ask for; a longer one is an error.
    pub patience: Duration,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            tries: 10,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(32),
            patience: Duration::from_secs(300),
        }
    }
}

impl Retries {
    /// Returns the wait after try number `tried` (from 1). `chance` (0 to 255) spreads clients that failed together
    /// over the last quarter of the wait.
    pub(crate) fn delay(&self, tried: u32, chance: u8) -> Duration {
        let doubled = self.first.saturating_mul(1 << tried.saturating_sub(1).min(16));
        let whole = doubled.min(self.longest);
        whole.mul_f64(1.0 - f64::from(chance) / 255.0 / 4.0)
    }
}

/// Says whether a response with this status may be followed by another try. `should` is the header `x-should-retry`,
/// with which endpoints overrule the status.
pub(crate) fn is_worth_a_retry(status: u16, should: Option<&str>) -> bool {
    match should {
        Some("true") => true,
        Some("false") => false,
        Some(_) | None => matches!(status, 408 | 409 | 425 | 429 | 500..=599),
    }
}

/// Reads the wait that an endpoint asks for: `retry-after-ms`, or `retry-after` in seconds or as a date
/// (RFC 9110, section 10.2.3). Anything else asks for nothing.
pub(crate) fn asked_wait(
    milliseconds: Option<&str>,
    after: Option<&str>,
    now: SystemTime,
) -> Option<Duration> {
    let seconds = |text: &str| -> Option<Duration> {
        let number: f64 = text.trim().parse().ok()?;
        Duration::try_from_secs_f64(number).ok()
    };
    let date = |text: &str| -> Option<Duration> {
        let at = httpdate::parse_http_date(text.trim()).ok()?;
        Some(at.duration_since(now).unwrap_or(Duration::ZERO))
    };
    milliseconds
        .and_then(seconds)
        .map(|wait| wait / 1000)
        .or_else(|| after.and_then(|text| seconds(text).or_else(|| date(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_are_spread() {
        let retries = Retries::default();
        let waits: Vec<u128> = (1..=8).map(|tried| retries.delay(tried, 0).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 32000, 32000]);
        assert_eq!(retries.delay(3, 255), Duration::from_millis(1500));
        assert_eq!(retries.delay(u32::MAX, 0), Duration::from_secs(32));
    }

    #[test]
    fn an_endpoint_asks_for_a_wait_in_three_forms() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
        let asked = |milliseconds, after| asked_wait(milliseconds, after, now);
        assert_eq!(asked(Some("250"), Some("9")), Some(Duration::from_millis(250)));
        assert_eq!(asked(None, Some("1.5")), Some(Duration::from_millis(1500)));
        let date = Some("Sun, 06 Nov 1994 08:49:47 GMT");
        assert_eq!(asked(None, date), Some(Duration::from_secs(10)));
        assert_eq!(asked(None, Some("Sun, 06 Nov 1994 08:49:27 GMT")), Some(Duration::ZERO));
        for nothing in ["", "soon", "-1", "NaN", "inf", "1e300"] {
            assert_eq!(asked(None, Some(nothing)), None, "{nothing}");
        }
    }

    #[test]
    fn a_status_or_the_endpoint_decides_about_another_try() {
        assert!(is_worth_a_retry(529, None) && is_worth_a_retry(429, None));
        assert!(!is_worth_a_retry(400, None) && !is_worth_a_retry(401, Some("perhaps")));
        assert!(is_worth_a_retry(400, Some("true")) && !is_worth_a_retry(500, Some("false")));
    }
}
