//! The functions of `libamdhip64.so` that the driver calls (hip_runtime_api.h of HIP 6 and 7).

#![allow(non_snake_case, clippy::missing_safety_doc)] // names and contracts are the header's

use crate::device::{Function, Job, State};
use std::{
    ffi::{CStr, c_char, c_void},
    sync::Mutex,
    time::Instant,
};

/// `hipError_t`.
mod error {
    pub(super) const INVALID_VALUE: i32 = 1;
    pub(super) const OUT_OF_MEMORY: i32 = 2;
    pub(super) const INVALID_DEVICE: i32 = 101;
    pub(super) const INVALID_IMAGE: i32 = 200;
    pub(super) const NO_BINARY: i32 = 209;
    pub(super) const INVALID_HANDLE: i32 = 400;
    pub(super) const NOT_FOUND: i32 = 500;
    pub(super) const NOT_READY: i32 = 600;
    pub(super) const ILLEGAL_ADDRESS: i32 = 700;
}

/// What handles stand for; a handle is a place in one of these lists, and one more.
#[derive(Default)]
struct Tables {
    streams: usize,
    /// What is being captured.
    capture: Option<Vec<Job>>,
    events: Vec<Option<Instant>>,
    functions: Vec<Function>,
    graphs: Vec<Option<Vec<Job>>>,
    instances: Vec<Option<Vec<Job>>>,
}

static TABLES: Mutex<Tables> =
    Mutex::new(Tables { streams: 0, capture: None, events: vec![], functions: vec![], graphs: vec![], instances: vec![] });

/// Runs a call, unless it is to fail.
fn call(name: &'static str, body: impl FnOnce(&mut State, &mut Tables) -> Result<(), i32>) -> i32 {
    let mut state = State::lock();
    if let Some(code) = state.fault(name) {
        return code;
    }
    let mut tables = TABLES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    body(&mut state, &mut tables).err().unwrap_or(0)
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),*) |$state:pat_param, $tables:pat_param| $body:block)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
                call(stringify!($name), |$state, $tables| $body)
            }
        )*
    };
}

/// The place of a handle.
fn place(handle: usize, length: usize) -> Result<usize, i32> {
    handle.checked_sub(1).filter(|at| *at < length).ok_or(error::INVALID_HANDLE)
}

/// Writes what a call gives.
///
/// # Safety
/// `to` is the caller's place for it.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), i32> {
    if to.is_null() {
        return Err(error::INVALID_VALUE);
    }
    // SAFETY: the caller's place.
    unsafe { to.write(value) };
    Ok(())
}

/// Bytes of an ELF file that lies in memory.
///
/// # Safety
/// `image` points to such a file.
unsafe fn elf_bytes(image: *const u8) -> Result<usize, i32> {
    // SAFETY: a header has 64 bytes.
    let header = unsafe { std::slice::from_raw_parts(image, 64) };
    if !header.starts_with(b"\x7fELF") {
        return Err(error::INVALID_IMAGE);
    }
    let word = |at: usize, bytes: usize| header[at..at + bytes].iter().rev().fold(0usize, |n, b| n << 8 | usize::from(*b));
    // Sections come last: e_shoff, e_shentsize, e_shnum.
    Ok(word(0x28, 8) + word(0x3a, 2) * word(0x3c, 2))
}

