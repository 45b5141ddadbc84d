//! Decides which taints a pod tolerates (upstream `Toleration.ToleratesTaint`). Generic over the type of texts, so that a scheduler can compare symbols.

use oarlock_schema::views::core_v1;
use oarlock_seeded_bug::seeded_bug;

/// The effect of a taint on pods that do not tolerate the taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// New pods are not scheduled.
    NoSchedule,
    /// The node is less preferred for new pods.
    PreferNoSchedule,
    /// New pods are not scheduled, and running pods are evicted.
    NoExecute,
}

impl Effect {
    /// Returns the effect of this name; `None` for an unknown name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }

    /// Returns the effect's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// A taint of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint<T> {
    /// Key.
    pub key: T,
    /// Value, may be empty.
    pub value: T,
    /// Effect.
    pub effect: Effect,
}

impl<T> Taint<T> {
    /// Reads a taint; `None` for a taint without an effect, which does nothing.
    pub fn read<'a>(taint: core_v1::Taint<'a>, text: impl Fn(&'a str) -> T) -> Option<Self> {
        let effect = Effect::read(taint.effect())?;
        Some(Self { key: text(taint.key()), value: text(taint.value()), effect })
    }
}

/// A toleration of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Toleration<T> {
    /// Key of the taints; an empty key matches every key.
    pub key: T,
    /// The value to compare with the taint's value unless `exists`.
    pub value: T,
    /// Whether the operator is `Exists`; `Equal` otherwise.
    pub exists: bool,
    /// Effect of the taints; `None` matches every effect.
    pub effect: Option<Effect>,
}

impl<T> Toleration<T> {
    /// Reads a toleration; `None` for a toleration with an unknown operator or effect, which tolerates nothing. `Lt` and `Gt` count as unknown while upstream's gate
    /// `TaintTolerationComparisonOperators` is off, which is the default.
    pub fn read<'a>(toleration: core_v1::Toleration<'a>, text: impl Fn(&'a str) -> T) -> Option<Self> {
        let exists = match toleration.operator() {
            "Exists" => true,
            "" | "Equal" => false,
            _ => return None,
        };
        let effect = match toleration.effect() {
            "" => None,
            named => Some(Effect::read(named)?),
        };
        Some(Self { key: text(toleration.key()), value: text(toleration.value()), exists, effect })
    }
}

impl<T: PartialEq + Default> Toleration<T> {
    /// Whether the toleration tolerates a taint with this key, value and effect.
    pub fn tolerates(&self, key: &T, value: &T, effect: Effect) -> bool {
        self.effect.is_none_or(|own| own == effect || seeded_bug!("effect_is_not_compared"))
            && (self.key == *key || self.key == T::default())
            && (self.exists || self.value == *value)
    }
}

/// Whether any of these tolerations tolerates a taint.
pub fn tolerated<T: PartialEq + Default>(tolerations: &[Toleration<T>], taint: &Taint<T>) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(&taint.key, &taint.value, taint.effect))
}
