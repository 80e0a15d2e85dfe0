//! Where downloads live, laid out as the Hub's own cache is:
//!
//! ```text
//! $XDG_CACHE_HOME/1bit/models/<model>/
//!   blobs/<sha256>                   the bytes; `.part` while they are coming, `.lock` while somebody fetches them
//!   snapshots/<variant>/<file>       a link to ../../blobs/<sha256>
//! ```
//!
//! A blob gets its name only when its sha256 was computed and is right, by an atomic rename; so what is there is whole,
//! whenever and however a process was ended.

use crate::{Entry, Error, FileEntry, Observer, Result, Settings, Variant, download};
use serde::Serialize;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Bytes that a source has to give for each time after which it counts as standing still.
const TRICKLE: u64 = 1024;

/// The folder of downloaded models.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    recheck: bool,
}

/// A model in the cache.
#[derive(Clone, Debug, Serialize)]
pub struct Cached {
    /// The name to type.
    pub name: String,
    /// The variant or commit.
    pub variant: String,
    /// What to open.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
}

/// A file that is wanted: what is known of it before it is there.
pub(crate) struct Wanted<'a> {
    /// Name in the snapshot; may have folders in it.
    pub name: &'a str,
    /// Bytes.
    pub size: u64,
    /// sha256, where the source tells it.
    pub sha256: Option<&'a str>,
}

impl Cache {
    /// The person's cache: `$XDG_CACHE_HOME/1bit/models`.
    pub fn from_env() -> Result<Self> {
        use etcetera::BaseStrategy;
        let base = etcetera::choose_base_strategy()
            .map_err(|_| Error::Fetch("there is no home folder to keep models in: set XDG_CACHE_HOME".into()))?;
        Ok(Self::at(base.cache_dir().join("1bit").join("models")))
    }

