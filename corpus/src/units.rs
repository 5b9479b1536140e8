//! Sizes as people write them, and times as Codex does.

use std::str::FromStr;

/// When the newest thing in a corpus is made: 2026-07-01T12:00:00Z, in milliseconds.
pub const END: i64 = 1_782_907_200_000;
/// A day in milliseconds.
pub const DAY: i64 = 86_400_000;

/// A number of bytes, written like `31KiB` or `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
        let (number, shift) = units
            .iter()
            .find_map(|(unit, shift)| text.strip_suffix(unit).map(|number| (number, *shift)))
            .expect("every text ends in nothing");
        let number: u64 = number.trim().parse().map_err(|_| "not a size like 300MiB".to_owned())?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(|| "too large".to_owned())
    }
}

/// A moment as a date and a time of day, UTC.
pub struct Moment {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
    /// The hour.
    pub hour: i64,
    /// The minute.
    pub minute: i64,
    /// The second.
    pub second: i64,
    /// The millisecond.
    pub millisecond: i64,
}

impl Moment {
    /// The moment so many milliseconds after the epoch.
    pub fn of(ms: i64) -> Self {
        let (days, in_day) = (ms.div_euclid(DAY), ms.rem_euclid(DAY));
        let (year, month, day) = civil(days);
        Self {
            year,
            month,
            day,
            hour: in_day / 3_600_000,
            minute: in_day / 60_000 % 60,
            second: in_day / 1000 % 60,
            millisecond: in_day % 1000,
        }
    }
}

/// A time as Codex stamps its rows.
pub fn stamp(ms: i64) -> String {
    let Moment { year, month, day, hour, minute, second, millisecond } = Moment::of(ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// Year, month and day of a day counted from the epoch. Counted from March of the year 0, a leap day ends its year, and
/// 400 years are always 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!("12".parse(), Ok(Bytes(12)));
        assert_eq!("300MiB".parse(), Ok(Bytes(300 << 20)));
        assert!("3MB".parse::<Bytes>().is_err());
        assert!("99999999999GiB".parse::<Bytes>().is_err());
    }

    #[test]
    fn times_are_stamped() {
        assert_eq!(stamp(END), "2026-07-01T12:00:00.000Z");
        assert_eq!(stamp(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(stamp(0), "1970-01-01T00:00:00.000Z");
    }
}
