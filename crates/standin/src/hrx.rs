//! The functions of `libhrx.so` that the driver calls (hrx_runtime.h of ROCm/hrx-system), of both generations.
//!
//! Commands wait until a flush. Those that no barrier separates, and nodes of a graph that do not depend on each other, run backwards.

#![allow(clippy::missing_safety_doc)] // contracts are the header's

use crate::device::{Function, Job, State};
use rdna::Arg;
use std::{
    ffi::{CStr, CString, c_char, c_void},
    sync::Mutex,
    time::Duration,
};

/// `hrx_status_code_t`.
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const DEADLINE_EXCEEDED: i32 = 4;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const ALREADY_EXISTS: i32 = 6;
    pub(super) const OUT_OF_MEMORY: i32 = 8;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const ABORTED: i32 = 10;
}

/// What went wrong.
type Fault = (i32, String);

/// `hrx_status_t`.
type Status = usize;

/// A buffer.
struct Buffer {
    address: u64,
    host: Option<usize>,
    bytes: usize,
}

/// What waits in a stream.
enum Entry {
    Job(Job),
    Barrier,
}

/// A graph's nodes, each with what it comes after.
type Nodes = Vec<(Job, Vec<usize>)>;

#[derive(Default)]
struct Tables {
    initialized: bool,
    buffers: Vec<Option<Buffer>>,
    executables: Vec<usize>,
    streams: usize,
    pending: Vec<Entry>,
    /// Flushes so far.
    value: u64,
    graphs: Vec<Nodes>,
    instances: Vec<Vec<Job>>,
}

static TABLES: Mutex<Tables> = Mutex::new(Tables {
    initialized: false,
    buffers: vec![],
    executables: vec![],
    streams: 0,
    pending: vec![],
    value: 0,
    graphs: vec![],
    instances: vec![],
});

fn status(fault: Fault) -> Status {
    Box::into_raw(Box::new(fault)) as usize
}

fn call(name: &'static str, body: impl FnOnce(&mut State, &mut Tables) -> Result<(), Fault>) -> Status {
    let mut state = State::lock();
    if let Some(code) = state.fault(name) {
        return if code == 0 { 0 } else { status((code, format!("{name} was told to fail"))) };
    }
    let mut tables = TABLES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    body(&mut state, &mut tables).err().map_or(0, status)
}

fn wrong(why: impl Into<String>) -> Fault {
    (code::INVALID_ARGUMENT, why.into())
}

fn place(handle: usize, length: usize, what: &str) -> Result<usize, Fault> {
    handle.checked_sub(1).filter(|at| *at < length).ok_or_else(|| wrong(format!("{handle} is no {what}")))
}

/// Writes what a call gives.
///
/// # Safety
/// `to` is the caller's place for it.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Fault> {
    if to.is_null() {
        return Err(wrong("no place for the result"));
    }
    // SAFETY: the caller's place.
    unsafe { to.write(value) };
    Ok(())
}

/// `hrx_buffer_params_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BufferParams {
    memory_type: u32,
    access: u16,
    usage: u32,
    queue_affinity: u64,
}

/// `hrx_dispatch_config_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DispatchConfig {
    workgroup_count: [u32; 3],
    workgroup_size: [u32; 3],
    subgroup_size: u32,
}

/// `hrx_buffer_ref_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BufferRef {
    buffer: usize,
    offset: usize,
    length: usize,
}

/// `hrx_executable_export_info_t`
#[repr(C)]
pub(crate) struct ExportInfo {
    name: *const c_char,
    flags: u32,
    constants: u32,
    bindings: u32,
    parameters: u32,
    workgroup_size: [u32; 3],
}

/// `hrx_timeline_point_t`
#[repr(C)]
pub(crate) struct TimelinePoint {
    semaphore: usize,
    value: u64,
}

/// `hrx_graph_kernel_node_attrs_t`
#[repr(C)]
pub(crate) struct KernelNode {
    executable: usize,
    ordinal: u32,
    config: DispatchConfig,
    constants: *const u8,
    constants_bytes: usize,
    bindings: *const BufferRef,
    binding_count: usize,
    flags: u32,
}

/// `hrx_graph_memcpy_node_attrs_t`
#[repr(C)]
pub(crate) struct CopyNode {
    to: u64,
    from: u64,
    bytes: usize,
    kind: u32,
}

