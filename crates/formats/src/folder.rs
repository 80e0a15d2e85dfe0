//! A model's folder: which of its files may be read, and what a folder without weights is told.

use crate::{Error, Result, json, mapping::open_regular};
use serde_json::{Map, Value};
use std::{
    fs,
    io::{ErrorKind, Read},
    path::{Component, Path, PathBuf},
};

/// The most that a text file beside the weights may hold. The largest `tokenizer.json` known has 35 MB.
const TEXT_LIMIT: u64 = 256 << 20;
/// Names looked at in one folder.
const NAME_LIMIT: usize = 100_000;

/// A folder whose files may not lie elsewhere.
///
/// A link to another folder is refused: a downloaded folder could otherwise have us read, and show, any file of the user's.
/// The one exception is the Hub's cache, and 1bit's own, where `snapshots/REVISION/NAME` links to `blobs/HASH`.
pub(crate) struct Folder {
    path: PathBuf,
    real: PathBuf,
}

impl Folder {
    /// Opens the folder at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self { path: path.to_path_buf(), real: path.canonicalize().map_err(Error::io(path))? })
    }
    /// The folder that holds the file `path`.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        Self::open(path.parent().unwrap_or(Path::new("")))
    }
    /// The folder `name` in it, `None` where there is none. `name` must be a plain name, and no link.
    pub(crate) fn folder(&self, name: &str) -> Result<Option<Self>> {
        let path = self.path.join(self.own(name)?);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(&path)(e)),
            Ok(meta) if meta.is_dir() => Self::open(&path).map(Some),
            Ok(_) => Err(Error::invalid(&path, "should be a folder")),
        }
    }
    /// A name without folders.
    fn own<'a>(&self, name: &'a str) -> Result<&'a str> {
        if plain(name) {
            return Ok(name);
        }
        let name = crate::bytes::quote(name.as_bytes());
        Err(Error::invalid(&self.path, format!("file name {name} must be a plain name, without folders")))
    }
    /// The path as given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
    /// The path of the file `name`, `None` where there is none. `name` must be a plain name and its links must stay (see [`Folder`]).
    pub(crate) fn file(&self, name: &str) -> Result<Option<PathBuf>> {
        let path = self.path.join(self.own(name)?);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(&path)(e)),
            Ok(meta) if !meta.is_symlink() => return Ok(Some(path)),
            Ok(_) => {}
        }
        let target = path.canonicalize().map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::invalid(&path, "is a link to a file that does not exist; download it again"),
            _ => Error::io(&path)(e),
        })?;
        let allowed = target.parent() == Some(&self.real) || self.is_blob(&target);
        if !allowed {
            let text = "is a link that leaves its folder, which only the Hub's cache may have; put the file itself here";
            return Err(Error::invalid(&path, text));
        }
        Ok(Some(path))
    }
    /// Whether this is a snapshot of a cache laid out as the Hub's, and `target` a blob: any of the same repository, or one
    /// of another repository that its hash names, which nobody can guess without having the bytes.
    fn is_blob(&self, target: &Path) -> bool {
        let Some(repository) = self.real.ancestors().find(|a| a.ends_with("snapshots")).and_then(Path::parent) else { return false };
        let Some(folder) = target.parent().filter(|f| f.ends_with("blobs")) else { return false };
        let name = target.file_name().unwrap_or_default().as_encoded_bytes();
        let hash = matches!(name.len(), 40 | 64) && name.iter().all(u8::is_ascii_hexdigit);
        hash || folder.parent() == Some(repository)
    }
    /// The names of its entries that are UTF-8, in order.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for (n, entry) in fs::read_dir(&self.path).map_err(Error::io(&self.path))?.enumerate() {
            if n == NAME_LIMIT {
                return Err(Error::invalid(&self.path, format!("has more than {NAME_LIMIT} entries; name the file")));
            }
            names.extend(entry.map_err(Error::io(&self.path))?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }
    /// The bytes of the file `name`, which is not large; `None` where there is none.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(path) = self.file(name)? else { return Ok(None) };
        let file = open_regular(&path)?;
        let size = file.metadata().map_err(Error::io(&path))?.len();
        if size > TEXT_LIMIT {
            return Err(Error::invalid(&path, format!("has {size} bytes; the limit for text files is {TEXT_LIMIT}")));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        file.take(TEXT_LIMIT).read_to_end(&mut bytes).map_err(Error::io(&path))?;
        Ok(Some(bytes))
    }
    /// The text of the file `name`, `None` where there is none.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let path = self.path.join(name);
        String::from_utf8(bytes).map(Some).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            let what = crate::probe::mistaken(e.as_bytes()).map_or_else(|| format!("is not UTF-8 text (at byte {at})"), str::to_owned);
            Error::invalid(&path, what)
        })
    }
    /// The JSON object in the file `name`; empty where there is none.
    pub(crate) fn object(&self, name: &str) -> Result<Map<String, Value>> {
        match self.text(name)? {
            Some(text) => json::object(&self.path.join(name), &text),
            None => Ok(Map::new()),
        }
    }
}

/// Whether `name` names a file directly in a folder.
pub(crate) fn plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(c)), None) if c == name);
    one && name.len() <= 255 && !name.contains(['\\', '\0'])
}
