//! The document that a JSON patch changes. A patch may have ten thousand operations and a list any number of items, and each insertion into or removal from a
//! plain list would move all following items. So a map or list on the path of an operation is opened: a map becomes a tree, a list is split into pieces.

use std::collections::BTreeMap;

use oarlock_schema::{Map, Str, Value};

/// The most items of one piece of a list.
const MAX_PIECE_ITEMS: usize = 1024;

/// A value that is opened only on the paths of the operations.
#[derive(Debug)]
pub(super) enum Node {
    Closed(Value),
    Map(BTreeMap<Str, Node>),
    List(Pieces),
}

impl Node {
    /// Opens a map or list, so that its members can change cheaply.
    pub(super) fn open(&mut self) -> &mut Self {
        if let Self::Closed(value @ (Value::Map(_) | Value::List(_))) = self {
            *self = match std::mem::take(value) {
                Value::Map(map) => {
                    Self::Map(map.into_entries().map(|(key, value)| (key, Self::Closed(value))).collect())
                }
                Value::List(items) => Self::List(items.into_iter().map(Self::Closed).collect()),
                other => Self::Closed(other),
            };
        }
        self
    }

    /// Converts the node back into a plain value.
    pub(super) fn close(self) -> Value {
        match self {
            Self::Closed(value) => value,
            Self::Map(map) => map.into_iter().map(|(key, node)| (key, node.close())).collect::<Map>().into(),
            Self::List(list) => Value::List(list.pieces.into_iter().flatten().map(Self::close).collect()),
        }
    }

    /// Copies the node into a plain value.
    pub(super) fn copy(&self) -> Value {
        match self {
            Self::Closed(value) => value.clone(),
            Self::Map(map) => map.iter().map(|(key, node)| (key.clone(), node.copy())).collect::<Map>().into(),
            Self::List(list) => Value::List(list.pieces.iter().flatten().map(Self::copy).collect()),
        }
    }

    /// Whether the node has at most `room` levels of lists and maps. Looks no deeper, and counts the visited values in `measured`.
    pub(super) fn fits(&self, room: usize, measured: &mut usize) -> bool {
        if let Self::Closed(value) = self {
            return fits(value, room, measured);
        }
        *measured += 1;
        let Some(room) = room.checked_sub(1) else { return false };
        match self {
            Self::Closed(_) => true,
            Self::Map(map) => map.values().all(|node| node.fits(room, measured)),
            Self::List(list) => list.pieces.iter().flatten().all(|node| node.fits(room, measured)),
        }
    }

    /// Whether the node equals a value as JSON.
    pub(super) fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Self::Closed(value), other) => super::same(value, other),
            (Self::Map(map), Value::Map(other)) => {
                map.len() == other.len() && map.iter().zip(other.iter()).all(|((a, x), (b, y))| a == b && x.same(y))
            }
            (Self::List(list), Value::List(other)) => {
                list.len() == other.len() && list.pieces.iter().flatten().zip(other.iter()).all(|(x, y)| x.same(y))
            }
            _ => false,
        }
    }
}

/// Does for a plain value what [`Node::fits`] does for a node.
fn fits(value: &Value, room: usize, measured: &mut usize) -> bool {
    *measured += 1;
    match (value, room.checked_sub(1)) {
        (Value::Map(map), Some(room)) => map.iter().all(|(_, value)| fits(value, room, measured)),
        (Value::List(items), Some(room)) => items.iter().all(|value| fits(value, room, measured)),
        (Value::Struct(node), Some(room)) => node.iter().all(|(_, value)| fits(value, room, measured)),
        (Value::Map(_) | Value::List(_) | Value::Struct(_), None) => false,
        _ => true,
    }
}

/// A list in pieces.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: Vec<Vec<Node>>,
    len: usize,
}

impl FromIterator<Node> for Pieces {
    fn from_iter<I: IntoIterator<Item = Node>>(items: I) -> Self {
        let mut out = Self::default();
        items.into_iter().for_each(|item| out.push(item));
        out
    }
}

impl Pieces {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the piece that contains a position, and the offset in the piece. Positions after the last item map to the last piece.
    fn place(&self, at: usize) -> Option<(usize, usize)> {
        let mut left = at;
        for (i, piece) in self.pieces.iter().enumerate() {
            if left < piece.len() || (i + 1 == self.pieces.len() && left == piece.len()) {
                return Some((i, left));
            }
            left = left.checked_sub(piece.len())?;
        }
        None
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Node> {
        let (piece, at) = self.place(at)?;
        self.pieces.get_mut(piece)?.get_mut(at)
    }

    pub(super) fn push(&mut self, item: Node) {
        self.len += 1;
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < MAX_PIECE_ITEMS => piece.push(item),
            _ => self.pieces.push(vec![item]),
        }
    }

    /// Inserts an item at an existing position, or after the last item.
    pub(super) fn insert(&mut self, at: usize, item: Node) {
        let Some((i, at)) = self.place(at) else { return self.push(item) };
        let Some(piece) = self.pieces.get_mut(i) else { return };
        piece.insert(at, item);
        self.len += 1;
        if piece.len() > MAX_PIECE_ITEMS {
            let half = piece.split_off(MAX_PIECE_ITEMS / 2);
            self.pieces.insert(i + 1, half);
        }
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<Node> {
        if at >= self.len {
            return None;
        }
        let (i, at) = self.place(at)?;
        let piece = self.pieces.get_mut(i)?;
        let item = piece.remove(at);
        self.len -= 1;
        if piece.is_empty() {
            self.pieces.remove(i);
        }
        Some(item)
    }
}