/// `HRX_MEMORY_TYPE_HOST_VISIBLE`, and the bits of usage that mapping needs.
const HOST_VISIBLE: u32 = 2;
const MAPPED: u32 = 0x0300_0000;

impl Tables {
    fn buffer(&self, handle: usize) -> Result<&Buffer, Fault> {
        let at = place(handle, self.buffers.len(), "buffer")?;
        self.buffers[at].as_ref().ok_or_else(|| wrong("the buffer was given back"))
    }

    fn range(&self, handle: usize, offset: usize, bytes: usize) -> Result<u64, Fault> {
        let buffer = self.buffer(handle)?;
        if offset.checked_add(bytes).is_none_or(|end| end > buffer.bytes) {
            return Err((code::OUT_OF_RANGE, format!("{bytes} bytes at {offset} of a buffer of {}", buffer.bytes)));
        }
        Ok(buffer.address + offset as u64)
    }

    /// A dispatch as a job; its arguments have to be those of the kernel.
    fn dispatch(
        &self,
        state: &State,
        (executable, ordinal): (usize, u32),
        config: &DispatchConfig,
        constants: &[u8],
        bindings: &[BufferRef],
    ) -> Result<Job, Fault> {
        let module = self.executables[place(executable, self.executables.len(), "executable")?];
        let object = state.device.modules[module].object();
        let kernel = object.kernels.get(ordinal as usize).ok_or_else(|| wrong(format!("there is no export {ordinal}")))?;
        let (pointers, words): (Vec<_>, Vec<_>) = kernel.arguments.iter().filter(|a| !a.hidden()).partition(|a| a.kind == "global_buffer");
        let bytes: usize = words.iter().map(|w| w.size as usize).sum();
        if pointers.len() != bindings.len() || bytes != constants.len() {
            let (wanted, given) = ((pointers.len(), bytes), (bindings.len(), constants.len()));
            return Err(wrong(format!("{}: {wanted:?} bindings and bytes of constants are wanted, {given:?} given", kernel.name)));
        }
        if config.workgroup_size.iter().product::<u32>() > kernel.max_workgroup {
            return Err(wrong(format!("{}: workgroups of {:?}", kernel.name, config.workgroup_size)));
        }
        let mut args = vec![];
        for binding in bindings {
            let address = self.range(binding.buffer, binding.offset, binding.length)?;
            args.push(Arg::Pointer(state.device.translate(address)));
        }
        let mut rest = constants;
        for word in words {
            let (now, later) = rest.split_at(word.size as usize);
            args.push(Arg::Bytes(now.to_vec()));
            rest = later;
        }
        let function = Function { module, name: kernel.name.clone() };
        Ok(Job::Kernel { function, grid: config.workgroup_count, block: config.workgroup_size, args })
    }
}

/// Bytes, or none where there is no address.
///
/// # Safety
/// There are so many at the address.
unsafe fn slice<'a, T>(from: *const T, count: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    if from.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(from, count) } }
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),*) |$state:pat_param, $tables:pat_param| $body:block)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) -> Status {
                call(stringify!($name), |$state, $tables| $body)
            }
        )*
    };
}

