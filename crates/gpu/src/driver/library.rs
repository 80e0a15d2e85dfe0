//! Finds a driver's library when it is wanted, and tells where it was looked for.

use super::DriverError;
use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// Where a library may be.
#[derive(Debug, Clone)]
pub struct Search {
    /// The driver whose library it is.
    pub driver: &'static str,
    /// Names of its file, the best first.
    pub files: &'static [&'static str],
    /// Where its owner says that it is: a file, or a folder with one. Nothing else is tried then.
    pub given: Option<PathBuf>,
    /// Folders, in the order in which they are looked through.
    pub folders: Vec<PathBuf>,
}

/// A place where no library could be had, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The file.
    pub path: PathBuf,
    /// Why it was not taken.
    pub why: String,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

/// An environment, to look variables up in.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Search {
    /// The places for a driver's library: `given`, else what the environment's `variable` says, else the folders of `LD_LIBRARY_PATH`,
    /// of ROCm, of the system, of Python's ROCm packages, and those of `bundles`, which stand below the user's data folder.
    #[must_use]
    pub fn new(
        driver: &'static str,
        files: &'static [&'static str],
        (variable, given): (&str, Option<PathBuf>),
        bundles: &[&str],
        environment: Environment<'_>,
    ) -> Self {
        let given = given.or_else(|| environment(variable).filter(|v| !v.is_empty()).map(PathBuf::from));
        let mut folders: Vec<PathBuf> = environment("LD_LIBRARY_PATH")
            .map(|list| std::env::split_paths(&list).filter(|p| p.is_absolute()).collect())
            .unwrap_or_default();
        folders.extend(environment("ROCM_PATH").map(|root| PathBuf::from(root).join("lib")));
        folders.extend(matching(Path::new("/opt"), "rocm", "lib"));
        folders.extend(["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
        folders.extend(environment("VIRTUAL_ENV").map(PathBuf::from).iter().flat_map(|root| packages(&root.join("lib"))));
        if let Some(home) = environment("HOME").map(PathBuf::from) {
            let data = environment("XDG_DATA_HOME").map_or_else(|| home.join(".local/share"), PathBuf::from);
            folders.extend(packages(&home.join(".local/lib")));
            folders.extend(bundles.iter().map(|bundle| data.join(bundle)));
        }
        folders.extend(bundles.iter().map(|bundle| Path::new("/opt").join(bundle)));
        Self { driver, files, given, folders }
    }

    /// The files to try, in order.
    fn candidates(&self) -> Vec<PathBuf> {
        let of = |folder: &Path| self.files.iter().map(|file| folder.join(file)).collect::<Vec<_>>();
        match &self.given {
            Some(path) if path.is_dir() => of(path),
            Some(path) => vec![path.clone()],
            None => self.folders.iter().flat_map(|folder| of(folder)).collect(),
        }
    }

    /// The first library that can be opened, with those before it that could not.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] with all places and what was wrong with each.
    pub fn open(&self) -> Result<(Library, Vec<Tried>), DriverError> {
        let mut tried = vec![];
        for path in self.candidates() {
            if !path.exists() {
                if self.given.is_some() {
                    tried.push(Tried { path, why: "there is no such file".into() });
                }
                continue;
            }
            match Library::open(&path) {
                Ok(library) => return Ok((library, tried)),
                Err(why) => tried.push(Tried { path, why }),
            }
        }
        let mut why = format!("no {} was found", self.files.first().copied().unwrap_or("library"));
        if tried.is_empty() {
            let folders: Vec<_> = self.folders.iter().map(|f| f.display().to_string()).collect();
            why += &format!(" in {}", folders.join(", "));
        } else {
            let tried: Vec<_> = tried.iter().map(ToString::to_string).collect();
            why += &format!(" that can be used: {}", tried.join("; "));
        }
        Err(DriverError::Unavailable { driver: self.driver, why })
    }
}

/// `inner` in the folders of `outer` whose names begin so, those with the highest names first.
fn matching(outer: &Path, begins: &str, inner: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(outer).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.filter(|e| e.file_name().to_string_lossy().starts_with(begins)).map(|e| e.path().join(inner)).collect();
    found.sort();
    found.reverse();
    found
}

/// The folders of ROCm's packages for Python below `lib`: `pythonX/site-packages/_rocm_sdk_core/lib`.
fn packages(lib: &Path) -> Vec<PathBuf> {
    matching(lib, "python", "site-packages/_rocm_sdk_core/lib").into_iter().filter(|p| p.exists()).collect()
}

/// An open library. It stays open until the process ends: device runtimes have threads of their own that outlive what they serve.
pub struct Library {
    path: PathBuf,
    library: std::mem::ManuallyDrop<libloading::Library>,
}

impl Library {
    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: the library's constructors run. It is a device runtime that the user or the system has put where it was found; there
        // is no other way to use it.
        let library = unsafe { libloading::Library::new(path) }.map_err(|e| one_line(&e.to_string()))?;
        Ok(Self { path: path.to_path_buf(), library: std::mem::ManuallyDrop::new(library) })
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has a symbol.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        // SAFETY: the address is not used.
        unsafe { self.library.get::<*const ()>(name.as_bytes()) }.is_ok()
    }

    /// The address of a function.
    ///
    /// # Errors
    /// What is missing: library, version and symbol.
    ///
    /// # Safety
    /// `T` must be the type of a pointer to the function of that name in all versions of the library that have it.
    pub(super) unsafe fn function<T: Copy>(&self, driver: &'static str, version: &str, name: &str) -> Result<T, DriverError> {
        // SAFETY: the caller's promise.
        match unsafe { self.library.get::<T>(name.as_bytes()) } {
            Ok(symbol) => Ok(*symbol),
            Err(_) => {
                let why = format!("{} ({version}) has no function {name}", self.path.display());
                Err(DriverError::Unavailable { driver, why })
            }
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
