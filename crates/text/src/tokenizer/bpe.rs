//! Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909): a word starts as single characters or bytes, and the
//! adjacent pair of the lowest rank, leftmost first, is merged until no pair can be.
//!
//! Short words are merged by looking through all pairs each time and remembered in a cache. Long ones (a vocabulary
//! without word boundaries, or a text of one letter) use a queue of ranks, so that time stays proportional to length.

use super::{
    bytes::{self, ByteTokens},
    cache::Cache,
    joints::Joints,
    strings::{Index, Strings},
};
use crate::{Error, Result};
use hashbrown::HashMap;
use std::{cmp::Reverse, collections::BinaryHeap};

/// No token.
const NONE: u32 = u32::MAX;

/// What a pair becomes, and how early.
#[derive(Clone, Copy, Debug)]
struct Merge {
    rank: u32,
    id: u32,
}

/// What single tokens a word starts as.
#[derive(Debug)]
enum Alphabet {
    /// Its bytes.
    Bytes(Box<[u32; 256]>),
    /// Its characters: tokens for a character by its place in the word ([`place`]).
    Chars(Box<[CharTable; 4]>),
}

/// Tokens of characters; those of the alphabets of bytes and of most letters are found without a hash.
#[derive(Debug)]
struct CharTable {
    low: Box<[u32; LOW]>,
    high: HashMap<char, u32>,
}

/// Characters below this one.
const LOW: usize = 0x800;

impl Default for CharTable {
    fn default() -> Self {
        Self { low: Box::new([NONE; LOW]), high: HashMap::new() }
    }
}

impl CharTable {
    fn insert(&mut self, c: char, id: u32) {
        match self.low.get_mut(c as usize) {
            Some(slot) => *slot = id,
            None => drop(self.high.insert(c, id)),
        }
    }
    #[inline]
    fn get(&self, c: char) -> Option<u32> {
        match self.low.get(c as usize) {
            Some(&id) => (id != NONE).then_some(id),
            None => self.high.get(&c).copied(),
        }
    }
    fn chars(&self) -> impl Iterator<Item = char> {
        let low = ('\0'..).zip(self.low.iter()).filter(|(_, id)| **id != NONE).map(|(c, _)| c);
        low.chain(self.high.keys().copied())
    }
}

/// Which table of [`Alphabet::Chars`] holds: tokens differ where continuations or ends of words are marked.
fn place(first: bool, last: bool) -> usize {
    usize::from(!first) | usize::from(last) << 1
}

/// How a file describes the model. Empty affixes are none.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Words are bytes, written in the alphabet of [`bytes`].
    pub byte_level: bool,
    /// A word that is a token is that token, whatever merges would give.
    pub ignore_merges: bool,
    /// Tokens that a word of their text is, whatever merges would give.
    pub whole: Vec<u32>,
    /// Characters that are no token become tokens `<0xAB>`, where all of theirs exist.
    pub byte_fallback: bool,
    /// What else becomes of them; they vanish where there is none.
    pub unknown: Option<u32>,
    /// Neighbouring unknown characters become one token.
    pub fuse_unknown: bool,
    /// What tokens that continue a word start with.
    pub prefix: String,
    /// What tokens that end a word end with.
    pub suffix: String,
}

/// The model.
#[derive(Debug)]
pub(crate) struct Bpe {
    options: Options,
    alphabet: Alphabet,
    byte_tokens: ByteTokens,
    merges: HashMap<u64, Merge>,
    /// Tokens by the bytes of a whole word, for `ignore_merges`.
    words: Option<(Strings, Index)>,
    /// Characters that are no token, but part of one; the first has the number `tokens`, which no token has.
    parts: Vec<char>,
    tokens: u32,
    /// Where words of characters are cut.
    joints: Option<Joints>,
    /// All unknown neighbours are one, those that are parts of tokens too.
    fuse_all: bool,
}

fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// Collects merges by the texts of their tokens.
pub(crate) struct Merges<'a> {
    texts: &'a Strings,
    index: &'a Index,
    prefix: &'a str,
    map: HashMap<u64, Merge>,
    joined: Vec<u8>,
}