functions! {
    hrx_gpu_initialize(_flags: u32) |_, tables| {
        if std::mem::replace(&mut tables.initialized, true) {
            return Err((code::ALREADY_EXISTS, "the GPU is initialized already".into()));
        }
        Ok(())
    }

    hrx_gpu_device_count(count: *mut i32) |state, _| {
        // SAFETY: the caller's place.
        unsafe { give(count, state.settings.devices) }
    }

    hrx_gpu_device_get(index: i32, device: *mut usize) |state, _| {
        if !(0..state.settings.devices).contains(&index) {
            return Err((code::OUT_OF_RANGE, format!("device {index}")));
        }
        // SAFETY: the caller's place.
        unsafe { give(device, index as usize + 1) }
    }

    hrx_device_get_property(device: usize, property: i32, value: *mut u8, bytes: usize) |state, _| {
        place(device, state.settings.devices as usize, "device")?;
        let told = match property {
            0 => b"gfx1151 behind a stand-in\0".to_vec(),
            1 => format!("{}\0", state.settings.architecture).into_bytes(),
            2 => state.settings.memory.to_le_bytes().to_vec(),
            other => return Err(wrong(format!("property {other}"))),
        };
        if told.len() > bytes {
            return Err((code::OUT_OF_RANGE, format!("property {property} has {} bytes", told.len())));
        }
        // SAFETY: the caller's room.
        unsafe { std::ptr::copy_nonoverlapping(told.as_ptr(), value, told.len()) };
        Ok(())
    }

    hrx_device_memory_info(_device: usize, free: *mut usize, total: *mut usize) |state, _| {
        // SAFETY: the caller's places.
        unsafe { give(free, state.device.free_bytes() as usize)?; give(total, state.device.total as usize) }
    }

    hrx_allocator_allocate_buffer(_allocator: usize, params: BufferParams, bytes: usize, buffer: *mut usize) |state, tables| {
        if params.usage & 0xc03 != 0xc03 || params.access != 7 {
            return Err(wrong("a buffer that kernels cannot use"));
        }
        let full = || (code::OUT_OF_MEMORY, format!("{bytes} bytes"));
        let made = if params.memory_type & HOST_VISIBLE != 0 {
            let host = state.device.allocate_shared(bytes).ok_or_else(full)?;
            let mapped = params.usage & MAPPED == MAPPED;
            Buffer { address: host as u64, host: mapped.then_some(host), bytes }
        } else {
            Buffer { address: state.device.allocate(bytes).ok_or_else(full)?, host: None, bytes }
        };
        tables.buffers.push(Some(made));
        // SAFETY: the caller's place.
        unsafe { give(buffer, tables.buffers.len()) }
    }

    hrx_buffer_map(buffer: usize, _flags: u16, offset: usize, bytes: usize, address: *mut usize) |_, tables| {
        tables.range(buffer, offset, bytes)?;
        let host = tables.buffer(buffer)?.host.ok_or_else(|| wrong("the buffer cannot be mapped"))?;
        // SAFETY: the caller's place.
        unsafe { give(address, host + offset) }
    }

    hrx_buffer_get_device_ptr(buffer: usize, address: *mut usize) |_, tables| {
        let memory = tables.buffer(buffer)?;
        // SAFETY: the caller's place.
        unsafe { give(address, memory.address as usize) }
    }

    hrx_synchronous_h2d(_device: usize, from: *const u8, to: usize, offset: usize, bytes: usize) |state, tables| {
        let address = tables.range(to, offset, bytes)?;
        // SAFETY: the caller's bytes.
        if state.device.write(address, unsafe { slice(from, bytes) }) { Ok(()) } else { Err(wrong("outside of memory")) }
    }

    hrx_synchronous_d2h(_device: usize, from: usize, offset: usize, to: *mut u8, bytes: usize) |state, tables| {
        let address = tables.range(from, offset, bytes)?;
        // SAFETY: the caller's room.
        let to = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        if state.device.read(address, to) { Ok(()) } else { Err(wrong("outside of memory")) }
    }

    hrx_stream_create(_device: usize, _flags: u32, stream: *mut usize) |_, tables| {
        tables.streams += 1;
        // SAFETY: the caller's place.
        unsafe { give(stream, tables.streams) }
    }

    hrx_stream_flush(stream: usize) |state, tables| {
        place(stream, tables.streams, "stream")?;
        let mut jobs = vec![];
        let mut free = vec![];
        for entry in tables.pending.drain(..).chain([Entry::Barrier]) {
            match entry {
                Entry::Job(job) => free.push(job),
                Entry::Barrier => jobs.extend(free.drain(..).rev()),
            }
        }
        if !jobs.is_empty() {
            state.device.run(&jobs);
        }
        tables.value += 1;
        Ok(())
    }

    hrx_stream_get_timeline_position(stream: usize, point: *mut TimelinePoint) |_, tables| {
        place(stream, tables.streams, "stream")?;
        // SAFETY: the caller's place.
        unsafe { give(point, TimelinePoint { semaphore: stream, value: tables.value }) }
    }

    hrx_stream_execution_barrier(stream: usize) |_, tables| {
        place(stream, tables.streams, "stream")?;
        tables.pending.push(Entry::Barrier);
        Ok(())
    }

    hrx_stream_copy_buffer(stream: usize, from: usize, from_offset: usize, to: usize, to_offset: usize, bytes: usize) |state, tables| {
        place(stream, tables.streams, "stream")?;
        let (from, to) = (tables.range(from, from_offset, bytes)?, tables.range(to, to_offset, bytes)?);
        let job = Job::Copy { from: state.device.translate(from), to: state.device.translate(to), bytes };
        tables.pending.push(Entry::Job(job));
        Ok(())
    }

    hrx_stream_dispatch(
        stream: usize, executable: usize, ordinal: u32, config: *const DispatchConfig, constants: *const u8, constants_bytes: usize,
        bindings: *const BufferRef, binding_count: usize, flags: u32
    ) |state, tables| {
        place(stream, tables.streams, "stream")?;
        if flags != 0 {
            return Err(wrong("flags"));
        }
        // SAFETY: the caller's struct and lists.
        let (config, constants, bindings) = unsafe { (*config, slice(constants, constants_bytes), slice(bindings, binding_count)) };
        let job = tables.dispatch(state, (executable, ordinal), &config, constants, bindings)?;
        tables.pending.push(Entry::Job(job));
        Ok(())
    }

    hrx_executable_load_data(
        _device: usize, data: *const u8, bytes: usize, format: *const c_char, second: *mut c_void, third: *mut usize
    ) |state, tables| {
        // SAFETY: text that ends with a zero.
        let format = unsafe { CStr::from_ptr(format) }.to_string_lossy();
        let architecture = &state.settings.architecture;
        // 0.3 has no target, and its fifth argument is the place for the result.
        let (fits, result) = if state.settings.formats {
            (format == format!("amdgcn-amd-amdhsa--{architecture}"), second.cast::<usize>())
        } else {
            // SAFETY: text that ends with a zero.
            let target = unsafe { CStr::from_ptr(second.cast()) }.to_string_lossy();
            (format == "amdgpu" && target == **architecture, third)
        };
        if !fits {
            return Err((code::NOT_FOUND, format!("nothing takes code objects of {format}")));
        }
        // SAFETY: the caller's bytes.
        let module = state.device.load(unsafe { slice(data, bytes) }).map_err(wrong)?;
        tables.executables.push(module);
        // SAFETY: the caller's place.
        unsafe { give(result, tables.executables.len()) }
    }

    hrx_executable_lookup_export_by_name(executable: usize, name: *const c_char, ordinal: *mut u32) |state, tables| {
        let module = tables.executables[place(executable, tables.executables.len(), "executable")?];
        // SAFETY: text that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let at = state.device.modules[module].object().kernels.iter().position(|k| k.name == name);
        let at = at.ok_or_else(|| (code::NOT_FOUND, format!("no export {name}")))?;
        // SAFETY: the caller's place.
        unsafe { give(ordinal, at as u32) }
    }

    hrx_executable_export_info(executable: usize, ordinal: u32, info: *mut ExportInfo) |state, tables| {
        let module = tables.executables[place(executable, tables.executables.len(), "executable")?];
        let kernel = state.device.modules[module].object().kernels.get(ordinal as usize).ok_or_else(|| wrong("no such export"))?;
        let explicit = || kernel.arguments.iter().filter(|a| !a.hidden());
        let bindings = explicit().filter(|a| a.kind == "global_buffer").count();
        let words: u32 = explicit().filter(|a| a.kind != "global_buffer").map(|a| a.size).sum();
        // Without a zero at its end, as in 0.3: nobody may read it as a text.
        static NAME: [u8; 4] = *b"name";
        let told = ExportInfo {
            name: NAME.as_ptr().cast(),
            flags: 0,
            constants: if state.settings.formats { words / 4 } else { words },
            bindings: bindings as u32,
            parameters: explicit().count() as u32,
            workgroup_size: [kernel.max_workgroup, 1, 1],
        };
        // SAFETY: the caller's place.
        unsafe { give(info, told) }
    }

    hrx_semaphore_wait(semaphore: usize, value: u64, nanoseconds: u64) |state, tables| {
        place(semaphore, tables.streams, "semaphore")?;
        if let Some(why) = &state.device.lost {
            return Err((code::ABORTED, why.clone()));
        }
        if value > tables.value {
            std::thread::sleep(Duration::from_nanos(nanoseconds));
            return Err((code::DEADLINE_EXCEEDED, format!("{value} has not come")));
        }
        Ok(())
    }

    hrx_graph_create(_device: usize, _flags: u32, graph: *mut usize) |_, tables| {
        tables.graphs.push(vec![]);
        // SAFETY: the caller's place.
        unsafe { give(graph, tables.graphs.len()) }
    }

    hrx_graph_add_kernel_node(graph: usize, deps: *const usize, count: usize, attributes: *const KernelNode, node: *mut usize) |state, tables| {
        // SAFETY: the caller's struct and lists.
        let (a, deps) = unsafe { (&*attributes, slice(deps, count)) };
        if a.flags != 0 {
            return Err(wrong("flags"));
        }
        // SAFETY: as above.
        let (constants, bindings) = unsafe { (slice(a.constants, a.constants_bytes), slice(a.bindings, a.binding_count)) };
        let job = tables.dispatch(state, (a.executable, a.ordinal), &a.config, constants, bindings)?;
        let at = place(graph, tables.graphs.len(), "graph")?;
        tables.graphs[at].push((job, deps.to_vec()));
        // SAFETY: the caller's place.
        unsafe { give(node, tables.graphs[at].len()) }
    }

    hrx_graph_add_memcpy_node(graph: usize, deps: *const usize, count: usize, attributes: *const CopyNode, node: *mut usize) |state, tables| {
        // SAFETY: the caller's struct and list.
        let (a, deps) = unsafe { (&*attributes, slice(deps, count)) };
        let job = Job::Copy { from: state.device.translate(a.from), to: state.device.translate(a.to), bytes: a.bytes };
        let at = place(graph, tables.graphs.len(), "graph")?;
        tables.graphs[at].push((job, deps.to_vec()));
        // SAFETY: the caller's place.
        unsafe { give(node, tables.graphs[at].len()) }
    }

    hrx_graph_instantiate(graph: usize, _flags: u32, instance: *mut usize) |_, tables| {
        let nodes = &tables.graphs[place(graph, tables.graphs.len(), "graph")?];
        let mut done = vec![false; nodes.len()];
        let mut jobs = vec![];
        // The last of those that may run, whatever was added first.
        while let Some(next) = (0..nodes.len()).rev().find(|n| !done[*n] && nodes[*n].1.iter().all(|d| done[d - 1])) {
            done[next] = true;
            jobs.push(nodes[next].0.clone());
        }
        tables.instances.push(jobs);
        // SAFETY: the caller's place.
        unsafe { give(instance, tables.instances.len()) }
    }

    hrx_graph_exec_launch(instance: usize, stream: usize) |state, tables| {
        place(stream, tables.streams, "stream")?;
        let at = place(instance, tables.instances.len(), "graph")?;
        state.device.run(&tables.instances[at]);
        Ok(())
    }
}