    /// A cache in this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), recheck: false }
    }

    /// The same cache, trusting nothing: what is there is hashed when it is asked for, and fetched anew where it is damaged.
    #[must_use]
    pub fn rechecking(self) -> Self {
        Self { recheck: true, ..self }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of one model.
    pub(crate) fn model(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// A registry entry's variant: the path of its first file, fetched where it is not there yet.
    pub fn pull_variant(&self, entry: &Entry, variant: &Variant, settings: &Settings, observer: &dyn Observer) -> Result<PathBuf> {
        let mut first = None;
        for file in &variant.files {
            let wanted = Wanted { name: &file.name, size: file.size, sha256: Some(&file.sha256) };
            let path = self.obtain(&entry.name, &variant.name, &wanted, observer, &mut |part, found| {
                if let Some(there) = elsewhere(file, settings).filter(|there| self.sound(there, observer)) {
                    observer.note(&format!("{} is in {} already", file.name, there.display()));
                    return Ok(Some(there));
                }
                download::from_sources(file, part, settings, found)?;
                Ok(None)
            })?;
            first.get_or_insert(path);
        }
        first.ok_or_else(|| Error::Unknown { name: entry.name.clone(), known: String::new() })
    }

    /// A file of a snapshot. Where it is missing, `fetch` appends to the part file (or names a file elsewhere that holds the
    /// bytes), and the result is checked before it becomes visible.
    pub(crate) fn obtain(
        &self,
        id: &str,
        snapshot: &str,
        wanted: &Wanted<'_>,
        observer: &dyn Observer,
        fetch: &mut dyn FnMut(&mut Part, &dyn Observer) -> Result<Option<PathBuf>>,
    ) -> Result<PathBuf> {
        let model = self.model(id);
        let link = model.join("snapshots").join(snapshot).join(wanted.name);
        if fs::metadata(&link).is_ok_and(|m| m.len() == wanted.size) && self.sound(&link, observer) {
            return Ok(link);
        }
        let blobs = model.join("blobs");
        fs::create_dir_all(&blobs).map_err(Error::io(&blobs))?;
        let key = wanted.sha256.map_or_else(|| wanted.name.replace(['/', '\\'], "--"), str::to_string);
        let lock_path = blobs.join(format!("{key}.lock"));
        let lock = File::create(&lock_path).map_err(Error::io(&lock_path))?;
        if matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            observer.note(&format!("{} is being fetched by another process: waiting for it", wanted.name));
        }
        lock.lock().map_err(Error::io(&lock_path))?;
        let there = |b: &PathBuf| fs::metadata(b).is_ok_and(|m| m.len() == wanted.size) && self.sound(b, observer);
        let blob = wanted.sha256.map(|sha| blobs.join(sha)).filter(there);
        let target = match blob {
            Some(blob) => blob,
            None => {
                let mut part = Part::open(blobs.join(format!("{key}.part")), wanted)?;
                part.check_room(&self.root)?;
                observer.begin(wanted.name, wanted.size, part.len);
                match fetch(&mut part, observer)? {
                    Some(elsewhere) => {
                        let _ = fs::remove_file(&part.path);
                        elsewhere
                    }
                    None => {
                        let blob = part.finish(wanted, &blobs)?;
                        observer.end();
                        blob
                    }
                }
            }
        };
        make_link(&target, &link, &model)?;
        let _ = fs::remove_file(&lock_path);
        Ok(link)
    }

    /// Whether the blob that `path` is, or links to, still has the sha256 that it is named by; always so unless the cache is
    /// [`Self::rechecking`]. A damaged blob of this cache is removed.
    fn sound(&self, path: &Path, observer: &dyn Observer) -> bool {
        let Some(blob) = path.canonicalize().ok().filter(|_| self.recheck) else { return true };
        let name = file_name(&blob);
        // The Hub's own cache names small files by other hashes.
        if name.len() != 64 || download::sha256(&blob).is_ok_and(|sha| sha == name) {
            return true;
        }
        observer.note(&format!("{} is damaged", path.display()));
        if self.root.canonicalize().is_ok_and(|root| blob.starts_with(root)) {
            // Where it cannot be removed, what is fetched replaces it.
            let _ = fs::remove_file(&blob);
        }
        false
    }

    /// Everything in the cache.
    pub fn list(&self) -> Result<Vec<Cached>> {
        let mut out = vec![];
        for model in folders(&self.root)? {
            let name = file_name(&model);
            for snapshot in folders(&model.join("snapshots"))? {
                let files = files_below(&snapshot)?;
                let bytes = files.iter().filter_map(|f| fs::metadata(f).ok()).map(|m| m.len()).sum();
                let ggufs: Vec<_> = files.iter().filter(|f| f.extension().is_some_and(|e| e == "gguf")).collect();
                let path = ggufs.first().map_or(snapshot.clone(), |f| (*f).clone());
                let name = name.strip_prefix("hf--").map_or(name.clone(), |n| format!("hf:{}", n.replacen("--", "/", 1)));
                out.push(Cached { name, variant: file_name(&snapshot), path, bytes });
            }
        }
        out.sort_by(|a, b| (&a.name, &a.variant).cmp(&(&b.name, &b.variant)));
        Ok(out)
    }

    /// Removes a model, all its variants and what is left of broken downloads; gives the bytes freed, `None` when it is not there.
    pub fn remove(&self, name: &str) -> Result<Option<u64>> {
        let id = name.strip_prefix("hf:").map_or(name.to_string(), hub_id);
        let id = crate::find(name)?.map_or(id, |(entry, _)| entry.name);
        if id.is_empty() || id.contains(['/', '\\']) || id.starts_with('.') {
            return Err(Error::Reference {
                reference: name.into(),
                what: "that is no name of a model in the cache; see `1bit list`".into(),
            });
        }
        let model = self.model(&id);
        if !model.exists() {
            return Ok(None);
        }
        let bytes = files_below(&model.join("blobs"))?.iter().filter_map(|f| fs::metadata(f).ok()).map(|m| m.len()).sum();
        fs::remove_dir_all(&model).map_err(Error::io(&model))?;
        Ok(Some(bytes))
    }
}

/// The cache's name for a Hub repository.
pub(crate) fn hub_id(repo: &str) -> String {
    format!("hf--{}", repo.replace('/', "--"))
}

/// A file of the Hub's own cache with these bytes: its blobs are named by sha256.
fn elsewhere(file: &FileEntry, settings: &Settings) -> Option<PathBuf> {
    let hub = settings.hub_cache.as_ref()?;
    file.sources.iter().find_map(|s| {
        let crate::Source::HuggingFace(h) = s else { return None };
        let blob = hub.join(format!("models--{}", h.repo.replace('/', "--"))).join("blobs").join(&file.sha256);
        fs::metadata(&blob).is_ok_and(|m| m.len() == file.size).then_some(blob)
    })
}

