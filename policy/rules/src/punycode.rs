//! Names beyond ASCII in their ASCII form (RFC 3492): encoding those of settings, and the check that a label
//! on the wire is what the encoder would have written.

const BASE: u32 = 36;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const FIRST_BIAS: u32 = 72;
const FIRST_CODE: u32 = 0x80;
const THRESHOLDS: (u32, u32) = (1, 26);

/// Letters that are in the form which they have in the name service: lower case, composed, without another
/// character that stands for them. Parts of the table of UTS 46 in which every character is valid as it is.
const KNOWN: &[(char, char)] = &[
    ('à', 'ö'),
    ('ø', 'ı'),
    ('ĵ', 'ľ'),
    ('ł', 'ň'),
    ('ŋ', 'ž'),
    ('ΐ', 'ΐ'),
    ('ά', 'ώ'),
    ('а', 'џ'),
    ('א', 'ת'),
    ('ぁ', 'ゖ'),
    ('ァ', 'ヺ'),
    ('一', '鿿'),
    ('가', '힣'),
];

/// Says whether `label`, without its `xn--`, is what some Unicode label is encoded as.
pub(super) fn is_canonical(label: &str) -> bool {
    let Some(text) = decode(label) else { return false };
    !text.is_ascii() && encode_any(&text).as_deref() == Some(label)
}

/// Encodes a label in lower case; none when it has a character that could be written in another way.
pub(crate) fn encode(label: &str) -> Option<String> {
    let known = |letter: char| {
        letter.is_ascii_alphanumeric()
            || letter == '-'
            || letter == 'ß'
            || KNOWN.iter().any(|(first, last)| (*first..=*last).contains(&letter))
    };
    // The middle of the first ranges holds capital letters, too; they would have another form.
    let lower = |letter: char| letter.to_lowercase().eq([letter]);
    if label.chars().all(|letter| known(letter) && lower(letter)) {
        encode_any(label)
    } else {
        None
    }
}

fn encode_any(label: &str) -> Option<String> {
    let letters: Vec<u32> = label.chars().map(u32::from).collect();
    let mut output: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(output.len()).ok()?;
    if basic > 0 {
        output.push('-');
    }
    let (mut code, mut delta, mut bias, mut handled) = (FIRST_CODE, 0_u32, FIRST_BIAS, basic);
    let total = u32::try_from(letters.len()).ok()?;
    while handled < total {
        let next = letters.iter().copied().filter(|letter| *letter >= code).min()?;
        delta = delta.checked_add((next - code).checked_mul(handled + 1)?)?;
        code = next;
        for letter in &letters {
            if *letter < code {
                delta = delta.checked_add(1)?;
            }
            if *letter == code {
                write_number(&mut output, delta, bias)?;
                bias = adapt(delta, handled + 1, handled == basic);
                delta = 0;
                handled += 1;
            }
        }
        delta = delta.checked_add(1)?;
        code = code.checked_add(1)?;
    }
    Some(output)
}

fn write_number(output: &mut String, number: u32, bias: u32) -> Option<()> {
    let mut rest = number;
    let mut place = BASE;
    loop {
        let threshold = threshold(place, bias);
        if rest < threshold {
            output.push(digit(rest)?);
            return Some(());
        }
        output.push(digit(threshold + (rest - threshold) % (BASE - threshold))?);
        rest = (rest - threshold) / (BASE - threshold);
        place += BASE;
    }
}

fn decode(label: &str) -> Option<String> {
    let (basic, rest) = label.rsplit_once('-').unwrap_or(("", label));
    let mut letters: Vec<char> = basic.chars().collect();
    let (mut code, mut index, mut bias) = (FIRST_CODE, 0_u32, FIRST_BIAS);
    let mut digits = rest.bytes().peekable();
    while digits.peek().is_some() {
        let before = index;
        let (mut weight, mut place) = (1_u32, BASE);
        loop {
            let digit = value(digits.next()?)?;
            index = index.checked_add(digit.checked_mul(weight)?)?;
            let threshold = threshold(place, bias);
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(BASE - threshold)?;
            place += BASE;
        }
        let count = u32::try_from(letters.len()).ok()?.checked_add(1)?;
        bias = adapt(index - before, count, before == 0);
        code = code.checked_add(index / count)?;
        index %= count;
        letters.insert(usize::try_from(index).ok()?, char::from_u32(code)?);
        index += 1;
    }
    Some(letters.into_iter().collect())
}

fn threshold(place: u32, bias: u32) -> u32 {
    place.saturating_sub(bias).clamp(THRESHOLDS.0, THRESHOLDS.1)
}

fn adapt(delta: u32, count: u32, first: bool) -> u32 {
    let mut delta = if first { delta / DAMP } else { delta / 2 };
    delta += delta / count;
    let mut steps = 0;
    while delta > ((BASE - THRESHOLDS.0) * THRESHOLDS.1) / 2 {
        delta /= BASE - THRESHOLDS.0;
        steps += BASE;
    }
    steps + (BASE - THRESHOLDS.0 + 1) * delta / (delta + SKEW)
}

fn digit(value: u32) -> Option<char> {
    char::from_digit(value.checked_sub(26).map_or(value + 10, |number| number), 36)
        .filter(|_| value < BASE)
}

fn value(digit: u8) -> Option<u32> {
    match digit {
        b'a'..=b'z' => Some(u32::from(digit - b'a')),
        b'0'..=b'9' => Some(u32::from(digit - b'0') + 26),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of RFC 3492, 7.1, in lower case, and everyday ones.
    const PAIRS: &[(&str, &str)] = &[
        ("bücher", "bcher-kva"),
        ("他们为什么不说中文", "ihqwcrb4cv8a8dqg056pqjye"),
        ("почемужеонинеговорятпорусски", "b1abfaaepdrnnbgefbadotcwatmq2g4l"),
        ("3年b組金八先生", "3b-ww4c5e180e575a65lsy2b"),
        ("faß", "fa-hia"),
    ];

    #[test]
    fn labels_go_both_ways() {
        for (text, ascii) in PAIRS {
            assert_eq!(encode_any(text).as_deref(), Some(*ascii));
            assert_eq!(decode(ascii).as_deref(), Some(*text));
            assert!(is_canonical(ascii), "{ascii}");
        }
    }

    #[test]
    fn labels_that_stand_for_nothing_are_none() {
        for label in ["", "-", "a-", "abc-", "99999999", "bcher-kv", "zzzzzzzzzzz"] {
            assert!(!is_canonical(label), "{label}");
        }
    }
}
