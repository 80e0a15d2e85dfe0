//! AMD's HIP runtime, `libamdhip64.so` of ROCm 6 and 7: found when it is wanted, and not needed otherwise.

use super::{
    DeviceInfo, Driver, DriverError,
    library::{Environment, Library, Search},
    session::Session,
    streams::{Family, Host, Streams},
};
use std::{
    ffi::{CStr, c_char},
    path::PathBuf,
};

/// The driver's name.
pub const NAME: &str = "hip";
/// The variable that says where the library is.
pub const VARIABLE: &str = "ONEBIT_HIP_LIBRARY";

/// Where the library may be.
#[must_use]
pub fn search(given: Option<PathBuf>, environment: Environment<'_>) -> Search {
    let files = &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"];
    Search::new(NAME, files, (VARIABLE, given), &["lemonade/bin/therock/lib", "lemonade/bin/rocm/lib"], environment)
}

/// Bytes of `hipDeviceProp_tR0600`, and more.
const PROPERTIES: usize = 4096;
/// Where `totalGlobalMem`, `integrated` and `gcnArchName` lie in it (hip_runtime_api.h of HIP 6 and 7).
const TOTAL: usize = 288;
const INTEGRATED: usize = 396;
const ARCHITECTURE: usize = 1160;

/// The functions that only HIP has.
struct Functions {
    init: unsafe extern "C" fn(u32) -> i32,
    count: unsafe extern "C" fn(*mut i32) -> i32,
    properties: unsafe extern "C" fn(*mut u8, i32) -> i32,
    set: unsafe extern "C" fn(i32) -> i32,
    text: unsafe extern "C" fn(i32) -> *const c_char,
}

impl Functions {
    fn of(library: &Library, version: &str) -> Result<Self, DriverError> {
        // SAFETY: the types are those of hip_runtime_api.h of HIP 6 and 7.
        unsafe {
            Ok(Self {
                init: library.function(NAME, version, "hipInit")?,
                count: library.function(NAME, version, "hipGetDeviceCount")?,
                properties: library.function(NAME, version, "hipGetDevicePropertiesR0600")?,
                set: library.function(NAME, version, "hipSetDevice")?,
                text: library.function(NAME, version, "hipGetErrorString")?,
            })
        }
    }

    fn check(&self, library: &Library, version: &str, call: &str, code: i32) -> Result<(), DriverError> {
        if code == 0 {
            return Ok(());
        }
        let why = format!("{call} of {} ({version}): error {code}: {}", library.path().display(), describe(self.text, code));
        Err(DriverError::Unavailable { driver: NAME, why })
    }
}

fn describe(text: unsafe extern "C" fn(i32) -> *const c_char, code: i32) -> String {
    // SAFETY: any number is allowed.
    let text = unsafe { text(code) };
    if text.is_null() {
        return "no description".into();
    }
    // SAFETY: the library gives text that ends with a zero and stays.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The library's version: `HIP 7.2.1`.
fn version(library: &Library) -> Result<String, DriverError> {
    let unknown = "version unknown";
    // SAFETY: the type is that of hip_runtime_api.h.
    let get: unsafe extern "C" fn(*mut i32) -> i32 = unsafe { library.function(NAME, unknown, "hipRuntimeGetVersion")? };
    let mut number = 0;
    // SAFETY: a place for the number.
    let code = unsafe { get(&raw mut number) };
    let path = library.path().display();
    let refuse = |why: String| Err(DriverError::Unavailable { driver: NAME, why });
    match (code, number / 10_000_000, number / 100_000 % 100, number % 100_000) {
        (0, major @ 6..=7, minor, patch) => Ok(format!("HIP {major}.{minor}.{patch}")),
        (0, major, minor, _) => refuse(format!("{path} is of HIP {major}.{minor}; 6 and 7 can be used")),
        (code, ..) => refuse(format!("hipRuntimeGetVersion of {path}: error {code}")),
    }
}

/// A device that HIP sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The device.
    pub info: DeviceInfo,
    /// Whether its memory is the host's.
    pub unified: bool,
}

/// An open library, and the devices that it sees.
pub struct Hip {
    library: Library,
    version: String,
    functions: Functions,
    /// In the library's order.
    pub devices: Vec<Seen>,
}

impl Hip {
    /// Opens the library and asks it for devices.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] where there is no library, one of another version or without a function, or no device.
    pub fn open(search: &Search) -> Result<Self, DriverError> {
        let (library, _) = search.open()?;
        let version = version(&library)?;
        let functions = Functions::of(&library, &version)?;
        // SAFETY: as its header says.
        functions.check(&library, &version, "hipInit", unsafe { (functions.init)(0) })?;
        let mut count = 0;
        // SAFETY: a place for the number.
        functions.check(&library, &version, "hipGetDeviceCount", unsafe { (functions.count)(&raw mut count) })?;
        let mut devices = vec![];
        for index in 0..count {
            let mut bytes = vec![0u8; PROPERTIES];
            // SAFETY: more room than the struct takes.
            let code = unsafe { (functions.properties)(bytes.as_mut_ptr(), index) };
            functions.check(&library, &version, "hipGetDevicePropertiesR0600", code)?;
            let text = |at: usize| {
                let field = &bytes[at..at + 256];
                String::from_utf8_lossy(field.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
            };
            let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
            // `gfx1151:sramecc+:xnack-`: what follows are modes.
            let architecture = text(ARCHITECTURE).split(':').next().unwrap_or_default().to_string();
            let info = DeviceInfo {
                name: text(0),
                architecture,
                memory: word(TOTAL) as usize,
                driver: format!("{version}, {}", library.path().display()),
            };
            devices.push(Seen { info, unified: word(INTEGRATED) as u32 != 0 });
        }
        if devices.is_empty() {
            let why = format!("{} ({version}) sees no device", library.path().display());
            return Err(DriverError::Unavailable { driver: NAME, why });
        }
        Ok(Self { library, version, functions, devices })
    }

    /// A session on the first device of this architecture.
    ///
    /// # Errors
    /// If there is none, or it cannot be used.
    pub fn session(self, architecture: &str) -> Result<Box<dyn Driver>, DriverError> {
        let Self { library, version, functions, devices } = self;
        let Some(index) = devices.iter().position(|d| d.info.architecture == architecture) else {
            return Err(no_such(NAME, architecture, devices.iter().map(|d| &d.info)));
        };
        let Seen { info, unified } = devices[index].clone();
        let (set, text) = (functions.set, functions.text);
        let host = Host {
            // SAFETY: a device that was counted.
            enter: Box::new(move || unsafe { set(index as i32) }),
            describe: Box::new(move |code| describe(text, code)),
            code: None,
            unified,
        };
        let streams = Streams::new(Family::Hip, &library, &version, host)?;
        Ok(Box::new(Session::new(streams, info)))
    }
}

/// What is said where devices are of other architectures than the kernels.
pub(super) fn no_such<'a>(driver: &'static str, wanted: &str, devices: impl Iterator<Item = &'a DeviceInfo>) -> DriverError {
    let seen: Vec<String> = devices.map(|d| format!("{} ({})", d.name, d.architecture)).collect();
    let why = format!("the kernels are made for {wanted}, and the devices are {}", seen.join(", "));
    DriverError::Unavailable { driver, why }
}
