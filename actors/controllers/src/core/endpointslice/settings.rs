//! Settings of endpointslice-controller.

/// Upstream's bounds of `--max-endpoints-per-slice`.
const BOUNDS: std::ops::RangeInclusive<i32> = 1..=1000;

/// Flags of endpointslice-controller; names are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct EndpointSliceSettings {
    /// How many endpoints an EndpointSlice holds at most, 1 to 1000.
    #[arg(long, default_value_t = 100, value_name = "ENDPOINTS", value_parser = max_endpoints, allow_negative_numbers = true)]
    pub max_endpoints_per_slice: usize,
}

impl Default for EndpointSliceSettings {
    fn default() -> Self {
        Self { max_endpoints_per_slice: 100 }
    }
}

fn max_endpoints(text: &str) -> Result<usize, String> {
    let number: i32 = text.parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
    let (least, most) = (BOUNDS.start(), BOUNDS.end());
    if number < *least {
        return Err(format!("max-endpoints-per-slice can't be less than {least}, but got {number}"));
    }
    if number > *most {
        return Err(format!("max-endpoints-per-slice can't be more than {most}, but got {number}"));
    }
    usize::try_from(number).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_holds_one_to_a_thousand_endpoints() {
        assert_eq!((max_endpoints("1"), max_endpoints("1000")), (Ok(1), Ok(1000)));
        let less = "max-endpoints-per-slice can't be less than 1, but got 0";
        let more = "max-endpoints-per-slice can't be more than 1000, but got 1001";
        assert_eq!((max_endpoints("0"), max_endpoints("1001")), (Err(less.to_owned()), Err(more.to_owned())));
        assert!(max_endpoints("many").is_err());
    }
}
