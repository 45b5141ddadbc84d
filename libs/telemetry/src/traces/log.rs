//! A queue of byte strings in a few blocks of memory: a string has no allocation of its own.

use std::collections::VecDeque;
use std::mem::size_of;

/// Bytes of a block.
const BLOCK_BYTES: usize = 64 << 10;

/// The length before each string. A longer string is cut; a span with all that it may hold takes half of this.
type Length = u16;

/// A queue of byte strings. The place of a string is the number of strings before it, those that were removed included.
#[derive(Debug, Default)]
pub(super) struct Log {
    blocks: VecDeque<Block>,
    /// The number of strings that were removed: the place of the first one.
    removed: u64,
    /// The place of the next string.
    end: u64,
}

/// A block of strings, none of which is split.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    /// The number of bytes whose strings were removed.
    start: usize,
    /// The place of the first string that is kept.
    first: u64,
    /// A number to which the strings of the block refer.
    base: u64,
}

impl Log {
    /// Returns the place of the first string.
    pub(super) const fn first(&self) -> u64 {
        self.removed
    }

    /// Returns the place of the next string.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Adds the string that `write` appends, of about so many bytes. The string may refer to the base of its block; a new block takes the one that `base` returns. Returns the number of bytes that the string takes.
    pub(super) fn push(
        &mut self,
        about: usize,
        base: impl FnOnce() -> u64,
        write: impl FnOnce(u64, &mut Vec<u8>),
    ) -> usize {
        let needed = about + size_of::<Length>();
        if self.blocks.back().is_none_or(|block| block.bytes.capacity() - block.bytes.len() < needed) {
            let bytes = Vec::with_capacity(needed.max(BLOCK_BYTES));
            self.blocks.push_back(Block { bytes, start: 0, first: self.end, base: base() });
        }
        self.end += 1;
        self.blocks.back_mut().map_or(0, |block| block.push(write))
    }

    /// Removes the first string, and hands it to `see`. Returns the number of bytes that the string took.
    pub(super) fn pop(&mut self, see: impl FnOnce(&[u8])) -> Option<usize> {
        let block = self.blocks.front_mut()?;
        let (string, rest) = split(block.bytes.get(block.start..)?)?;
        see(string);
        let taken = block.bytes.len() - rest.len() - block.start;
        block.start += taken;
        block.first += 1;
        self.removed += 1;
        if block.start == block.bytes.len() {
            self.blocks.pop_front();
        }
        Some(taken)
    }

    /// Returns the strings at some places, each with the base of its block.
    pub(super) fn range(&self, from: u64, end: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let at = self.blocks.partition_point(|block| block.first <= from).saturating_sub(1);
        let first = self.blocks.get(at).map_or(self.end, |block| block.first);
        let count = |from: u64, end: u64| usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        let strings = self.blocks.iter().skip(at).flat_map(Block::strings);
        strings.skip(count(first, from)).take(count(from.max(first), end))
    }
}

impl Block {
    fn push(&mut self, write: impl FnOnce(u64, &mut Vec<u8>)) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&Length::default().to_le_bytes());
        write(self.base, &mut self.bytes);
        self.bytes.truncate(start + size_of::<Length>() + usize::from(Length::MAX));
        let taken = self.bytes.len() - start;
        let length = Length::try_from(taken - size_of::<Length>()).unwrap_or(Length::MAX);
        if let Some((place, _)) = self.bytes.get_mut(start..).and_then(<[u8]>::split_first_chunk_mut) {
            *place = length.to_le_bytes();
        }
        taken
    }

    fn strings(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = self.bytes.get(self.start..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (string, after) = split(rest)?;
            rest = after;
            Some((self.base, string))
        })
    }
}

/// Splits the first string off some bytes.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(Length::from_le_bytes(*length).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(log: &mut Log, text: &str) -> usize {
        log.push(text.len(), || 0, |_, bytes| bytes.extend_from_slice(text.as_bytes()))
    }

    fn pop(log: &mut Log) -> Option<(String, usize)> {
        let mut popped = String::new();
        let taken = log.pop(|bytes| popped = String::from_utf8_lossy(bytes).into_owned())?;
        Some((popped, taken))
    }

    fn range(log: &Log, from: u64, end: u64) -> Vec<String> {
        log.range(from, end).map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    #[test]
    fn strings_leave_in_the_order_in_which_they_came() {
        let mut log = Log::default();
        assert_eq!((pop(&mut log), log.first(), log.end()), (None, 0, 0));
        assert_eq!([push(&mut log, "a"), push(&mut log, ""), push(&mut log, "ccc")], [3, 2, 5]);
        assert_eq!(pop(&mut log), Some(("a".into(), 3)));
        assert_eq!(pop(&mut log), Some((String::new(), 2)));
        assert_eq!((log.first(), log.end()), (2, 3));
        assert_eq!(pop(&mut log), Some(("ccc".into(), 5)));
        assert_eq!(pop(&mut log), None);
        push(&mut log, "d");
        assert_eq!(range(&log, 0, 9), ["d"]);
    }

    #[test]
    fn strings_are_found_by_their_place_in_whichever_block() {
        let mut log = Log::default();
        let text = |number: usize| format!("{number}{}", "x".repeat(1000));
        for number in 0..500 {
            push(&mut log, &text(number));
        }
        assert_eq!(push(&mut log, &"y".repeat(3 * BLOCK_BYTES)), usize::from(Length::MAX) + size_of::<Length>());
        push(&mut log, "z");
        assert!(log.blocks.len() > 5);
        let removed = 100;
        for number in 0..removed {
            assert_eq!(pop(&mut log).map(|(popped, _)| popped), Some(text(number)));
        }
        for from in removed..500 {
            assert_eq!(range(&log, from as u64, from as u64 + 1), [text(from)]);
        }
        assert_eq!(range(&log, 0, 102), [text(100), text(101)]);
        assert_eq!(range(&log, 499, 600).last().map(String::as_str), Some("z"));
        assert!(range(&log, 502, 600).is_empty() && range(&log, 300, 300).is_empty());
    }

    #[test]
    fn strings_refer_to_the_base_of_their_block() {
        let mut log = Log::default();
        let mut bases = Vec::new();
        for number in 0..3000 {
            log.push(
                100,
                || number,
                |base, bytes| {
                    bases.push(base);
                    bytes.extend_from_slice(&[0; 100]);
                },
            );
        }
        assert_eq!(log.range(0, 3000).map(|(base, _)| base).collect::<Vec<_>>(), bases);
        assert_eq!(log.blocks.iter().map(|block| block.base).collect::<Vec<_>>(), [0, 642, 1284, 1926, 2568]);
        log.pop(|_| {});
        assert_eq!(log.range(1, 2).map(|(base, _)| base).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn blocks_whose_strings_were_removed_are_freed() {
        let mut log = Log::default();
        let text = "x".repeat(1000);
        for _ in 0..10_000 {
            push(&mut log, &text);
            if log.end() - log.first() > 100 {
                log.pop(|_| {});
            }
        }
        assert!(log.blocks.len() <= 3, "{} blocks", log.blocks.len());
    }
}