impl<'a> Merges<'a> {
    /// `index` finds the model's tokens in `texts`.
    pub(crate) fn new(texts: &'a Strings, index: &'a Index, prefix: &'a str, n: usize) -> Self {
        Self { texts, index, prefix, map: HashMap::with_capacity(n), joined: Vec::new() }
    }
    /// Adds the next merge. An error says what is wrong with it.
    pub(crate) fn add(&mut self, rank: usize, left: &[u8], right: &[u8]) -> Result<(), String> {
        let name = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let find =
            |text: &[u8]| self.index.get(self.texts, text).ok_or_else(|| format!("merge {rank} names `{}`, which is no token", name(text)));
        let (l, r) = (find(left)?, find(right)?);
        self.joined.clear();
        self.joined.extend_from_slice(left);
        let tail = right
            .get(self.prefix.len()..)
            .ok_or_else(|| format!("merge {rank}: `{}` is shorter than the prefix of continuations", name(right)))?;
        self.joined.extend_from_slice(tail);
        let id = find(&self.joined)?;
        let rank = u32::try_from(rank).map_err(|_| "too many merges".to_owned())?;
        self.map.insert(key(l, r), Merge { rank, id });
        Ok(())
    }
    /// All of them; frees the vocabulary for other uses.
    pub(crate) fn finish(self) -> MergeMap {
        MergeMap(self.map)
    }
    /// Adds the next merge, written as two tokens with a space between them.
    pub(crate) fn add_line(&mut self, rank: usize, line: &[u8]) -> Result<(), String> {
        let mut parts = line.split(|&b| b == b' ');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(left), Some(right), None) if !left.is_empty() && !right.is_empty() => self.add(rank, left, right),
            _ => Err(format!("merge {rank} should be two tokens with a space between them, but is `{}`", String::from_utf8_lossy(line))),
        }
    }
}

/// Merges by their pairs.
pub(crate) struct MergeMap(HashMap<u64, Merge>);

impl Bpe {
    /// `index` finds the model's tokens in `texts`, which are UTF-8.
    pub(crate) fn new(texts: &Strings, index: &Index, merges: MergeMap, options: Options) -> Self {
        let find = |text: &str| index.get(texts, text.as_bytes()).unwrap_or(NONE);
        let byte_tokens = if options.byte_fallback { ByteTokens::find(texts, index) } else { ByteTokens::default() };
        let alphabet = if options.byte_level {
            let mut table = Box::new([NONE; 256]);
            for byte in 0..=255u8 {
                table[byte as usize] = find(bytes::char_of(byte).encode_utf8(&mut [0; 4]));
            }
            Alphabet::Bytes(table)
        } else {
            let mut tables: [CharTable; 4] = Default::default();
            for (id, text) in texts.iter().enumerate() {
                let Ok(text) = str::from_utf8(text) else { continue };
                if index.get(texts, text.as_bytes()) != Some(id as u32) {
                    continue;
                }
                for (first, last) in [(true, false), (false, false), (true, true), (false, true)] {
                    let inner = if first { Some(text) } else { text.strip_prefix(options.prefix.as_str()) };
                    let inner = if last { inner.and_then(|t| t.strip_suffix(options.suffix.as_str())) } else { inner };
                    let mut chars = inner.unwrap_or_default().chars();
                    if let (Some(c), None) = (chars.next(), chars.next()) {
                        tables[place(first, last)].insert(c, id as u32);
                    }
                }
            }
            Alphabet::Chars(Box::new(tables))
        };
        let words = (options.ignore_merges || !options.whole.is_empty()).then(|| {
            let mut words = Strings::default();
            let mut whole = vec![options.ignore_merges; texts.len()];
            options.whole.iter().for_each(|&id| whole[id as usize] = true);
            let mut found = Index::with_capacity(texts.len());
            for (id, text) in texts.iter().enumerate() {
                let own = whole[id] && index.get(texts, text) == Some(id as u32);
                let word = match str::from_utf8(text) {
                    Ok(text) if own && options.byte_level => bytes::decode(text).unwrap_or_default(),
                    Ok(text) if own => text.as_bytes().to_vec(),
                    _ => Vec::new(),
                };
                words.push(&word);
                if !word.is_empty() {
                    found.insert(&words, id as u32);
                }
            }
            (words, found)
        });
        let mut model = Self {
            options,
            alphabet,
            byte_tokens,
            merges: merges.0,
            words,
            parts: Vec::new(),
            tokens: texts.len() as u32,
            joints: None,
            fuse_all: false,
        };
        model.find_joints(texts);
        model
    }

