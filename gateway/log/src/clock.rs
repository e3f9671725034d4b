//! Time and identity of records.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The digits of a ULID.
const ULID_DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Returns the wall clock as records spell it: nine decimals and `Z`.
pub fn now() -> String {
    at(SystemTime::now())
}

/// Returns `time` as records spell it. A time that the calendar does not hold is the beginning of 1970.
pub fn at(time: SystemTime) -> String {
    spell(Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH))
}

fn spell(time: Timestamp) -> String {
    format!("{time:.9}")
}

/// Returns the monotonic clock in microseconds.
pub(super) fn monotonic_us() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1000)
}

/// Returns the identity of this boot, or zeros where the kernel tells none.
pub(super) fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let text = text.trim();
    if text.is_empty() { "00000000-0000-0000-0000-000000000000".into() } else { text.into() }
}

/// Returns a new ULID; none when cannot get random bytes from the system.
pub(super) fn ulid() -> Option<String> {
    let mut bytes = [0; 16];
    stockade_base::random::fill(&mut bytes).ok()?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or_default();
    let value = u128::from(millis) << 80 | (u128::from_be_bytes(bytes) & ((1 << 80) - 1));
    let digits = (0..26).rev().map(|place| {
        let digit = usize::try_from((value >> (5 * place)) & 31).unwrap_or_default();
        char::from(ULID_DIGITS.get(digit).copied().unwrap_or(b'0'))
    });
    Some(digits.collect())
}

/// Says whether `text` is a ULID.
pub(super) fn is_ulid(text: &str) -> bool {
    text.len() == 26 && text.bytes().all(|byte| ULID_DIGITS.contains(&byte))
}

/// Returns the time in the first 48 bits of a ULID, and as much `later`, as records spell it; none of a text that is
/// not a ULID.
pub(super) fn ulid_time(id: &str, later: Duration) -> Option<String> {
    let mut digits = id.get(..10).filter(|_| is_ulid(id))?.bytes();
    let millis = digits.try_fold(0_i64, |value, digit| {
        let place = ULID_DIGITS.iter().position(|known| *known == digit)?;
        value.checked_mul(32)?.checked_add(i64::try_from(place).ok()?)
    })?;
    Timestamp::from_millisecond(millis).ok()?.checked_add(later).ok().map(spell)
}

/// Says whether `text` is a time as records spell it.
pub(super) fn is_time(text: &str) -> bool {
    text.len() >= 30 && text.parse::<Timestamp>().is_ok_and(|time| spell(time) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_nine_decimals_and_z() {
        assert_eq!(at(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000000000Z");
        let beyond = SystemTime::UNIX_EPOCH + Duration::from_secs(9_999_999_999_999);
        assert_eq!(at(beyond), at(SystemTime::UNIX_EPOCH));
        assert!(is_time(&now()));
        assert!(!is_time("2026-11-21T10:15:02Z"));
    }

    #[test]
    fn identities_differ_and_sort_by_time() {
        let first = ulid().unwrap();
        let second = ulid().unwrap();
        assert!(is_ulid(&first));
        assert_ne!(first, second);
        assert_eq!(first.get(..7), second.get(..7));
        let made = ulid_time(&first, Duration::ZERO).unwrap();
        assert!(made <= now() && made.get(..16) >= at(SystemTime::UNIX_EPOCH).get(..16));
        assert_eq!(
            ulid_time("01KAJ8Q5W30000000000000000", Duration::from_secs(60)).as_deref(),
            Some("2025-11-21T03:54:23.075000000Z")
        );
        assert_eq!(ulid_time("last", Duration::ZERO), None);
    }
}
