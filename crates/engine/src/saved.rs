//! The file that holds a sequence's beginning: its tokens, and what the caches hold of them.
//!
//! All numbers are little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `1BITSLOT` |
//! | 4 | version of this layout, 1 |
//! | 32 | identity of the model and of how its caches are laid out, which the caller makes |
//! | 4 | tokens in a page |
//! | 8 | bytes of a page |
//! | 8 | bytes of the fixed states; 0 if the model has none |
//! | 8 | tokens, which fill whole pages |
//! | 4 each | tokens |
//! | | pages, and then the fixed states |
//! | 32 | SHA-256 of all before |

use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"1BITSLOT";
const VERSION: u32 = 1;

/// A sequence's beginning, out of the caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Whole pages of them.
    pub(crate) tokens: Vec<u32>,
    pub(crate) pages: Vec<u8>,
    /// Fixed states after the last token; empty where there are none.
    pub(crate) state: Vec<u8>,
}

/// What a file has to be like to fit an engine ([`Engine::saved_form`](crate::Engine::saved_form)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedForm {
    /// Tokens in a page.
    pub page: usize,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Bytes of the fixed states; 0 if the model has none.
    pub state_bytes: usize,
    /// Most tokens.
    pub tokens: usize,
    /// Ids are below it.
    pub vocabulary: usize,
}

/// Why a file cannot be taken back.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// Reading it failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not what was written, or not for this model.
    #[error("{0}")]
    Wrong(String),
}

impl Saved {
    /// Its tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Writes the file; gives its size.
    pub fn write(&self, identity: &[u8; 32], form: &SavedForm, out: &mut dyn Write) -> io::Result<u64> {
        let mut out = Hashing { inner: out, hash: Sha256::new(), count: 0 };
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(identity)?;
        out.write_all(&(form.page as u32).to_le_bytes())?;
        for n in [form.page_bytes, self.state.len(), self.tokens.len()] {
            out.write_all(&(n as u64).to_le_bytes())?;
        }
        let ids: Vec<u8> = self.tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
        for part in [&ids, &self.pages, &self.state] {
            out.write_all(part)?;
        }
        let hash = out.hash.clone().finalize();
        out.inner.write_all(&hash)?;
        Ok(out.count + hash.len() as u64)
    }

    /// Reads a file of `size` bytes. Nothing is taken into memory before all numbers fit the form and the size.
    pub fn read(identity: &[u8; 32], form: &SavedForm, size: u64, input: &mut dyn Read) -> Result<Self, SavedError> {
        let wrong = |what: String| Err(SavedError::Wrong(what));
        let mut input = Hashing { inner: input, hash: Sha256::new(), count: 0 };
        if &input.array::<8>()? != MAGIC {
            return wrong("it is no saved slot: it does not begin with 1BITSLOT".into());
        }
        let version = u32::from_le_bytes(input.array()?);
        if version != VERSION {
            return wrong(format!("it has version {version} of the layout; {VERSION} is read"));
        }
        if &input.array::<32>()? != identity {
            return wrong(
                "it was saved by another model, or by this one with other settings: of caches, of devices, or of 1bit itself".into(),
            );
        }
        let page = u32::from_le_bytes(input.array()?) as u64;
        let mut number = || Ok::<u64, io::Error>(u64::from_le_bytes(input.array()?));
        let [page_bytes, state_bytes, tokens] = [number()?, number()?, number()?];
        let sizes = [page, page_bytes, state_bytes];
        let wanted = [form.page, form.page_bytes, form.state_bytes].map(|n| n as u64);
        if sizes != wanted {
            return wrong(format!("its pages have {page} tokens and {page_bytes} bytes, its states {state_bytes}; {wanted:?} are wanted"));
        }
        if tokens == 0 || tokens > form.tokens as u64 || !tokens.is_multiple_of(page.max(1)) {
            return wrong(format!(
                "it says that it has {tokens} tokens; whole pages of {page} are wanted, of at most {} tokens",
                form.tokens
            ));
        }
        let (tokens, pages) = (tokens as usize, (tokens / page) as usize);
        let whole = pages.checked_mul(form.page_bytes).and_then(|n| n.checked_add(form.state_bytes + tokens * 4 + 72 + 32));
        if whole.map(|n| n as u64) != Some(size) {
            return wrong(format!("it has {size} bytes, which do not hold the {tokens} tokens that it says it has: it is cut or damaged"));
        }
        let ids = input.bytes(tokens * 4)?;
        let (pages, state) = (input.bytes(pages * form.page_bytes)?, input.bytes(form.state_bytes)?);
        let hash = input.hash.clone().finalize();
        if input.array::<32>()? != hash.as_slice() {
            return wrong("its bytes are not those that were written: it is damaged".into());
        }
        let tokens: Vec<u32> = ids.chunks_exact(4).map(|id| u32::from_le_bytes([id[0], id[1], id[2], id[3]])).collect();
        match tokens.iter().find(|id| **id as usize >= form.vocabulary) {
            Some(id) => wrong(format!("token {id} is not in the vocabulary of {}", form.vocabulary)),
            None => Ok(Self { tokens, pages, state }),
        }
    }
}