    /// Finds where words can be cut, for vocabularies of characters whose symbols do not depend on their place.
    fn find_joints(&mut self, texts: &Strings) {
        let Alphabet::Chars(tables) = &self.alphabet else { return };
        let plain = self.options.prefix.is_empty() && self.options.suffix.is_empty() && !self.options.ignore_merges;
        let merged = self.merges.values().filter_map(|merge| str::from_utf8(texts.get(merge.id)?).ok());
        self.joints = plain.then(|| Joints::new(tables[place(true, false)].chars(), merged));
    }

    /// SentencePiece's kind: two neighbours merge where together they are a token, the one of the highest score first.
    ///
    /// Characters that are no token, but part of one, get numbers after the last token; those that are left in the end become
    /// bytes. Tokens that are not text (`is_text`) are no one's sum.
    pub(crate) fn from_scores(
        origin: &str,
        texts: &Strings,
        index: &Index,
        scores: &[f32],
        is_text: impl Fn(u32) -> bool,
        options: Options,
    ) -> Result<Self> {
        if let Some(at) = scores.iter().position(|score| score.is_nan()) {
            return Err(Error::invalid(origin, format!("the score of token {at} is not a number")));
        }
        let mut order: Vec<u32> = (0..texts.len() as u32).collect();
        order.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
        let mut model = Self::new(texts, index, MergeMap(HashMap::new()), options);
        let mut no_tables = Default::default();
        let tables = match &mut model.alphabet {
            Alphabet::Chars(tables) => tables,
            Alphabet::Bytes(_) => &mut no_tables,
        };
        let work: usize = texts.iter().map(|text| text.len().saturating_pow(2)).fold(0, usize::saturating_add);
        if work > WORK_LIMIT {
            return Err(Error::invalid(origin, "the tokens are too long: to find how each is put together would take hours"));
        }
        let mut part = |text: &str| {
            let mut chars = text.chars();
            match (index.get(texts, text.as_bytes()).filter(|&id| is_text(id)), chars.next(), chars.next()) {
                (Some(id), ..) => Some(id),
                (None, Some(c), None) => {
                    let id = (texts.len() + model.parts.len()) as u32;
                    for table in tables.iter_mut() {
                        table.insert(c, id);
                    }
                    model.parts.push(c);
                    Some(id)
                }
                _ => None,
            }
        };
        let (mut rank, mut last) = (0, f32::NAN);
        for id in order {
            let score = scores[id as usize];
            if score != last {
                rank += 1;
                last = score;
            }
            let Some(text) = texts.get(id).and_then(|text| str::from_utf8(text).ok()).filter(|_| is_text(id)) else { continue };
            for (at, _) in text.char_indices().skip(1) {
                if let (Some(left), Some(right)) = (part(&text[..at]), part(&text[at..])) {
                    model.merges.insert(key(left, right), Merge { rank, id });
                }
            }
        }
        model.find_joints(texts);
        model.fuse_all = model.options.fuse_unknown;
        Ok(model)
    }

    /// Appends the tokens of one word.
    pub(crate) fn encode(&self, word: &str, cache: &mut Cache, work: &mut Work, out: &mut Vec<u32>) {
        let start = out.len();
        let mut piece = |piece: &str| cache.encode(piece, out, |out| self.encode_piece(piece, work, out));
        match &self.joints {
            Some(joints) if self.whole(word).is_none() => joints.cut(word, piece),
            _ => piece(word),
        }
        if let (true, Some(unknown)) = (self.fuse_all, self.options.unknown) {
            fuse(out, start, unknown);
        }
    }

    /// The token that a word is without any merge.
    fn whole(&self, word: &str) -> Option<u32> {
        let (words, index) = self.words.as_ref()?;
        index.get(words, word.as_bytes())
    }

