//! `strftime_now`: the date as Python's `datetime.strftime` writes it in the C locale.

use std::time::SystemTime;

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// The longest format, in bytes.
const FORMAT_LIMIT: usize = 1024;

/// A date and time in UTC.
struct Date {
    year: i64,
    /// From 0.
    month: usize,
    /// From 1.
    day: i64,
    /// From 1.
    day_of_year: i64,
    /// From Sunday, 0.
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
    microsecond: u32,
}

impl Date {
    fn new(time: SystemTime) -> Self {
        let (seconds, nanos) = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
            Err(before) => (-(before.duration().as_secs() as i64) - i64::from(before.duration().subsec_nanos() > 0), 0),
        };
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (mut year, mut day) = (1970 + days.div_euclid(146_097) * 400, days.rem_euclid(146_097));
        while day >= year_days(year) {
            day -= year_days(year);
            year += 1;
        }
        let day_of_year = day + 1;
        let mut month = 0;
        while day >= month_days(year, month) {
            day -= month_days(year, month);
            month += 1;
        }
        let weekday = (days + 4).rem_euclid(7) as usize;
        Self {
            year,
            month,
            day: day + 1,
            day_of_year,
            weekday,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            microsecond: nanos / 1000,
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}
fn year_days(year: i64) -> i64 {
    365 + i64::from(is_leap(year))
}
fn month_days(year: i64, month: usize) -> i64 {
    [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month % 12]
}

/// Writes a time by a format.
pub(super) fn strftime(time: SystemTime, format: &str) -> Result<String, String> {
    if format.len() > FORMAT_LIMIT {
        return Err(format!("the format of `strftime_now` has {} bytes; at most {FORMAT_LIMIT} are read", format.len()));
    }
    let mut out = String::new();
    write(&Date::new(time), format, &mut out)?;
    Ok(out)
}

fn write(date: &Date, format: &str, out: &mut String) -> Result<(), String> {
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut code = chars.next();
        // `%-d`: without padding.
        let bare = code == Some('-');
        if bare {
            code = chars.next();
        }
        let hour = (date.hour + 11) % 12 + 1;
        let (number, width, fill) = match code {
            Some('d') => (date.day, 2, '0'),
            Some('e') => (date.day, 2, ' '),
            Some('m') => (date.month as i64 + 1, 2, '0'),
            Some('y') => (date.year.rem_euclid(100), 2, '0'),
            Some('Y') => (date.year, 4, '0'),
            Some('H') => (date.hour, 2, '0'),
            Some('I') => (hour, 2, '0'),
            Some('M') => (date.minute, 2, '0'),
            Some('S') => (date.second, 2, '0'),
            Some('f') => (date.microsecond.into(), 6, '0'),
            Some('j') => (date.day_of_year, 3, '0'),
            Some('w') => (date.weekday as i64, 1, '0'),
            Some('u') => ((date.weekday as i64 + 6) % 7 + 1, 1, '0'),
            _ => {
                text(date, code, out)?;
                continue;
            }
        };
        let digits = number.to_string();
        if !bare {
            out.extend(std::iter::repeat_n(fill, usize::saturating_sub(width, digits.len())));
        }
        out.push_str(&digits);
    }
    Ok(())
}

/// Codes that are not numbers.
fn text(date: &Date, code: Option<char>, out: &mut String) -> Result<(), String> {
    match code {
        Some('a') => out.push_str(&DAYS[date.weekday][..3]),
        Some('A') => out.push_str(DAYS[date.weekday]),
        Some('b' | 'h') => out.push_str(&MONTHS[date.month][..3]),
        Some('B') => out.push_str(MONTHS[date.month]),
        Some('p') => out.push_str(if date.hour < 12 { "AM" } else { "PM" }),
        Some('%') => out.push('%'),
        Some('n') => out.push('\n'),
        Some('t') => out.push('\t'),
        // The time has no zone, as Python's `datetime.now()`.
        Some('z' | 'Z') => {}
        Some('F') => write(date, "%Y-%m-%d", out)?,
        Some('T' | 'X') => write(date, "%H:%M:%S", out)?,
        Some('R') => write(date, "%H:%M", out)?,
        Some('D' | 'x') => write(date, "%m/%d/%y", out)?,
        Some('c') => write(date, "%a %b %e %H:%M:%S %Y", out)?,
        other => {
            let code = other.map(String::from).unwrap_or_default();
            return Err(format!("`%{code}` in the format of `strftime_now` is not supported"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// From Python: `datetime.fromtimestamp(n, UTC).strftime(...)`.
    #[test]
    fn dates() {
        for (seconds, format, want) in [
            (1_796_193_659u64, "%d %b %Y", "02 Dec 2026"),
            (1_796_193_659, "%A, %B %-d, %Y %I:%M:%S %p", "Wednesday, December 2, 2026 06:40:59 AM"),
            (951_782_400, "%F %T %j %w %u %y%%", "2000-02-29 00:00:00 060 2 2 00%"),
            (4_107_542_400, "%c|%D|%R|%e", "Mon Mar  1 00:00:00 2100|03/01/00|00:00| 1"),
            (0, "%a %h %H", "Thu Jan 00"),
        ] {
            assert_eq!(strftime(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds), format).unwrap(), want);
        }
        assert!(strftime(SystemTime::now(), "%Q").is_err());
        assert!(strftime(SystemTime::now(), "%").is_err());
    }
}
