//! The wall clock and its one text form.
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

/// UTC with milliseconds: `2026-11-30T20:03:07.250Z`.
pub fn rfc3339(at: OffsetDateTime) -> String {
    let at = at.to_offset(time::UtcOffset::UTC);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second, milli) = (at.hour(), at.minute(), at.second(), at.millisecond());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Reads any RFC 3339 time.
pub fn parse(text: &str) -> Result<OffsetDateTime, time::error::Parse> {
    OffsetDateTime::parse(text, &Rfc3339)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_its_text_form() {
        let at = OffsetDateTime::from_unix_timestamp_nanos(1_796_068_987_250_000_000).unwrap();
        assert_eq!(rfc3339(at), "2026-11-30T20:03:07.250Z");
        assert_eq!(parse(&rfc3339(at)).unwrap(), at);
        assert_eq!(parse("2026-11-30T23:03:07.25+03:00").unwrap(), at);
    }
}