/// Makes `link` point at `target`: relatively where both lie in the model's folder, so that the cache can be moved.
fn make_link(target: &Path, link: &Path, model: &Path) -> Result<()> {
    let folder = link.parent().unwrap_or(model);
    fs::create_dir_all(folder).map_err(Error::io(folder))?;
    let to = match target.strip_prefix(model) {
        Ok(inside) => {
            let up = folder.strip_prefix(model).map_or(0, |f| f.components().count());
            std::iter::repeat_n("..", up).collect::<PathBuf>().join(inside)
        }
        Err(_) => target.to_path_buf(),
    };
    let fresh = link.with_file_name(format!(".{}.{}", file_name(link), std::process::id()));
    std::os::unix::fs::symlink(&to, &fresh).map_err(Error::io(&fresh))?;
    fs::rename(&fresh, link).map_err(Error::io(link))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

fn entries_of(folder: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(all) => Ok(all.filter_map(|e| Some(e.ok()?.path())).collect()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        Err(e) => Err(Error::io(folder)(e)),
    }
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries_of(folder)?.into_iter().filter(|p| p.is_dir()).collect())
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut out = vec![];
    for path in entries_of(folder)? {
        if path.is_dir() { out.extend(files_below(&path)?) } else { out.push(path) }
    }
    out.sort();
    Ok(out)
}

/// A file that is arriving: what came before is kept, and more is appended.
pub(crate) struct Part {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes that are there.
    pub len: u64,
    /// Bytes that it will have.
    pub size: u64,
}

impl Part {
    fn open(path: PathBuf, wanted: &Wanted<'_>) -> Result<Self> {
        let len = match fs::metadata(&path) {
            Ok(m) if m.len() <= wanted.size => m.len(),
            Ok(_) => {
                fs::remove_file(&path).map_err(Error::io(&path))?;
                0
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(e) => return Err(Error::io(&path)(e)),
        };
        Ok(Self { path, len, size: wanted.size })
    }

    /// Starts over.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.len = 0;
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(&self.path)(e)),
            _ => Ok(()),
        }
    }

    /// Appends all that `from` gives, at most what is still missing; tells how many bytes came. A source that gives less than [`TRICKLE`]
    /// bytes within `stall` has failed.
    pub(crate) fn append(&mut self, from: &mut dyn io::Read, stall: Duration, observer: &dyn Observer) -> Result<u64> {
        use io::{Read, Write};
        let mut file = File::options().append(true).create(true).open(&self.path).map_err(Error::io(&self.path))?;
        let mut from = from.take(self.size - self.len);
        let mut buffer = vec![0; 1 << 18];
        let mut came = 0;
        let (mut since, mut came_before) = (Instant::now(), 0);
        let (len, size) = (self.len, self.size);
        let stalled = |came: u64| {
            let seconds = stall.as_secs_f64();
            Error::Fetch(format!("the download stood still for {seconds} seconds after {} of {size} bytes", len + came))
        };
        loop {
            if since.elapsed() >= stall {
                if came - came_before < TRICKLE {
                    return Err(stalled(came));
                }
                (since, came_before) = (Instant::now(), came);
            }
            let n = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if download::is_timeout(&e) => return Err(stalled(came)),
                Err(e) => return Err(Error::Fetch(format!("the connection broke after {} of {} bytes: {e}", self.len, self.size))),
            };
            file.write_all(&buffer[..n]).map_err(|e| match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Error::Full { path: self.path.clone(), needed: self.size - self.len, free: free_bytes(&self.path).unwrap_or(0) }
                }
                _ => Error::io(&self.path)(e),
            })?;
            self.len += n as u64;
            came += n as u64;
            observer.advance(n as i64);
        }
        Ok(came)
    }

    fn check_room(&self, near: &Path) -> Result<()> {
        let needed = self.size - self.len;
        match free_bytes(near) {
            Some(free) if free < needed => Err(Error::Full { path: near.to_path_buf(), needed, free }),
            _ => Ok(()),
        }
    }

    /// Checks size and sha256 and gives the blob its name.
    fn finish(self, wanted: &Wanted<'_>, blobs: &Path) -> Result<PathBuf> {
        let wrong = |what, found: String, expected: String| Error::Mismatch { name: wanted.name.into(), what, found, expected };
        if self.len != wanted.size {
            return Err(wrong("the size", self.len.to_string(), wanted.size.to_string()));
        }
        if wanted.size == 0 {
            File::create(&self.path).map_err(Error::io(&self.path))?;
        }
        let sha = download::sha256(&self.path)?;
        if let Some(expected) = wanted.sha256.filter(|e| *e != sha) {
            fs::remove_file(&self.path).map_err(Error::io(&self.path))?;
            return Err(wrong("the sha256", sha, expected.into()));
        }
        let blob = blobs.join(&sha);
        File::open(&self.path).and_then(|f| f.sync_all()).map_err(Error::io(&self.path))?;
        fs::rename(&self.path, &blob).map_err(Error::io(&blob))?;
        Ok(blob)
    }
}

fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
