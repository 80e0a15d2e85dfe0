//! SentencePiece's precompiled table of replacements: a double array of what is replaced (darts-clone's, whose numbers are
//! places in a text), and that text, in which each replacement ends with a zero byte.

use crate::{Error, Result};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// The longest replacement, in bytes. Unicode's longest has 33.
const REPLACEMENT_LIMIT: usize = 64;
/// Longer clusters of characters are replaced one by one, as in `tokenizers`.
const CLUSTER: usize = 6;

/// The table.
#[derive(Debug)]
pub(crate) struct Charsmap {
    units: Vec<u32>,
    replacements: String,
}

/// A unit of darts-clone's double array: the byte that leads to it, where its children are, whether it has a number.
#[derive(Clone, Copy)]
struct Unit(u32);

impl Unit {
    fn label(self) -> u32 {
        self.0 & (1 << 31 | 0xff)
    }
    fn children(self) -> usize {
        ((self.0 >> 10) << ((self.0 & 1 << 9) >> 6)) as usize
    }
    fn has_value(self) -> bool {
        self.0 >> 8 & 1 == 1
    }
    fn value(self) -> usize {
        (self.0 & 0x7fff_ffff) as usize
    }
}

impl Charsmap {
    /// From the bytes of `precompiled_charsmap`: the size of the double array in bytes, that, the replacements.
    pub(crate) fn new(origin: &str, bytes: &[u8]) -> Result<Self> {
        let wrong = |what: String| Error::invalid(origin, format!("`precompiled_charsmap` {what}"));
        let (size, rest) =
            bytes.split_first_chunk::<4>().ok_or_else(|| wrong(format!("has {} bytes, but starts with a size", bytes.len())))?;
        let size = u32::from_le_bytes(*size) as usize;
        if size > rest.len() || !size.is_multiple_of(4) {
            return Err(wrong(format!("has a table of {size} bytes, but {} bytes follow", rest.len())));
        }
        let (table, text) = rest.split_at(size);
        let (units, _) = table.as_chunks::<4>();
        let units = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let replacements = str::from_utf8(text).map_err(|e| wrong(format!("has replacements that are not UTF-8: {e}")))?.to_owned();
        if let Some(long) = replacements.split('\0').find(|text| text.len() > REPLACEMENT_LIMIT) {
            return Err(wrong(format!("replaces something by {} bytes; at most {REPLACEMENT_LIMIT} are read", long.len())));
        }
        Ok(Self { units, replacements })
    }

    /// By how much text can grow, at most: what becomes longest has three bytes or more.
    pub(crate) fn growth(&self) -> usize {
        self.replacements.split('\0').map(str::len).max().unwrap_or(0).div_ceil(3).max(1)
    }

    /// The strings that `text` starts with, shortest first: their lengths and replacements.
    fn prefixes<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, &'a str)> + 'a {
        let mut at = self.units.first().map_or(0, |&root| Unit(root).children());
        let steps = text.iter().take_while(|&&byte| byte != 0).map_while(move |&byte| {
            at ^= byte as usize;
            let unit = Unit(*self.units.get(at)?);
            if unit.label() != u32::from(byte) {
                return None;
            }
            at ^= unit.children();
            Some(unit.has_value().then_some(at))
        });
        steps.enumerate().filter_map(|(n, value)| {
            let start = Unit(*self.units.get(value?)?).value();
            Some((n + 1, self.replacements.get(start..)?.split('\0').next()?))
        })
    }

    /// What the longest string that `text` starts with is replaced by, and its length.
    #[inline]
    pub(crate) fn longest<'a>(&'a self, text: &'a [u8]) -> Option<(usize, &'a str)> {
        self.prefixes(text).last()
    }

    /// The text with its replacements as `tokenizers` makes them: for a short cluster of characters as a whole, else for each
    /// character, what its shortest start is replaced by. `None` where nothing is.
    pub(crate) fn by_clusters(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut done = 0;
        let mut replace = |range: Range<usize>| {
            let found = self.prefixes(&text.as_bytes()[range.clone()]).next();
            if let Some((_, replacement)) = found {
                out.push_str(&text[done..range.start]);
                out.push_str(replacement);
                done = range.end;
            }
            found.is_some()
        };
        let mut changed = false;
        for (start, cluster) in text.grapheme_indices(true) {
            if cluster.len() < CLUSTER && replace(start..start + cluster.len()) {
                changed = true;
                continue;
            }
            for (at, c) in cluster.char_indices() {
                changed |= replace(start + at..start + at + c.len_utf8());
            }
        }
        changed.then(|| out + &text[done..])
    }
}
