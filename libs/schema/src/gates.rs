//! Feature gates: upstream's list with its defaults, and the gates that one server has enabled. Each server holds its own set of gates, so that
//! servers of one process may differ.

use std::fmt;
use std::str::FromStr;

pub use crate::resources::GATES;

/// A feature gate as upstream declares the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// Name, as used in `--feature-gates`.
    pub name: &'static str,
    /// Whether the gate is on by default.
    pub default: bool,
    /// Whether the gate cannot be changed from its default.
    pub locked: bool,
    /// Maturity of the feature.
    pub stage: Stage,
}

/// Maturity of a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// May change or be removed.
    Alpha,
    /// Complete, but may still change.
    Beta,
    /// Stable.
    Ga,
    /// To be removed.
    Deprecated,
}

impl Stage {
    /// Returns the stage's name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// The names that set all gates of a stage.
const STAGE_GATES: [(&str, Stage); 2] = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)];

/// The feature gates of one server, each enabled or disabled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeatureGates {
    /// One value for each of [`GATES`], in the same order.
    on: Vec<bool>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self { on: GATES.iter().map(|gate| gate.default).collect() }
    }
}

impl FeatureGates {
    /// Whether a gate is enabled. A gate that upstream has removed counts as enabled: its feature has become permanent.
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        position(name).and_then(|at| self.on.get(at).copied()).unwrap_or(true)
    }

    /// Returns all gates, each with whether the gate is enabled.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Gate, bool)> {
        GATES.iter().zip(self.on.iter().copied())
    }

    /// Returns the gates that differ from upstream's default, with their value.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Gate, bool)> {
        self.iter().filter(|(gate, on)| gate.default != *on)
    }
}

fn position(name: &str) -> Option<usize> {
    GATES.binary_search_by(|gate| gate.name.cmp(name)).ok()
}

/// The error for a text that is no list of gates, in upstream's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GateError {
    /// The gate does not exist.
    Unknown(String),
    /// The gate is locked to its default, and the text asks for the other value.
    Locked(&'static str, bool),
    /// A name without a value.
    Missing(String),
    /// A value that is neither true nor false.
    Invalid(String, String),
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "unrecognized feature gate: {name}"),
            Self::Locked(name, default) => {
                write!(f, "cannot set feature gate {name} to {}, feature is locked to {default}", !default)
            }
            Self::Missing(name) => write!(f, "missing bool value for {name}"),
            Self::Invalid(name, value) => {
                write!(f, "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")
            }
        }
    }
}

impl std::error::Error for GateError {}

/// Reads `A=true,B=false`, as upstream's flag does. `AllAlpha` and `AllBeta` set the gates of their stage that the text does not name.
impl FromStr for FeatureGates {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let mut requested: Vec<Option<bool>> = vec![None; GATES.len()];
        for one in text.split(',').filter(|one| !one.is_empty()) {
            // Upstream's flag accepts a prefix that names the component; here `kube` is the only one.
            let (name, value) = one.split_once('=').map_or((one, None), |(name, value)| (name, Some(value.trim())));
            let name = name.trim();
            let name = name.strip_prefix("kube:").unwrap_or(name);
            let value = value.ok_or_else(|| GateError::Missing(name.to_owned()))?;
            let on = boolean(value).ok_or_else(|| GateError::Invalid(name.to_owned(), value.to_owned()))?;
            let at = position(name).ok_or_else(|| GateError::Unknown(name.to_owned()))?;
            if let Some(gate) = GATES.get(at).filter(|gate| gate.locked && gate.default != on) {
                return Err(GateError::Locked(gate.name, gate.default));
            }
            if let Some(slot) = requested.get_mut(at) {
                *slot = Some(on);
            }
        }
        let whole: Vec<(Stage, bool)> = STAGE_GATES
            .iter()
            .filter_map(|(name, stage)| Some((*stage, requested.get(position(name)?).copied().flatten()?)))
            .collect();
        let on = |(gate, requested): (&Gate, &Option<bool>)| {
            let stage = || whole.iter().find(|(stage, _)| *stage == gate.stage && !is_whole(gate)).map(|(_, on)| *on);
            requested.or_else(stage).unwrap_or(gate.default)
        };
        Ok(Self { on: GATES.iter().zip(&requested).map(on).collect() })
    }
}

fn is_whole(gate: &Gate) -> bool {
    STAGE_GATES.iter().any(|(name, _)| *name == gate.name)
}

/// Parses a boolean as Go's `strconv.ParseBool` does.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
