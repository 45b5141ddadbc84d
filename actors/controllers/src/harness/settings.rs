//! Settings of controllers. Each controller declares a settings type in its own folder.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings of the controllers of one process, by type. A controller whose settings are not given runs with their defaults.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    by_type: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Settings {
    /// Adds the settings of a controller; replaces earlier settings of the same type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, settings: T) -> Self {
        self.by_type.insert(TypeId::of::<T>(), Arc::new(settings));
        self
    }

    /// Returns the settings of this type, or their defaults.
    pub(crate) fn get<T: Any + Clone + Default>(&self) -> T {
        let given = self.by_type.get(&TypeId::of::<T>()).and_then(|settings| settings.downcast_ref::<T>());
        given.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Limit(u8);
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Period(u8);

    #[test]
    fn a_controller_gets_the_settings_of_its_own_type_or_their_defaults() {
        let settings = Settings::default().with(Limit(1)).with(Limit(2));
        assert_eq!(settings.get::<Limit>(), Limit(2));
        assert_eq!(settings.get::<Period>(), Period(0));
    }
}