/// `hrx_runtime_version`
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hrx_runtime_version(major: *mut i32, minor: *mut i32, patch: *mut i32) {
    let version = State::lock().settings.version;
    for (to, number) in [major, minor, patch].into_iter().zip(version) {
        // SAFETY: the caller's places.
        unsafe { to.write(number) };
    }
}

/// `hrx_device_allocator`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hrx_device_allocator(device: usize) -> usize {
    device
}

/// `hrx_buffer_release`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hrx_buffer_release(buffer: usize) {
    let mut state = State::lock();
    let mut tables = TABLES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Ok(at) = place(buffer, tables.buffers.len(), "buffer") else { return };
    if let Some(memory) = tables.buffers[at].take() {
        // What is shared has the host's address.
        let _ = state.device.free(memory.address) || state.device.free_shared(memory.address as usize);
    }
}

/// `hrx_executable_release`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hrx_executable_release(_executable: usize) {}

/// `hrx_stream_release`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hrx_stream_release(_stream: usize) {}

/// `hrx_graph_release`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hrx_graph_release(_graph: usize) {}

/// `hrx_graph_exec_release`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hrx_graph_exec_release(_instance: usize) {}

/// `hrx_status_code`
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hrx_status_code(status: Status) -> i32 {
    // SAFETY: a status that was given and not given back.
    if status == 0 { 0 } else { unsafe { (*(status as *const Fault)).0 } }
}

/// `hrx_status_to_string`
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hrx_status_to_string(status: Status, text: *mut *mut c_char, length: *mut usize) -> Status {
    // SAFETY: a status that was given and not given back.
    let why = if status == 0 { "OK".into() } else { unsafe { (*(status as *const Fault)).1.clone() } };
    // SAFETY: the caller's places.
    unsafe {
        length.write(why.len());
        text.write(CString::new(why).unwrap_or_default().into_raw());
    }
    0
}

/// `hrx_status_free_message`
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hrx_status_free_message(text: *mut c_char) {
    // SAFETY: a text that was given and not given back.
    drop(unsafe { CString::from_raw(text) });
}

/// `hrx_status_ignore`
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hrx_status_ignore(status: Status) {
    if status != 0 {
        // SAFETY: a status that was given and not given back.
        drop(unsafe { Box::from_raw(status as *mut Fault) });
    }
}
