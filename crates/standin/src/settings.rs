//! What a copy of the library is to be: read from the file beside it.

use serde::{Deserialize, Serialize};
use std::{
    ffi::{CStr, OsStr},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// What a copy of the library is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The version that it tells: major, minor, patch.
    pub version: [i32; 3],
    /// Devices that it has.
    pub devices: i32,
    /// What they are.
    pub architecture: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Threads of the emulator.
    pub threads: usize,
    /// Whether it is HRX 0.3: code objects by format, constants counted in words.
    pub formats: bool,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Functions that it is not to have.
    pub without: Vec<String>,
    /// Where it writes its [`Counts`], if anywhere.
    pub counts: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: [7, 2, 0],
            devices: 1,
            architecture: "gfx1151".into(),
            memory: 8 << 30,
            threads: 1,
            formats: false,
            faults: vec![],
            without: vec![],
            counts: None,
        }
    }
}

/// A call that fails.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The function: `hipMalloc`.
    pub call: String,
    /// Calls of it that succeed before.
    pub after: u64,
    /// Calls that then fail.
    pub times: u64,
    /// What they answer: `hipError_t`, or `hrx_status_code_t`.
    pub code: i32,
}

/// What has been taken and moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Most bytes of device memory at once.
    pub most_device: u64,
    /// Most bytes of memory that host and device share at once.
    pub most_shared: u64,
    /// Bytes copied to the device.
    pub copied_in: u64,
    /// Bytes copied from it.
    pub copied_out: u64,
    /// Kernels that ran.
    pub dispatches: u64,
    /// Submissions: graphs, flushes, or kernels and copies one by one.
    pub submissions: u64,
}

fn beside(library: &Path) -> PathBuf {
    let mut name = library.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// Puts a copy of `library` with these settings to `to`.
///
/// # Errors
/// If files cannot be read or written.
pub fn install(library: &Path, to: &Path, settings: &Settings) -> io::Result<()> {
    let mut bytes = fs::read(library)?;
    for name in &settings.without {
        // A name in the table of symbols ends with a zero and begins after one. Lookups go by a hash of the name, and then fail.
        let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
        let found: Vec<usize> = (0..bytes.len() - wanted.len()).filter(|at| bytes[*at..].starts_with(&wanted)).collect();
        for at in &found {
            bytes[at + 1] = b'_';
        }
        if found.is_empty() {
            return Err(io::Error::other(format!("{} has no function {name}", library.display())));
        }
    }
    fs::write(to, bytes)?;
    fs::write(beside(to), serde_json::to_vec_pretty(settings)?)
}

/// The settings beside this copy of the library.
pub(crate) fn own() -> Settings {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: an address of this library, and a place for what is told.
    let found = unsafe { libc::dladdr(own as *const libc::c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return Settings::default();
    }
    // SAFETY: the loader's name of this library, which ends with a zero.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = beside(Path::new(OsStr::from_bytes(path.to_bytes())));
    let Ok(text) = fs::read_to_string(&path) else { return Settings::default() };
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
