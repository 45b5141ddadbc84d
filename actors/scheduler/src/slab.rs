//! A table whose rows keep their number until they are removed; numbers of removed rows are reused.

/// A table of rows numbered from 0.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a row and returns its number.
    pub(crate) fn insert(&mut self, row: T) -> u32 {
        if let Some(id) = self.free.pop() {
            if let Some(slot) = self.rows.get_mut(id as usize) {
                *slot = Some(row);
            }
            return id;
        }
        self.rows.push(Some(row));
        u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX)
    }

    /// Removes and returns a row.
    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let row = self.rows.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(row)
    }

    /// Returns a row by number.
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.rows.get(id as usize).and_then(Option::as_ref)
    }

    /// Returns a row by number, mutably.
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.rows.get_mut(id as usize).and_then(Option::as_mut)
    }

    /// Returns all rows in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.rows.iter().enumerate().filter_map(|(id, row)| row.as_ref().map(|row| (id as u32, row)))
    }

    /// Returns all rows in the order of their numbers, mutably.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.rows.iter_mut().enumerate().filter_map(|(id, row)| row.as_mut().map(|row| (id as u32, row)))
    }
}
