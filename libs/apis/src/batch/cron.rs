//! Checks cron schedules: five fields, or a descriptor such as `@hourly` (upstream: `robfig/cron/v3`, `ParseStandard`).

/// A field of a schedule: its smallest and largest value, and names for values from the smallest on.
struct Field {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { min: 0, max: 59, names: &[] },
    Field { min: 0, max: 23, names: &[] },
    Field { min: 1, max: 31, names: &[] },
    Field {
        min: 1,
        max: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Checks the syntax of a schedule.
///
/// # Errors
/// The message about an invalid schedule, in upstream's words.
pub fn check(text: &str) -> Result<(), String> {
    if let Some(name) = text.strip_prefix('@') {
        return descriptor(text, name);
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    parts
        .iter()
        .zip(&FIELDS)
        .try_for_each(|(part, field)| part.split(',').try_for_each(|range| check_range(range, field)))
}

fn descriptor(text: &str, name: &str) -> Result<(), String> {
    if let Some(every) = name.strip_prefix("every ") {
        return match oarlock_meta::GoDuration::parse(every) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed to parse duration {text}: {error}")),
        };
    }
    match name {
        "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly" => Ok(()),
        _ => Err(format!("unrecognized descriptor: {text}")),
    }
}

fn check_range(text: &str, field: &Field) -> Result<(), String> {
    let (range, step) = match text.split_once('/') {
        Some((_, rest)) if rest.contains('/') => return Err(format!("too many slashes: {text}")),
        Some((range, step)) => (range, Some(number(step)?)),
        None => (text, None),
    };
    let (low, high) = match range.split_once('-') {
        _ if matches!(range, "*" | "?") => (field.min, field.max),
        Some((_, rest)) if rest.contains('-') => return Err(format!("too many hyphens: {text}")),
        Some((low, high)) => (value(low, field)?, value(high, field)?),
        None => {
            let low = value(range, field)?;
            // `5/15` means from 5 to the end.
            (low, if step.is_some() { field.max } else { low })
        }
    };
    if low < field.min {
        return Err(format!("beginning of range ({low}) below minimum ({}): {text}", field.min));
    }
    if high > field.max {
        return Err(format!("end of range ({high}) above maximum ({}): {text}", field.max));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
    }
    if step == Some(0) {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn value(text: &str, field: &Field) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    match field.names.iter().position(|name| *name == lower) {
        Some(at) => Ok(field.min + u32::try_from(at).unwrap_or(0)),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(n) if n < 0 => Err(format!("negative number ({n}) not allowed: {text}")),
        Ok(n) => u32::try_from(n).map_err(|_| format!("failed to parse int from {text}")),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {}: invalid syntax",
            oarlock_meta::quote::quote(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn reads_what_the_standard_parser_reads() {
        for good in ["* * * * *", "*/5 0-10/2 1,15 jan-mar mon", "@every 1h30m", "@daily", "5/15 ? * * 0"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "a * * * *",
            "@sometimes",
            "1-2-3 * * * *",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
