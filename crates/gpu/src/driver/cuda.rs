//! The CUDA driver, for development: the same sources as PTX, on hardware that can be had. It is in no release (feature `cuda-dev`).

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
pub const NAME: &str = "cuda";

/// The functions that only this driver has, and those with other arguments than HIP's.
struct Functions {
    init: unsafe extern "C" fn(u32) -> i32,
    version: unsafe extern "C" fn(*mut i32) -> i32,
    device: unsafe extern "C" fn(*mut i32, i32) -> i32,
    name: unsafe extern "C" fn(*mut u8, i32, i32) -> i32,
    total: unsafe extern "C" fn(*mut usize, i32) -> i32,
    attribute: unsafe extern "C" fn(*mut i32, i32, i32) -> i32,
    retain: unsafe extern "C" fn(*mut usize, i32) -> i32,
    set: unsafe extern "C" fn(usize) -> i32,
    text: unsafe extern "C" fn(i32, *mut *const c_char) -> i32,
}

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`.
const CAPABILITY: [i32; 2] = [75, 76];

impl Functions {
    fn of(library: &Library) -> Result<Self, DriverError> {
        let version = "version unknown";
        // SAFETY: the types are those of cuda.h of CUDA 12.
        unsafe {
            Ok(Self {
                init: library.function(NAME, version, "cuInit")?,
                version: library.function(NAME, version, "cuDriverGetVersion")?,
                device: library.function(NAME, version, "cuDeviceGet")?,
                name: library.function(NAME, version, "cuDeviceGetName")?,
                total: library.function(NAME, version, "cuDeviceTotalMem_v2")?,
                attribute: library.function(NAME, version, "cuDeviceGetAttribute")?,
                retain: library.function(NAME, version, "cuDevicePrimaryCtxRetain")?,
                set: library.function(NAME, version, "cuCtxSetCurrent")?,
                text: library.function(NAME, version, "cuGetErrorString")?,
            })
        }
    }
}

fn describe(text: unsafe extern "C" fn(i32, *mut *const c_char) -> i32, code: i32) -> String {
    let mut address = std::ptr::null();
    // SAFETY: a place for the address.
    unsafe { text(code, &raw mut address) };
    if address.is_null() {
        return "no description".into();
    }
    // SAFETY: the library gives text that ends with a zero and stays.
    unsafe { CStr::from_ptr(address) }.to_string_lossy().into_owned()
}

/// A session on the first device, with the PTX that `kernels/build.sh --ptx` has made in `ptx`.
///
/// # Errors
/// [`DriverError::Unavailable`] where there is no library or device.
pub fn session(ptx: PathBuf, environment: Environment<'_>) -> Result<Box<dyn Driver>, DriverError> {
    let search = Search::new(NAME, &["libcuda.so.1"], ("ONEBIT_CUDA_LIBRARY", None), &[], environment);
    let (library, _) = search.open()?;
    let f = Functions::of(&library)?;
    let check = |call: &str, code: i32| {
        let why = format!("{call} of {}: error {code}: {}", library.path().display(), describe(f.text, code));
        if code == 0 { Ok(()) } else { Err(DriverError::Unavailable { driver: NAME, why }) }
    };
    let (mut number, mut device, mut total, mut context) = (0, 0, 0, 0);
    let mut name = vec![0u8; 256];
    let mut capability = [0; 2];
    // SAFETY: places for what is asked for, in the order that cuda.h wants.
    unsafe {
        check("cuInit", (f.init)(0))?;
        check("cuDriverGetVersion", (f.version)(&raw mut number))?;
        check("cuDeviceGet", (f.device)(&raw mut device, 0))?;
        check("cuDeviceGetName", (f.name)(name.as_mut_ptr(), 255, device))?;
        check("cuDeviceTotalMem_v2", (f.total)(&raw mut total, device))?;
        for (value, attribute) in capability.iter_mut().zip(CAPABILITY) {
            check("cuDeviceGetAttribute", (f.attribute)(value, attribute, device))?;
        }
        check("cuDevicePrimaryCtxRetain", (f.retain)(&raw mut context, device))?;
    }
    let version = format!("CUDA {}.{}", number / 1000, number % 1000 / 10);
    let name = String::from_utf8_lossy(name.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
    let architecture = format!("sm_{}{}", capability[0], capability[1]);
    let driver = format!("{version}, {}", library.path().display());
    let (set, text) = (f.set, f.text);
    let code = move |object: &str| {
        let path = ptx.join(format!("{object}.ptx"));
        let mut text = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        text.push(0);
        Ok(text)
    };
    let host = Host {
        // SAFETY: a context that was retained and is never released.
        enter: Box::new(move || unsafe { set(context) }),
        describe: Box::new(move |code| describe(text, code)),
        code: Some(Box::new(code)),
        unified: false,
    };
    let streams = Streams::new(Family::Cuda, &library, &version, host)?;
    Ok(Box::new(Session::new(streams, DeviceInfo { name, architecture, memory: total, driver })))
}
