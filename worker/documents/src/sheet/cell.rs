//! A cell's value as people see it, and a column's name.
use calamine::{DataRef, ExcelDateTime};

const SECONDS_PER_DAY: f64 = 86_400.0;
/// The last day that a spreadsheet knows.
const LAST_DAY: f64 = 2_958_466.0;

pub(super) fn text(value: &DataRef<'_>) -> String {
    match value {
        DataRef::Empty => String::new(),
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => float(*number),
        DataRef::String(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(true) => "TRUE".to_owned(),
        DataRef::Bool(false) => "FALSE".to_owned(),
        DataRef::DateTime(moment) => date_time(moment),
        DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::Error(error) => error.to_string(),
    }
}

/// Fifteen digits, as a spreadsheet shows: 0.1 + 0.2 is 0.3 there.
fn float(number: f64) -> String {
    let rounded = format!("{number:.14e}").parse().unwrap_or(number);
    if rounded != 0.0 && !(1e-9..1e15).contains(&f64::abs(rounded)) {
        format!("{rounded:e}")
    } else {
        rounded.to_string()
    }
}

fn date_time(moment: &ExcelDateTime) -> String {
    let serial = moment.as_f64();
    if moment.is_duration() {
        return duration(serial);
    }
    if !(0.0..LAST_DAY).contains(&serial) {
        return float(serial);
    }
    let (year, month, day, hour, minute, second, milli) = moment.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    let mut time = format!("{hour:02}:{minute:02}:{second:02}");
    if milli > 0 {
        time.push_str(&format!(".{milli:03}"));
    }
    if serial < 1.0 {
        time
    } else if (hour, minute, second, milli) == (0, 0, 0, 0) {
        date
    } else {
        format!("{date} {time}")
    }
}

/// Hours beyond a day go on counting.
fn duration(days: f64) -> String {
    if !days.is_finite() || days.abs() > LAST_DAY {
        return float(days);
    }
    let sign = if days < 0.0 { "-" } else { "" };
    let seconds = (days.abs() * SECONDS_PER_DAY).round();
    let (hours, rest) = ((seconds / 3_600.0).floor(), seconds % 3_600.0);
    format!("{sign}{hours}:{:02}:{:02}", (rest / 60.0).floor(), rest % 60.0)
}

/// Zero is `A`.
pub(super) fn column_name(column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = u64::from(column) + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'A' + u8::try_from(rest % 26).unwrap_or_default()));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use calamine::ExcelDateTimeType::{DateTime, TimeDelta};

    use super::*;

    #[test]
    fn columns_have_the_names_of_a_spreadsheet() {
        let names = [0, 25, 26, 701, 702, 16_383].map(column_name);
        assert_eq!(names, ["A", "Z", "AA", "ZZ", "AAA", "XFD"]);
    }

    #[test]
    fn numbers_have_the_digits_of_a_spreadsheet() {
        let numbers = [0.1 + 0.2, 5.0, -1_234.5, 1e20, 1.5e-12, 0.0, 123_456_789_012.34].map(float);
        assert_eq!(numbers, ["0.3", "5", "-1234.5", "1e20", "1.5e-12", "0", "123456789012.34"]);
    }

    #[test]
    fn moments_are_iso() {
        let moment = |serial, kind, old| date_time(&ExcelDateTime::new(serial, kind, old));
        assert_eq!(moment(46_054.0, DateTime, false), "2026-02-01");
        assert_eq!(moment(46_054.75, DateTime, false), "2026-02-01 18:00:00");
        assert_eq!(moment(0.5, DateTime, false), "12:00:00");
        assert_eq!(moment(44_592.0, DateTime, true), "2026-02-01");
        assert_eq!(moment(1.25, TimeDelta, false), "30:00:00");
        assert_eq!(moment(-0.5, TimeDelta, false), "-12:00:00");
        assert_eq!(moment(1e12, DateTime, false), "1000000000000");
    }
}