    fn encode_piece(&self, word: &str, work: &mut Work, out: &mut Vec<u32>) {
        if let Some(id) = self.whole(word) {
            return out.push(id);
        }
        let start = out.len();
        let mut symbols = std::mem::take(&mut work.symbols);
        symbols.clear();
        match &self.alphabet {
            Alphabet::Bytes(table) => self.start_bytes(table, word, &mut symbols),
            Alphabet::Chars(tables) => self.start_chars(tables, word, &mut symbols),
        }
        if symbols.len() <= SHORT {
            self.merge_short(&mut symbols, &mut work.pairs);
            out.extend_from_slice(&symbols);
        } else {
            self.merge_long(&symbols, out);
        }
        if symbols.capacity() <= 1 << 16 {
            work.symbols = symbols;
        }
        if out[start..].iter().any(|&id| id >= self.tokens) {
            let merged = out.split_off(start);
            merged.into_iter().for_each(|id| self.push_bytes(id, out));
        }
    }

    /// Appends a token, or what stands for a character that is part of tokens only.
    fn push_bytes(&self, id: u32, out: &mut Vec<u32>) {
        let Some(&c) = id.checked_sub(self.tokens).and_then(|part| self.parts.get(part as usize)) else { return out.push(id) };
        match self.byte_tokens.of(c.encode_utf8(&mut [0; 4]).as_bytes()) {
            Some(ids) => out.extend(ids),
            None => out.extend(self.options.unknown),
        }
    }

    fn start_bytes(&self, table: &[u32; 256], word: &str, symbols: &mut Vec<u32>) {
        for byte in word.bytes() {
            match (table[byte as usize], self.options.unknown) {
                (NONE, None) => {}
                (NONE, Some(unknown)) if self.options.fuse_unknown && symbols.last() == Some(&unknown) => {}
                (NONE, Some(unknown)) => symbols.push(unknown),
                (id, _) => symbols.push(id),
            }
        }
    }

    fn start_chars(&self, tables: &[CharTable; 4], word: &str, symbols: &mut Vec<u32>) {
        // An unknown character waits for the next known one, past any byte tokens between them, as in the reference.
        let mut waiting = None;
        for (i, c) in word.char_indices() {
            let at = place(i == 0, i + c.len_utf8() == word.len());
            if let Some(id) = tables[at].get(c) {
                symbols.extend(waiting.take());
                symbols.push(id);
                continue;
            }
            let marked = !self.options.prefix.is_empty() && i > 0;
            if let Some(ids) = self.byte_tokens.of(c.encode_utf8(&mut [0; 4]).as_bytes()).filter(|_| !marked) {
                symbols.extend(ids);
            } else if let Some(unknown) = self.options.unknown
                && !(self.options.fuse_unknown && waiting.is_some())
            {
                symbols.extend(waiting.replace(unknown));
            }
        }
        symbols.extend(waiting);
    }

    #[inline]
    fn pair(&self, left: u32, right: u32) -> Option<Merge> {
        self.merges.get(&key(left, right)).copied()
    }

    /// Merges in place, by looking for the lowest rank among all pairs.
    fn merge_short(&self, symbols: &mut Vec<u32>, pairs: &mut Vec<Merge>) {
        const NEVER: Merge = Merge { rank: u32::MAX, id: NONE };
        pairs.clear();
        pairs.extend(symbols.windows(2).map(|w| self.pair(w[0], w[1]).unwrap_or(NEVER)));
        // `min_by_key` gives the first of equals: the leftmost.
        while let Some((at, best)) = pairs.iter().copied().enumerate().min_by_key(|(_, m)| m.rank) {
            if best.id == NONE {
                break;
            }
            symbols[at] = best.id;
            symbols.remove(at + 1);
            pairs.remove(at);
            if at > 0 {
                pairs[at - 1] = self.pair(symbols[at - 1], best.id).unwrap_or(NEVER);
            }
            if at < pairs.len() {
                pairs[at] = self.pair(best.id, symbols[at + 1]).unwrap_or(NEVER);
            }
        }
    }

