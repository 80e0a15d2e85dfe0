use crate::{
    Error, Metadata, Result, Tensor,
    folder::{self, Folder},
    gguf, mapping, probe, safetensors, schemes,
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Which naming and storage conventions a checkpoint follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A GGUF file: ggml's tensor names, `metadata` holds the file's key-value pairs.
    Gguf,
    /// A Hugging Face directory: `config.json` in `config`, safetensors.
    HuggingFace,
}

/// An opened model: tensors by name and what the files say about them.
#[derive(Debug)]
pub struct Checkpoint {
    /// The conventions.
    pub source: Source,
    /// The file (the first of a split) or directory.
    pub path: PathBuf,
    /// GGUF key-value pairs; empty for a directory.
    pub metadata: Metadata,
    /// `config.json`; empty for GGUF. Python's `Infinity`, `-Infinity` and `NaN`, which JSON has not, are strings of that name.
    pub config: Map<String, Value>,
    /// `generation_config.json`, where there is one.
    pub generation_config: Map<String, Value>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
}

/// A folder within a model's, with settings and tensors of its own: a module of sentence-transformers.
#[derive(Debug)]
pub struct Module {
    /// The folder.
    pub path: PathBuf,
    /// Its `config.json`; empty where there is none.
    pub config: Map<String, Value>,
    /// Its tensors by name; none where it has no safetensors.
    pub tensors: BTreeMap<String, Tensor>,
}

/// Endings of files beside safetensors that tell of the model.
const TELL: [&str; 5] = ["json", "jinja", "model", "tiktoken", "txt"];

impl Checkpoint {
    /// Opens a GGUF file (any part of a split), a directory with safetensors and `config.json` (or one GGUF model), or one
    /// `.safetensors` file (with the `config.json` of its folder).
    ///
    /// Reads headers only: the tensors' bytes come in when they are read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::open_folder(path);
        }
        let start = start(path)?;
        let has = |end: &str| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(end));
        if gguf::is_gguf(&start) || has("gguf") {
            return gguf::open(path);
        }
        if safetensors::is_safetensors(&start) || has("safetensors") {
            return Self::hugging_face(path, &Folder::of(path)?, safetensors::open_file(path)?);
        }
        if has("json") {
            return Err(Error::invalid(path, "is a JSON file; give the folder that it lies in, or a file with weights"));
        }
        let what = probe::mistaken(&start).unwrap_or("is neither a GGUF nor a safetensors file");
        Err(Error::invalid(path, what))
    }

    fn open_folder(path: &Path) -> Result<Self> {
        let folder = Folder::open(path)?;
        let names = folder.names()?;
        if let Some(opened) = safetensors::open_folder(&folder, &names)? {
            return Self::hugging_face(path, &folder, opened);
        }
        match gguf::sets(&names).as_slice() {
            [] => {}
            [name] => return gguf::open(&folder.file(name)?.unwrap_or_else(|| path.join(name))),
            several => {
                let mut list: Vec<_> = several.iter().take(8).map(|s| s.as_str()).collect();
                if several.len() > list.len() {
                    list.push("...");
                }
                return Err(Error::invalid(path, format!("holds {} GGUF models; name one of {}", several.len(), list.join(", "))));
            }
        }
        const PICKLED: [&str; 5] = [".bin", ".pt", ".pth", ".ckpt", ".pkl"];
        let pickled = names.iter().find(|n| PICKLED.iter().any(|end| n.ends_with(end)));
        let what = match pickled {
            Some(name) => {
                format!("has weights only as pickled Python objects ({name}), which could run code when read; convert to safetensors")
            }
            None => "holds neither model.safetensors nor a .gguf file".into(),
        };
        Err(Error::invalid(path, what))
    }

    /// A checkpoint of the tensors with what else their `folder` says; those of quantized modules are brought together.
    fn hugging_face(path: &Path, folder: &Folder, opened: safetensors::Opened) -> Result<Self> {
        let config = folder.object("config.json")?;
        let tensors = schemes::resolve(path, &config, &opened.texts, opened.tensors)?;
        Ok(Self {
            source: Source::HuggingFace,
            path: path.to_path_buf(),
            metadata: Metadata { path: path.to_path_buf(), ..Metadata::default() },
            config,
            generation_config: folder.object("generation_config.json")?,
            tensors,
        })
    }

    /// A tensor by its name in the file.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.values().map(|t| t.stored_bytes() as u64).sum()
    }

    /// Whether `path` is one of the files that the checkpoint is read from, by whatever name: one with tensors, or one beside
    /// safetensors that tells of the model (`.json`, `.jinja`, and the vocabularies `.model`, `.tiktoken`, `.txt`).
    pub fn is_read_from(&self, path: &Path) -> bool {
        let id = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        let Some(wanted) = id(path) else { return false };
        let mut files: BTreeSet<&Path> = self.tensors.values().flat_map(Tensor::paths).collect();
        files.insert(&self.path);
        if files.into_iter().any(|file| id(file) == Some(wanted)) {
            return true;
        }
        let folder = if self.path.is_dir() { Some(self.path.as_path()) } else { self.path.parent() };
        let beside = folder.filter(|_| self.source == Source::HuggingFace).and_then(|folder| fs::read_dir(folder).ok());
        beside
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .any(|file| file.extension().and_then(|end| end.to_str()).is_some_and(|end| TELL.contains(&end)) && id(&file) == Some(wanted))
    }

    /// The text of a file that lies beside the weights (`tokenizer.json`, `chat_template.jinja`, ...): `None` where the
    /// directory has none, or the checkpoint is a GGUF file. `name` is a plain file name; links that leave the folder are refused.
    pub fn sidecar(&self, name: &str) -> Result<Option<String>> {
        if self.source == Source::Gguf && folder::plain(name) {
            return Ok(None);
        }
        self.folder()?.text(name)
    }

    /// As [`Checkpoint::sidecar`], the bytes of a file that may be no text (`tokenizer.model`).
    pub fn sidecar_bytes(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if self.source == Source::Gguf && folder::plain(name) {
            return Ok(None);
        }
        self.folder()?.bytes(name)
    }

    /// The names of the files beside the weights, in order; none beside a GGUF file.
    pub fn sidecar_names(&self) -> Result<Vec<String>> {
        if self.source == Source::Gguf { Ok(Vec::new()) } else { self.folder()?.names() }
    }

    /// The module of the model that the folder `name` beside the weights holds; `None` where there is none. `name` is a plain name, and
    /// links that leave the model's folder are refused.
    pub fn module(&self, name: &str) -> Result<Option<Module>> {
        if self.source == Source::Gguf && folder::plain(name) {
            return Ok(None);
        }
        let Some(folder) = self.folder()?.folder(name)? else { return Ok(None) };
        let opened = safetensors::open_folder(&folder, &folder.names()?)?;
        let tensors = opened.map(|opened| opened.tensors).unwrap_or_default();
        Ok(Some(Module { path: folder.path().to_path_buf(), config: folder.object("config.json")?, tensors }))
    }

    fn folder(&self) -> Result<Folder> {
        if self.path.is_dir() { Folder::open(&self.path) } else { Folder::of(&self.path) }
    }
}

/// The first bytes of the file `path`, enough to tell what it is.
fn start(path: &Path) -> Result<Vec<u8>> {
    let mut start = Vec::new();
    mapping::open_regular(path)?.take(512).read_to_end(&mut start).map_err(Error::io(path))?;
    if start.is_empty() {
        return Err(Error::invalid(path, mapping::EMPTY));
    }
    Ok(start)
}