functions! {
    hipInit(_flags: u32) |_, _| { Ok(()) }

    hipRuntimeGetVersion(version: *mut i32) |state, _| {
        let [major, minor, patch] = state.settings.version;
        // SAFETY: the caller's place.
        unsafe { give(version, major * 10_000_000 + minor * 100_000 + patch) }
    }

    hipGetDeviceCount(count: *mut i32) |state, _| {
        // SAFETY: the caller's place.
        unsafe { give(count, state.settings.devices) }
    }

    hipGetDevicePropertiesR0600(properties: *mut u8, device: i32) |state, _| {
        if device < 0 || device >= state.settings.devices {
            return Err(error::INVALID_DEVICE);
        }
        let put = |at: usize, bytes: &[u8]| {
            // SAFETY: the caller's struct has 1472 bytes.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), properties.add(at), bytes.len()) }
        };
        put(0, b"gfx1151 behind a stand-in\0");
        put(288, &state.settings.memory.to_le_bytes());
        put(396, &1i32.to_le_bytes());
        put(1160, format!("{}:sramecc-:xnack-\0", state.settings.architecture).as_bytes());
        Ok(())
    }

    hipSetDevice(device: i32) |state, _| {
        if (0..state.settings.devices).contains(&device) { Ok(()) } else { Err(error::INVALID_DEVICE) }
    }

    hipMemGetInfo(free: *mut usize, total: *mut usize) |state, _| {
        // SAFETY: the caller's places.
        unsafe { give(free, state.device.free_bytes() as usize)?; give(total, state.device.total as usize) }
    }

    hipMalloc(address: *mut usize, bytes: usize) |state, _| {
        let memory = state.device.allocate(bytes).ok_or(error::OUT_OF_MEMORY)?;
        // SAFETY: the caller's place.
        unsafe { give(address, memory as usize) }
    }

    hipFree(address: usize) |state, _| {
        if address == 0 || state.device.free(address as u64) { Ok(()) } else { Err(error::INVALID_VALUE) }
    }

    hipHostMalloc(address: *mut usize, bytes: usize, _flags: u32) |state, _| {
        let memory = state.device.allocate_shared(bytes).ok_or(error::OUT_OF_MEMORY)?;
        // SAFETY: the caller's place.
        unsafe { give(address, memory) }
    }

    hipHostFree(address: usize) |state, _| {
        if address == 0 || state.device.free_shared(address) { Ok(()) } else { Err(error::INVALID_VALUE) }
    }

    hipMemcpyHtoDAsync(to: usize, from: *const u8, bytes: usize, stream: usize) |state, tables| {
        place(stream, tables.streams)?;
        // SAFETY: the caller's bytes.
        let from = unsafe { std::slice::from_raw_parts(from, bytes) };
        if state.device.write(to as u64, from) { Ok(()) } else { Err(error::INVALID_VALUE) }
    }

    hipMemcpyDtoHAsync(to: *mut u8, from: usize, bytes: usize, stream: usize) |state, tables| {
        place(stream, tables.streams)?;
        // SAFETY: the caller's room.
        let to = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        if state.device.read(from as u64, to) { Ok(()) } else { Err(error::INVALID_VALUE) }
    }

    hipMemcpyDtoDAsync(to: usize, from: usize, bytes: usize, stream: usize) |state, tables| {
        place(stream, tables.streams)?;
        let job = Job::Copy { from: state.device.translate(from as u64), to: state.device.translate(to as u64), bytes };
        match &mut tables.capture {
            Some(jobs) => jobs.push(job),
            None => state.device.run(&[job]),
        }
        Ok(())
    }

    hipModuleLoadData(module: *mut usize, image: *const u8) |state, _| {
        // SAFETY: the caller's image, whose headers say how long it is.
        let code = unsafe { std::slice::from_raw_parts(image, elf_bytes(image)?) };
        let at = state.device.load(code).map_err(|_| error::NO_BINARY)?;
        // SAFETY: the caller's place.
        unsafe { give(module, at + 1) }
    }

    hipModuleUnload(module: usize) |state, _| {
        place(module, state.device.modules.len()).map(|_| ())
    }

    hipEventDestroy(event: usize) |_, tables| {
        place(event, tables.events.len()).map(|_| ())
    }

    hipStreamDestroy(stream: usize) |_, tables| {
        place(stream, tables.streams).map(|_| ())
    }

    hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) |state, tables| {
        let module = place(module, state.device.modules.len())?;
        // SAFETY: the caller's text, which ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        state.device.modules[module].object().kernel(&name).map_err(|_| error::NOT_FOUND)?;
        tables.functions.push(Function { module, name });
        // SAFETY: the caller's place.
        unsafe { give(function, tables.functions.len()) }
    }

    hipModuleLaunchKernel(
        function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, lds: u32, stream: usize,
        params: *const *const u8, extra: *mut *mut c_void
    ) |state, tables| {
        place(stream, tables.streams)?;
        let function = tables.functions[place(function, tables.functions.len())?].clone();
        if lds != 0 || !extra.is_null() || params.is_null() {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: the caller gives as many as the kernel takes.
        let args = unsafe { state.device.arguments(&function, params) }.map_err(|_| error::INVALID_VALUE)?;
        let job = Job::Kernel { function, grid: [gx, gy, gz], block: [bx, by, bz], args };
        match &mut tables.capture {
            Some(jobs) => jobs.push(job),
            None => state.device.run(&[job]),
        }
        Ok(())
    }

    hipStreamCreateWithFlags(stream: *mut usize, _flags: u32) |_, tables| {
        tables.streams += 1;
        // SAFETY: the caller's place.
        unsafe { give(stream, tables.streams) }
    }

    hipEventCreateWithFlags(event: *mut usize, _flags: u32) |_, tables| {
        tables.events.push(None);
        // SAFETY: the caller's place.
        unsafe { give(event, tables.events.len()) }
    }

    hipEventRecord(event: usize, stream: usize) |_, tables| {
        place(stream, tables.streams)?;
        let at = place(event, tables.events.len())?;
        tables.events[at] = Some(Instant::now());
        Ok(())
    }

    hipEventQuery(event: usize) |state, tables| {
        place(event, tables.events.len())?;
        match &state.device.lost {
            Some(why) => {
                eprintln!("stand-in: {why}");
                Err(error::ILLEGAL_ADDRESS)
            }
            None => Ok(()),
        }
    }

    hipEventElapsedTime(milliseconds: *mut f32, from: usize, to: usize) |_, tables| {
        let at = |event| Ok::<_, i32>(tables.events[place(event, tables.events.len())?]);
        let (Some(from), Some(to)) = (at(from)?, at(to)?) else { return Err(error::NOT_READY) };
        // SAFETY: the caller's place.
        unsafe { give(milliseconds, to.duration_since(from).as_secs_f32() * 1e3) }
    }

    hipStreamBeginCapture(stream: usize, _mode: i32) |_, tables| {
        place(stream, tables.streams)?;
        tables.capture = Some(vec![]);
        Ok(())
    }

    hipStreamEndCapture(stream: usize, graph: *mut usize) |_, tables| {
        place(stream, tables.streams)?;
        let jobs = tables.capture.take().ok_or(error::INVALID_VALUE)?;
        tables.graphs.push(Some(jobs));
        // SAFETY: the caller's place.
        unsafe { give(graph, tables.graphs.len()) }
    }

    hipGraphInstantiateWithFlags(instance: *mut usize, graph: usize, _flags: u64) |_, tables| {
        let at = place(graph, tables.graphs.len())?;
        let jobs = tables.graphs[at].clone().ok_or(error::INVALID_HANDLE)?;
        tables.instances.push(Some(jobs));
        // SAFETY: the caller's place.
        unsafe { give(instance, tables.instances.len()) }
    }

    hipGraphLaunch(instance: usize, stream: usize) |state, tables| {
        place(stream, tables.streams)?;
        let at = place(instance, tables.instances.len())?;
        let jobs = tables.instances[at].as_deref().ok_or(error::INVALID_HANDLE)?;
        state.device.run(jobs);
        Ok(())
    }

    hipGraphDestroy(graph: usize) |_, tables| {
        let at = place(graph, tables.graphs.len())?;
        tables.graphs[at].take().map(|_| ()).ok_or(error::INVALID_HANDLE)
    }

    hipGraphExecDestroy(instance: usize) |_, tables| {
        let at = place(instance, tables.instances.len())?;
        tables.instances[at].take().map(|_| ()).ok_or(error::INVALID_HANDLE)
    }
}

/// `hipGetErrorString`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hipGetErrorString(code: i32) -> *const c_char {
    let text = match code {
        0 => c"no error",
        error::INVALID_VALUE => c"invalid argument",
        error::OUT_OF_MEMORY => c"out of memory",
        error::NO_BINARY => c"no kernel image is available for execution on the device",
        error::NOT_FOUND => c"named symbol not found",
        error::ILLEGAL_ADDRESS => c"an illegal memory access was encountered",
        719 => c"unspecified launch failure",
        _ => c"unknown error",
    };
    text.as_ptr()
}
