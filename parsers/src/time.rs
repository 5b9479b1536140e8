//! Times as the contract reads them: RFC 3339 text to whole milliseconds since the epoch.
//!
//! The grammar is narrower than that of a date library (no leap second, no space for the `T`, ASCII digits only) and a
//! cursor stands on every millisecond of it, so it is written out here.

/// Milliseconds since the epoch of `YYYY-MM-DDThh:mm:ss[.digits](Z|±hh:mm)`, `t` and `z` too; digits beyond milliseconds
/// are cut. `None` for anything else, for a date that does not exist, and before the epoch.
///
/// ```
/// use throughline_parsers::time::parse_ms;
/// assert_eq!(parse_ms("1970-01-01T01:00:00.0019+01:00"), Some(1));
/// assert_eq!(parse_ms("2026-02-29T00:00:00Z"), None);
/// ```
pub fn parse_ms(text: &str) -> Option<i64> {
    let text = text.as_bytes();
    let shape: &[u8; 19] = text.get(..19)?.try_into().ok()?;
    let seconds = local_seconds(shape)?;
    let (millis, zone) = fraction(&text[19..])?;
    let ms = (seconds - offset_minutes(zone)? * 60) * 1000 + millis;
    (ms >= 0).then_some(ms)
}

fn local_seconds(text: &[u8; 19]) -> Option<i64> {
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| text[*at] != *byte) || !matches!(text[10], b'T' | b't') {
        return None;
    }
    let [year, month, day] = [number(&text[..4])?, number(&text[5..7])?, number(&text[8..10])?];
    let [hour, minute, second] = [number(&text[11..13])?, number(&text[14..16])?, number(&text[17..])?];
    let real = year >= 1 && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !real || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// The milliseconds of an optional `.digits`, and what stands behind it.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else { return Some((0, text)) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let millis = (0..3).fold(0, |ms, n| ms * 10 + if n < digits { i64::from(rest[n] - b'0') } else { 0 });
    (digits > 0).then(|| (millis, &rest[digits..]))
}

fn offset_minutes(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            let total = (hours <= 23 && minutes <= 59).then_some(hours * 60 + minutes)?;
            Some(if *sign == b'-' { -total } else { total })
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the Gregorian calendar, years counted from March so that the leap day comes last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::parse_ms;

    #[test]
    fn times() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-07-01T12:34:56.789Z", Some(1_782_909_296_789)),
            ("2026-07-01t12:34:56.789999z", Some(1_782_909_296_789)),
            ("2026-07-01T12:34:56.7Z", Some(1_782_909_296_700)),
            ("2026-07-01T14:34:56.789+02:00", Some(1_782_909_296_789)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800_000)),
            ("2000-02-29T23:59:59-00:00", Some(951_868_799_000)),
            ("1900-02-29T00:00:00Z", None),
            ("2026-06-30T23:59:60Z", None),
            ("2026-07-01T24:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-04-31T00:00:00Z", None),
            ("1969-12-31T23:59:59.999Z", None),
            ("1970-01-01T00:00:00+00:01", None),
            ("0000-01-01T00:00:00Z", None),
            ("2026-07-01 12:34:56Z", None),
            ("2026-07-01T12:34:56", None),
            ("2026-07-01T12:34:56.Z", None),
            ("2026-07-01T12:34:56,5Z", None),
            ("2026-07-01T12:34:56+0200", None),
            ("2026-07-01T12:34:56+24:00", None),
            ("2026-07-01T12:34:56Z ", None),
            ("+026-07-01T12:34:56Z", None),
            ("", None),
        ] {
            assert_eq!(parse_ms(text), ms, "{text}");
        }
    }
}