/// What passes, hashed and counted.
struct Hashing<T> {
    inner: T,
    hash: Sha256,
    count: u64,
}

impl Hashing<&mut dyn Write> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.count += bytes.len() as u64;
        self.inner.write_all(bytes)
    }
}

impl Hashing<&mut dyn Read> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.hash.update(bytes);
        Ok(bytes)
    }

    fn bytes(&mut self, n: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; n];
        self.inner.read_exact(&mut bytes)?;
        self.hash.update(&bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: SavedForm = SavedForm { page: 2, page_bytes: 3, state_bytes: 1, tokens: 8, vocabulary: 50 };

    fn saved() -> Saved {
        Saved { tokens: vec![1, 2, 3, 49], pages: vec![9, 8, 7, 6, 5, 4], state: vec![77] }
    }

    fn file() -> Vec<u8> {
        let mut file = vec![];
        let size = saved().write(&[5; 32], &FORM, &mut file).unwrap();
        assert_eq!(size, file.len() as u64);
        file
    }

    fn read(file: &[u8], identity: u8, form: SavedForm) -> Result<Saved, String> {
        Saved::read(&[identity; 32], &form, file.len() as u64, &mut &*file).map_err(|e| e.to_string())
    }

    #[test]
    fn what_was_written_is_read() {
        let file = file();
        assert_eq!(read(&file, 5, FORM), Ok(saved()));
        // By hand: the beginning, and all that comes before the hash.
        assert_eq!(file[..12], *b"1BITSLOT\x01\0\0\0");
        assert_eq!(file.len(), 72 + 4 * 4 + 6 + 1 + 32);
        assert_eq!(file[file.len() - 39..file.len() - 32], [9, 8, 7, 6, 5, 4, 77]);
    }

    #[test]
    fn anything_else_is_refused() {
        let file = file();
        assert!(read(&file, 6, FORM).is_err_and(|e| e.contains("another model")));
        assert!(read(&file, 5, SavedForm { tokens: 2, ..FORM }).is_err_and(|e| e.contains("at most 2")));
        assert!(read(&file, 5, SavedForm { page_bytes: 4, ..FORM }).is_err_and(|e| e.contains("3 bytes")));
        assert!(read(&file, 5, SavedForm { vocabulary: 49, ..FORM }).is_err_and(|e| e.contains("token 49")));
        for end in 0..file.len() {
            assert!(read(&file[..end], 5, FORM).is_err(), "cut after {end} bytes");
        }
        assert!(read(&[&file[..], &[0]].concat(), 5, FORM).is_err(), "with a byte more");
        for i in 0..file.len() {
            for bit in 0..8 {
                let mut broken = file.clone();
                broken[i] ^= 1 << bit;
                assert!(read(&broken, 5, FORM).is_err(), "bit {bit} of byte {i}");
            }
        }
        // A count that no memory would hold is not believed.
        let mut huge = file.clone();
        huge[64..72].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        assert!(read(&huge, 5, SavedForm { tokens: usize::MAX, ..FORM }).is_err_and(|e| e.contains("do not hold")));
    }
}
