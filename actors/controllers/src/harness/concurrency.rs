//! The number of keys that a controller reconciles at once.

use std::collections::BTreeMap;

/// The number of keys that a controller reconciles at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// The number without a flag.
    pub default: usize,
    /// Upstream's flag for the number, without dashes; none where upstream has none.
    pub flag: Option<&'static str>,
    /// The largest number that the flag takes.
    pub most: usize,
}

impl Concurrency {
    /// A number that no flag changes.
    pub(crate) const fn fixed(default: usize) -> Self {
        Self { default, flag: None, most: default }
    }

    /// A number that one of upstream's flags changes.
    pub(crate) const fn flag(flag: &'static str, default: usize) -> Self {
        Self { default, flag: Some(flag), most: i32::MAX as usize }
    }

    /// The same with a bound on what the flag takes.
    pub(crate) const fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Reads the value of the flag.
    pub(super) fn parse(self, text: &str) -> Result<usize, String> {
        let number: i32 = text.parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
        let flag = self.flag.unwrap_or_default();
        match usize::try_from(number) {
            Ok(number) if number > self.most => {
                Err(format!("{flag} must not be more than {}, but got {number}", self.most))
            }
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{flag} must be greater than 0, but got {number}")),
        }
    }
}

/// The numbers of workers that flags have set, by the controller's name: the settings of all controllers in this respect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts(pub(super) BTreeMap<&'static str, usize>);

impl WorkerCounts {
    /// Returns the number of keys that the controller of this name reconciles at once.
    pub(crate) fn of(&self, controller: &str, workers: Concurrency) -> usize {
        self.0.get(controller).copied().unwrap_or(workers.default)
    }
}
