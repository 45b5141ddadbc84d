//! A column of values, one per node slot; slots that were never written have the default value.

/// A node's slot in every column. Slots of deleted nodes are reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeIx(pub(crate) u32);

impl NodeIx {
    /// Returns the slot as an index.
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// A column of values, one per node slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Column<T> {
    values: Vec<T>,
}

impl<T: Copy + Default> Column<T> {
    /// Returns the value of a slot.
    pub(crate) fn at(&self, node: NodeIx) -> T {
        self.values.get(node.at()).copied().unwrap_or_default()
    }

    /// Writes the value of a slot, growing the column as needed.
    pub(crate) fn set(&mut self, node: NodeIx, value: T) {
        self.ensure(node.at() + 1);
        if let Some(slot) = self.values.get_mut(node.at()) {
            *slot = value;
        }
    }

    /// Changes the value of a slot in place, growing the column as needed.
    pub(crate) fn update(&mut self, node: NodeIx, change: impl FnOnce(T) -> T) {
        self.set(node, change(self.at(node)));
    }

    /// Grows the column to at least `slots` values.
    pub(crate) fn ensure(&mut self, slots: usize) {
        if self.values.len() < slots {
            self.values.resize(slots, T::default());
        }
    }

    /// Returns the stored values in slot order.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns the stored values in slot order, mutably.
    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Sets all of exactly `slots` values to `value`.
    pub(crate) fn reset(&mut self, slots: usize, value: T) {
        self.values.clear();
        self.values.resize(slots, value);
    }

    /// Copies `other` into this column, keeping the memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.values.clear();
        self.values.extend_from_slice(&other.values);
    }
}