    /// Merges by a queue of places for each rank; appends what is left.
    fn merge_long(&self, symbols: &[u32], out: &mut Vec<u32>) {
        let n = symbols.len();
        let mut ids = symbols.to_vec();
        // A linked list over the symbols that are left; n is the end. `next` of a merged symbol is not used again.
        let mut next: Vec<u32> = (1..=n as u32).collect();
        let mut previous: Vec<u32> = (0..=n as u32).map(|i| i.wrapping_sub(1)).collect();
        let mut queue = Queue::default();
        for (at, pair) in symbols.windows(2).enumerate() {
            if let Some(merge) = self.pair(pair[0], pair[1]) {
                queue.push(merge.rank, at as u32);
            }
        }
        while let Some((rank, at)) = queue.pop() {
            let after = next[at as usize];
            // The place may have been merged with a neighbour since.
            if ids[at as usize] == NONE || after as usize >= n {
                continue;
            }
            let Some(Merge { id, .. }) = self.pair(ids[at as usize], ids[after as usize]).filter(|merge| merge.rank == rank) else {
                continue;
            };
            ids[at as usize] = id;
            ids[after as usize] = NONE;
            let beyond = next[after as usize];
            next[at as usize] = beyond;
            previous[beyond as usize] = at;
            if (beyond as usize) < n
                && let Some(merge) = self.pair(id, ids[beyond as usize])
            {
                queue.push(merge.rank, at);
            }
            let before = previous[at as usize];
            if before != NONE
                && let Some(merge) = self.pair(ids[before as usize], id)
            {
                queue.push(merge.rank, before);
            }
        }
        out.extend(ids.into_iter().filter(|&id| id != NONE));
    }
}

/// Of neighbouring unknown tokens from `start` on, only the first is left.
fn fuse(out: &mut Vec<u32>, start: usize, unknown: u32) {
    let mut kept = start;
    for at in start..out.len() {
        if out[at] != unknown || kept == start || out[kept - 1] != unknown {
            out[kept] = out[at];
            kept += 1;
        }
    }
    out.truncate(kept);
}

/// The largest sum of the squares of the lengths of tokens with scores. Published vocabularies have less than 2^26.
const WORK_LIMIT: usize = 1 << 33;

/// Words of up to this many symbols are merged without a queue.
const SHORT: usize = 64;

/// Places waiting to be merged: lowest rank first, then leftmost.
///
/// Each rank has its own list. Places nearly always come in order, so that a list is read from front to back; those that
/// do not are kept in a heap beside it. A heap over all places would cost a logarithm for each.
#[derive(Default)]
struct Queue {
    ranks: BinaryHeap<Reverse<u32>>,
    lists: HashMap<u32, Places>,
}

#[derive(Default)]
struct Places {
    in_order: Vec<u32>,
    read: usize,
    late: BinaryHeap<Reverse<u32>>,
}

impl Queue {
    fn push(&mut self, rank: u32, at: u32) {
        let list = self.lists.entry(rank).or_insert_with(|| {
            self.ranks.push(Reverse(rank));
            Places::default()
        });
        if list.in_order.last().is_none_or(|&last| last <= at) {
            list.in_order.push(at);
        } else {
            list.late.push(Reverse(at));
        }
    }
    /// The next rank and place.
    fn pop(&mut self) -> Option<(u32, u32)> {
        loop {
            let &Reverse(rank) = self.ranks.peek()?;
            let Some(list) = self.lists.get_mut(&rank) else {
                self.ranks.pop();
                continue;
            };
            let at = match (list.in_order.get(list.read), list.late.peek()) {
                (Some(&a), Some(&Reverse(b))) if b < a => list.late.pop().map(|Reverse(b)| b),
                (Some(&a), _) => {
                    list.read += 1;
                    Some(a)
                }
                (None, _) => list.late.pop().map(|Reverse(b)| b),
            };
            match at {
                Some(at) => return Some((rank, at)),
                None => {
                    self.ranks.pop();
                    self.lists.remove(&rank);
                }
            }
        }
    }
}

/// Memory that is reused from word to word.
#[derive(Debug, Default)]
pub(crate) struct Work {
    symbols: Vec<u32>,
    pairs: Vec<Merge>,
}
