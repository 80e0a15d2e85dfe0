//! AMD's HRX runtime, `libhrx.so` (repository ROCm/hrx-system, `libhrx/include/hrx_runtime.h`), in two generations: 0.3, whose code
//! objects are loaded by a format and whose commands go through a stream, and the later ones, whose code objects are loaded by family and
//! target and which have graphs. They are told apart by `hrx_graph_create`, which only the later ones have.
//!
//! A kernel's pointers are bindings of buffers, its numbers constants. Times are by the host's clock.

use super::{
    DeviceInfo, Driver, DriverError, Times,
    hip::no_such,
    library::{Environment, Library, Search},
    session::{Act, Calls, Failure, Kind, Memory, Session, Span},
};
use std::{
    ffi::{CString, c_char, c_void},
    path::PathBuf,
    time::{Duration, Instant},
};

/// The driver's name.
pub const NAME: &str = "hrx";
/// The variable that says where the library is.
pub const VARIABLE: &str = "ONEBIT_HRX_LIBRARY";

/// Where the library may be.
#[must_use]
pub fn search(given: Option<PathBuf>, environment: Environment<'_>) -> Search {
    let bundles = &["hrx/lib", "hrx", "1bit/hrx/lib", "lemonade/bin/hrx/lib"];
    Search::new(NAME, &["libhrx.so", "libhrx.so.1", "libhrx.so.0"], (VARIABLE, given), bundles, environment)
}

/// A pointer to something of the library's.
type Handle = usize;
/// `hrx_status_t`: 0 where all is well.
type Status = usize;

/// `hrx_status_code_t`.
mod code {
    pub(super) const DEADLINE_EXCEEDED: i32 = 4;
    pub(super) const ALREADY_EXISTS: i32 = 6;
    pub(super) const OUT_OF_MEMORY: i32 = 8;
    pub(super) const ABORTED: i32 = 10;
    pub(super) const UNAVAILABLE: i32 = 14;
    pub(super) const DATA_LOSS: i32 = 15;
}

/// `hrx_device_property_t`.
mod property {
    pub(super) const NAME: i32 = 0;
    pub(super) const ARCHITECTURE: i32 = 1;
    pub(super) const TOTAL_MEMORY: i32 = 2;
}

/// `HRX_MEMORY_TYPE_DEVICE_LOCAL`.
const DEVICE_LOCAL: u32 = 0x30;
/// `HRX_MEMORY_TYPE_HOST_LOCAL` (visible and coherent) with `HRX_MEMORY_TYPE_DEVICE_VISIBLE`.
const SHARED: u32 = 0x46 | 0x10;
/// `HRX_MEMORY_ACCESS_ALL`.
const ACCESS_ALL: u16 = 7;
/// `HRX_BUFFER_USAGE_DEFAULT`.
const USAGE: u32 = 0xc03;
/// `HRX_BUFFER_USAGE_MAPPING_SCOPED` and `_PERSISTENT`.
const MAPPED: u32 = 0x0300_0000;
/// `HRX_MAP_READ` and `HRX_MAP_WRITE`.
const READ_WRITE: u16 = 3;

/// `hrx_buffer_params_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct BufferParams {
    memory_type: u32,
    access: u16,
    usage: u32,
    queue_affinity: u64,
}

/// `hrx_dispatch_config_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DispatchConfig {
    workgroup_count: [u32; 3],
    workgroup_size: [u32; 3],
    subgroup_size: u32,
}

/// `hrx_buffer_ref_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct BufferRef {
    buffer: Handle,
    offset: usize,
    length: usize,
}

/// `hrx_executable_export_info_t`; `constants` counts u32 in 0.3, and bytes later.
#[repr(C)]
#[derive(Default)]
struct ExportInfo {
    name: usize,
    flags: u32,
    constants: u32,
    bindings: u32,
    parameters: u32,
    workgroup_size: [u32; 3],
}

/// `hrx_timeline_point_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TimelinePoint {
    semaphore: Handle,
    value: u64,
}

/// `hrx_graph_kernel_node_attrs_t`.
#[repr(C)]
struct KernelNode {
    executable: Handle,
    ordinal: u32,
    config: DispatchConfig,
    constants: *const c_void,
    constants_bytes: usize,
    bindings: *const BufferRef,
    binding_count: usize,
    flags: u32,
}

/// `hrx_graph_memcpy_node_attrs_t`.
#[repr(C)]
struct CopyNode {
    to: usize,
    from: usize,
    bytes: usize,
    kind: u32,
}

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $($field:ident($($arg:ty),*) -> $result:ty, $name:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $table { $($field: unsafe extern "C" fn($($arg),*) -> $result,)* }

        impl $table {
            fn of(library: &Library, version: &str) -> Result<Self, DriverError> {
                // SAFETY: the types are those of hrx_runtime.h, with handles as numbers of the same size.
                $(let $field = unsafe { library.function(NAME, version, $name)? };)*
                Ok(Self { $($field),* })
            }
        }
    };
}

functions! {
    /// What both generations have.
    Functions:
    status_code(Status) -> i32, "hrx_status_code";
    status_text(Status, *mut *mut c_char, *mut usize) -> Status, "hrx_status_to_string";
    free_text(*mut c_char) -> (), "hrx_status_free_message";
    ignore(Status) -> (), "hrx_status_ignore";
    initialize(u32) -> Status, "hrx_gpu_initialize";
    count(*mut i32) -> Status, "hrx_gpu_device_count";
    device(i32, *mut Handle) -> Status, "hrx_gpu_device_get";
    property(Handle, i32, *mut c_void, usize) -> Status, "hrx_device_get_property";
    allocator(Handle) -> Handle, "hrx_device_allocator";
    allocate(Handle, BufferParams, usize, *mut Handle) -> Status, "hrx_allocator_allocate_buffer";
    release(Handle) -> (), "hrx_buffer_release";
    map(Handle, u16, usize, usize, *mut usize) -> Status, "hrx_buffer_map";
    write(Handle, *const c_void, Handle, usize, usize) -> Status, "hrx_synchronous_h2d";
    read(Handle, Handle, usize, *mut c_void, usize) -> Status, "hrx_synchronous_d2h";
    stream(Handle, u32, *mut Handle) -> Status, "hrx_stream_create";
    flush(Handle) -> Status, "hrx_stream_flush";
    point(Handle, *mut TimelinePoint) -> Status, "hrx_stream_get_timeline_position";
    wait(Handle, u64, u64) -> Status, "hrx_semaphore_wait";
    barrier(Handle) -> Status, "hrx_stream_execution_barrier";
    copy(Handle, Handle, usize, Handle, usize, usize) -> Status, "hrx_stream_copy_buffer";
    dispatch(Handle, Handle, u32, *const DispatchConfig, *const c_void, usize, *const BufferRef, usize, u32) -> Status, "hrx_stream_dispatch";
    lookup(Handle, *const c_char, *mut u32) -> Status, "hrx_executable_lookup_export_by_name";
    export(Handle, u32, *mut ExportInfo) -> Status, "hrx_executable_export_info";
    release_executable(Handle) -> (), "hrx_executable_release";
    release_stream(Handle) -> (), "hrx_stream_release";
}

functions! {
    /// What only 0.3 has: a code object is loaded by its format.
    Formats:
    load(Handle, *const c_void, usize, *const c_char, *mut Handle) -> Status, "hrx_executable_load_data";
}

functions! {
    /// What the later generation has: a code object is loaded by family and target, and there are graphs.
    Graphs:
    load(Handle, *const c_void, usize, *const c_char, *const c_char, *mut Handle) -> Status, "hrx_executable_load_data";
    create(Handle, u32, *mut Handle) -> Status, "hrx_graph_create";
    kernel_node(Handle, *const Handle, usize, *const KernelNode, *mut Handle) -> Status, "hrx_graph_add_kernel_node";
    copy_node(Handle, *const Handle, usize, *const CopyNode, *mut Handle) -> Status, "hrx_graph_add_memcpy_node";
    device_address(Handle, *mut usize) -> Status, "hrx_buffer_get_device_ptr";
    instantiate(Handle, u32, *mut Handle) -> Status, "hrx_graph_instantiate";
    launch(Handle, Handle) -> Status, "hrx_graph_exec_launch";
    release(Handle) -> (), "hrx_graph_release";
    release_instance(Handle) -> (), "hrx_graph_exec_release";
}

/// How code objects are loaded and lists submitted.
#[derive(Clone, Copy)]
enum Generation {
    Formats(Formats),
    Graphs(Graphs),
}

impl Functions {
    /// What a status says; it is given back.
    fn check(&self, call: &'static str, status: Status) -> Result<(), Failure> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: a status that the library has given, and that nothing uses after `ignore`.
        let (number, why) = unsafe {
            let number = (self.status_code)(status);
            let (mut text, mut length) = (std::ptr::null_mut(), 0);
            let told = (self.status_text)(status, &raw mut text, &raw mut length);
            let why = if told == 0 && !text.is_null() {
                let why = String::from_utf8_lossy(std::slice::from_raw_parts(text.cast(), length)).into_owned();
                (self.free_text)(text);
                why
            } else {
                "no description".into()
            };
            (self.ignore)(status);
            (number, why)
        };
        let kind = match number {
            code::OUT_OF_MEMORY => Kind::Memory,
            code::DEADLINE_EXCEEDED => Kind::Late,
            code::ABORTED | code::UNAVAILABLE | code::DATA_LOSS => Kind::Lost,
            _ => Kind::Other,
        };
        Err(Failure { call, why: format!("status {number}: {why}"), kind })
    }

    fn text(&self, device: Handle, property: i32) -> Result<String, Failure> {
        let mut bytes = vec![0u8; 256];
        // SAFETY: room for 256 bytes.
        let status = unsafe { (self.property)(device, property, bytes.as_mut_ptr().cast(), bytes.len() - 1) };
        self.check("hrx_device_get_property", status)?;
        Ok(String::from_utf8_lossy(bytes.split(|b| *b == 0).next().unwrap_or_default()).into_owned())
    }

    fn devices(&self, driver: &str) -> Result<Vec<(Handle, DeviceInfo)>, Failure> {
        // SAFETY: as its header says.
        let status = unsafe { (self.initialize)(0) };
        // SAFETY: a status that the library has given.
        if status != 0 && unsafe { (self.status_code)(status) } == code::ALREADY_EXISTS {
            // SAFETY: nothing uses it any more.
            unsafe { (self.ignore)(status) };
        } else {
            self.check("hrx_gpu_initialize", status)?;
        }
        let mut count = 0;
        // SAFETY: a place for the number.
        self.check("hrx_gpu_device_count", unsafe { (self.count)(&raw mut count) })?;
        let mut devices = vec![];
        for index in 0..count {
            let mut device = 0;
            // SAFETY: a place for the handle.
            self.check("hrx_gpu_device_get", unsafe { (self.device)(index, &raw mut device) })?;
            let name = self.text(device, property::NAME)?;
            let architecture = self.text(device, property::ARCHITECTURE)?.split(':').next().unwrap_or_default().to_string();
            let mut memory = 0usize;
            // SAFETY: room for 8 bytes.
            let status = unsafe { (self.property)(device, property::TOTAL_MEMORY, (&raw mut memory).cast(), size_of::<usize>()) };
            self.check("hrx_device_get_property", status)?;
            devices.push((device, DeviceInfo { name, architecture, memory, driver: driver.into() }));
        }
        Ok(devices)
    }
}

/// An open library, and the devices that it sees.
pub struct Hrx {
    library: String,
    functions: Functions,
    generation: Generation,
    memory_info: Option<unsafe extern "C" fn(Handle, *mut usize, *mut usize) -> Status>,
    handles: Vec<Handle>,
    /// In the library's order.
    pub devices: Vec<DeviceInfo>,
}

impl Hrx {
    /// Opens the library and asks it for devices.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] where there is no library, one without a function, or no device.
    pub fn open(search: &Search) -> Result<Self, DriverError> {
        let (library, _) = search.open()?;
        // SAFETY: the type is that of hrx_runtime.h.
        let get: unsafe extern "C" fn(*mut i32, *mut i32, *mut i32) =
            unsafe { library.function(NAME, "version unknown", "hrx_runtime_version")? };
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: places for the numbers.
        unsafe { get(&raw mut major, &raw mut minor, &raw mut patch) };
        let graphs = library.has("hrx_graph_create");
        let version = format!("HRX {major}.{minor}.{patch}{}", if graphs { ", with graphs" } else { "" });
        let driver = format!("{version}, {}", library.path().display());
        let functions = Functions::of(&library, &version)?;
        let generation = if graphs {
            Generation::Graphs(Graphs::of(&library, &version)?)
        } else {
            Generation::Formats(Formats::of(&library, &version)?)
        };
        // SAFETY: the type is that of hrx_runtime.h.
        let memory_info = unsafe { library.function(NAME, &version, "hrx_device_memory_info") }.ok();
        let name = format!("{} ({version})", library.path().display());
        let unavailable = |why: String| DriverError::Unavailable { driver: NAME, why };
        let devices = functions.devices(&driver).map_err(|f| unavailable(format!("{} of {name}: {}", f.call, f.why)))?;
        if devices.is_empty() {
            return Err(unavailable(format!("{name} sees no device")));
        }
        let (handles, devices) = devices.into_iter().unzip();
        Ok(Self { library: name, functions, generation, memory_info, handles, devices })
    }

    /// A session on the first device of this architecture.
    ///
    /// # Errors
    /// If there is none, or it cannot be used.
    pub fn session(self, architecture: &str) -> Result<Box<dyn Driver>, DriverError> {
        let Some(index) = self.devices.iter().position(|d| d.architecture == architecture) else {
            return Err(no_such(NAME, architecture, self.devices.iter()));
        };
        let Self { library, functions, generation, memory_info, handles, devices } = self;
        let device = handles[index];
        let mut stream = 0;
        // SAFETY: a device of this library, and a place for the handle.
        let status = unsafe { (functions.stream)(device, 0, &raw mut stream) };
        let unavailable = |f: Failure| DriverError::Unavailable { driver: NAME, why: format!("{} of {library}: {}", f.call, f.why) };
        functions.check("hrx_stream_create", status).map_err(unavailable)?;
        // SAFETY: a device of this library.
        let allocator = unsafe { (functions.allocator)(device) };
        let info = devices[index].clone();
        let (total, target) = (info.memory, info.architecture.clone());
        let calls = Runtime {
            library,
            functions,
            generation,
            memory_info,
            device,
            allocator,
            stream,
            total,
            target,
            taken: 0,
            began: Instant::now(),
        };
        Ok(Box::new(Session::new(calls, info)))
    }
}

/// A stream of a device.
struct Runtime {
    library: String,
    functions: Functions,
    generation: Generation,
    memory_info: Option<unsafe extern "C" fn(Handle, *mut usize, *mut usize) -> Status>,
    device: Handle,
    allocator: Handle,
    stream: Handle,
    /// Bytes of memory in all, and those that were taken.
    total: usize,
    taken: usize,
    /// The architecture.
    target: String,
    began: Instant,
}

/// A kernel of an executable.
#[derive(Debug, Clone)]
struct Export {
    executable: Handle,
    ordinal: u32,
    name: String,
    bindings: usize,
    /// Bytes.
    constants: usize,
}

/// Recorded commands.
struct List {
    acts: Vec<Act<Export>>,
    /// Graph and instance.
    graph: Option<(Handle, Handle)>,
}

/// When a submission is done.
struct Mark {
    point: TimelinePoint,
    submitted: Duration,
}

/// A dispatch as the library wants it.
struct Arguments {
    config: DispatchConfig,
    bindings: Vec<BufferRef>,
}

impl Arguments {
    fn new(grid: [u32; 3], threads: u32, pointers: &[Span]) -> Self {
        let binding = |p: &Span| BufferRef { buffer: p.memory.handle, offset: p.offset, length: p.memory.bytes - p.offset };
        let config = DispatchConfig { workgroup_count: grid, workgroup_size: [threads, 1, 1], subgroup_size: 0 };
        Self { config, bindings: pointers.iter().map(binding).collect() }
    }
}

impl Runtime {
    fn check(&self, call: &'static str, status: Status) -> Result<(), Failure> {
        self.functions.check(call, status)
    }

    /// Submits a command through the stream.
    fn act(&self, act: &Act<Export>) -> Result<(), Failure> {
        match act {
            Act::Copy { from, to, bytes } => {
                let (a, b) = (from.memory.handle, to.memory.handle);
                // SAFETY: the session has checked that both lie within their buffers.
                self.check("hrx_stream_copy_buffer", unsafe { (self.functions.copy)(self.stream, a, from.offset, b, to.offset, *bytes) })
            }
            Act::Dispatch { function, grid, threads, pointers, numbers } => {
                let Arguments { config, bindings } = Arguments::new(*grid, *threads, pointers);
                let (constants, length) = (numbers.as_ptr().cast(), 4 * numbers.len());
                let (executable, ordinal, count) = (function.executable, function.ordinal, bindings.len());
                // SAFETY: `record` has compared the arguments with the kernel's; the library copies them before it returns.
                let status = unsafe {
                    let call = self.functions.dispatch;
                    call(self.stream, executable, ordinal, &raw const config, constants, length, bindings.as_ptr(), count, 0)
                };
                self.check("hrx_stream_dispatch", status)
            }
        }
    }

    /// A node for a command, after the one before it.
    fn node(&self, graphs: &Graphs, graph: Handle, before: Option<Handle>, act: &Act<Export>) -> Result<Handle, Failure> {
        let mut node = 0;
        let (deps, count) = before.as_ref().map_or((std::ptr::null(), 0), |b| (std::ptr::from_ref(b), 1));
        match act {
            Act::Copy { from, to, bytes } => {
                let mut addresses = [0; 2];
                for (address, span) in addresses.iter_mut().zip([from, to]) {
                    // SAFETY: a buffer of this library, and a place for the address.
                    let status = unsafe { (graphs.device_address)(span.memory.handle, address) };
                    self.check("hrx_buffer_get_device_ptr", status)?;
                    *address += span.offset;
                }
                // Its `kind` is not looked at: both addresses are of the device.
                let attributes = CopyNode { to: addresses[1], from: addresses[0], bytes: *bytes, kind: 3 };
                // SAFETY: the session has checked the bounds.
                let status = unsafe { (graphs.copy_node)(graph, deps, count, &raw const attributes, &raw mut node) };
                self.check("hrx_graph_add_memcpy_node", status)?;
            }
            Act::Dispatch { function, grid, threads, pointers, numbers } => {
                let Arguments { config, bindings } = Arguments::new(*grid, *threads, pointers);
                let attributes = KernelNode {
                    executable: function.executable,
                    ordinal: function.ordinal,
                    config,
                    constants: numbers.as_ptr().cast(),
                    constants_bytes: 4 * numbers.len(),
                    bindings: bindings.as_ptr(),
                    binding_count: bindings.len(),
                    flags: 0,
                };
                // SAFETY: the library copies constants and bindings into the node.
                let status = unsafe { (graphs.kernel_node)(graph, deps, count, &raw const attributes, &raw mut node) };
                self.check("hrx_graph_add_kernel_node", status)?;
            }
        }
        Ok(node)
    }

    /// A graph of commands, each after the one before it, and its instance.
    fn graph(&self, graphs: &Graphs, acts: &[Act<Export>]) -> Result<(Handle, Handle), Failure> {
        let (mut graph, mut instance) = (0, 0);
        // SAFETY: a device of this library, and a place for the handle.
        self.check("hrx_graph_create", unsafe { (graphs.create)(self.device, 0, &raw mut graph) })?;
        let mut last = None;
        let filled = acts.iter().try_for_each(|act| {
            last = Some(self.node(graphs, graph, last, act)?);
            Ok(())
        });
        let made = filled.and_then(|()| {
            // SAFETY: a graph of this library, and a place for the handle.
            self.check("hrx_graph_instantiate", unsafe { (graphs.instantiate)(graph, 0, &raw mut instance) })
        });
        if made.is_err() {
            // SAFETY: nothing uses the graph.
            unsafe { (graphs.release)(graph) };
        }
        made.map(|()| (graph, instance))
    }

    /// Whether a kernel takes what the plan gives it: the library has its own reading of a code object.
    fn fits(act: &Act<Export>) -> Result<(), Failure> {
        let Act::Dispatch { function, pointers, numbers, .. } = act else { return Ok(()) };
        let Export { name, bindings, constants, .. } = function;
        if *bindings == pointers.len() && *constants == 4 * numbers.len() {
            return Ok(());
        }
        let (given, words) = (pointers.len(), 4 * numbers.len());
        let why = format!("kernel {name} has {bindings} bindings and {constants} bytes of constants there, and {given} and {words} here");
        Err(Failure { call: "hrx_executable_export_info", why, kind: Kind::Other })
    }
}

impl Calls for Runtime {
    type Code = Handle;
    type Function = Export;
    type List = List;
    type Mark = Mark;

    fn name(&self) -> &'static str {
        NAME
    }

    fn library(&self) -> &str {
        &self.library
    }

    fn free_bytes(&self) -> Result<usize, Failure> {
        let Some(info) = self.memory_info else { return Ok(self.total.saturating_sub(self.taken)) };
        let (mut free, mut total) = (0, 0);
        // SAFETY: a device of this library, and places for both numbers.
        self.check("hrx_device_memory_info", unsafe { info(self.device, &raw mut free, &raw mut total) })?;
        Ok(free)
    }

    fn allocate(&mut self, bytes: usize, shared: bool) -> Result<Memory, Failure> {
        let (memory_type, usage) = if shared { (SHARED, USAGE | MAPPED) } else { (DEVICE_LOCAL, USAGE) };
        let params = BufferParams { memory_type, access: ACCESS_ALL, usage, queue_affinity: u64::MAX };
        let mut buffer = 0;
        // SAFETY: an allocator of this library, and a place for the handle.
        let status = unsafe { (self.functions.allocate)(self.allocator, params, bytes, &raw mut buffer) };
        self.check("hrx_allocator_allocate_buffer", status)?;
        let mut host = None;
        if shared {
            let mut address = 0;
            // SAFETY: a buffer that can be mapped, and a place for the address; it stays mapped until it is given back.
            let status = unsafe { (self.functions.map)(buffer, READ_WRITE, 0, bytes, &raw mut address) };
            if let Err(failure) = self.check("hrx_buffer_map", status) {
                // SAFETY: nothing uses it.
                unsafe { (self.functions.release)(buffer) };
                return Err(failure);
            }
            host = Some(address);
        }
        self.taken += bytes;
        Ok(Memory { handle: buffer, host, bytes })
    }

    fn free(&mut self, memory: Memory) {
        self.taken = self.taken.saturating_sub(memory.bytes);
        // SAFETY: the session gives each of its buffers back once.
        unsafe { (self.functions.release)(memory.handle) };
    }

    fn write(&mut self, to: Span, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(host) = to.memory.host {
            // SAFETY: the session has checked the bounds, and its user promises that no submission uses the place.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (host + to.offset) as *mut u8, bytes.len()) };
            return Ok(());
        }
        let (from, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the session has checked the bounds.
        let status = unsafe { (self.functions.write)(self.device, from, to.memory.handle, to.offset, length) };
        self.check("hrx_synchronous_h2d", status)
    }

    fn read(&mut self, from: Span, bytes: &mut [u8]) -> Result<(), Failure> {
        let (to, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the session has checked the bounds.
        let status = unsafe { (self.functions.read)(self.device, from.memory.handle, from.offset, to, length) };
        self.check("hrx_synchronous_d2h", status)
    }

    fn load(&mut self, _object: &str, code: &[u8]) -> Result<Handle, Failure> {
        let call = "hrx_executable_load_data";
        let text = |text: String| CString::new(text).map_err(|e| Failure { call, why: e.to_string(), kind: Kind::Code });
        let (bytes, length) = (code.as_ptr().cast(), code.len());
        let mut executable = 0;
        let status = match &self.generation {
            Generation::Formats(formats) => {
                let format = text(format!("amdgcn-amd-amdhsa--{}", self.target))?;
                // SAFETY: a device of this library, a code object, and a place for the handle.
                unsafe { (formats.load)(self.device, bytes, length, format.as_ptr(), &raw mut executable) }
            }
            Generation::Graphs(graphs) => {
                let (family, target) = (text("amdgpu".into())?, text(self.target.clone())?);
                // SAFETY: as above.
                unsafe { (graphs.load)(self.device, bytes, length, family.as_ptr(), target.as_ptr(), &raw mut executable) }
            }
        };
        self.check(call, status).map_err(|failure| match failure.kind {
            Kind::Other => Failure { kind: Kind::Code, ..failure },
            _ => failure,
        })?;
        Ok(executable)
    }

    fn function(&mut self, code: &Handle, kernel: &str) -> Result<Export, Failure> {
        let call = "hrx_executable_lookup_export_by_name";
        let of_code = |failure: Failure| match failure.kind {
            Kind::Other => Failure { kind: Kind::Code, ..failure },
            _ => failure,
        };
        let name = CString::new(kernel).map_err(|e| Failure { call, why: e.to_string(), kind: Kind::Code })?;
        let mut ordinal = 0;
        // SAFETY: an executable of this library, a name that ends with a zero, and a place for the number.
        self.check(call, unsafe { (self.functions.lookup)(*code, name.as_ptr(), &raw mut ordinal) }).map_err(of_code)?;
        let mut info = ExportInfo::default();
        // SAFETY: a place for what is told.
        let status = unsafe { (self.functions.export)(*code, ordinal, &raw mut info) };
        self.check("hrx_executable_export_info", status).map_err(of_code)?;
        let unit = if matches!(self.generation, Generation::Formats(_)) { 4 } else { 1 };
        let (bindings, constants) = (info.bindings as usize, unit * info.constants as usize);
        Ok(Export { executable: *code, ordinal, name: kernel.into(), bindings, constants })
    }

    fn unload(&mut self, code: Handle) {
        // SAFETY: the session gives each back once, and uses none of its kernels any more.
        unsafe { (self.functions.release_executable)(code) };
    }

    fn record(&mut self, acts: Vec<Act<Export>>) -> Result<List, Failure> {
        acts.iter().try_for_each(Self::fits)?;
        let graph = match &self.generation {
            Generation::Graphs(graphs) if acts.len() > 1 => Some(self.graph(graphs, &acts)?),
            _ => None,
        };
        Ok(List { acts: if graph.is_some() { vec![] } else { acts }, graph })
    }

    fn forget(&mut self, list: List) {
        if let (Some((graph, instance)), Generation::Graphs(graphs)) = (list.graph, &self.generation) {
            // SAFETY: no submission uses them any more.
            unsafe { (graphs.release_instance)(instance) };
            // SAFETY: as above.
            unsafe { (graphs.release)(graph) };
        }
    }

    fn submit(&mut self, list: &List) -> Result<Mark, Failure> {
        match (list.graph, &self.generation) {
            (Some((_, instance)), Generation::Graphs(graphs)) => {
                // SAFETY: an instance and a stream of this library.
                self.check("hrx_graph_exec_launch", unsafe { (graphs.launch)(instance, self.stream) })?;
            }
            _ => {
                for act in &list.acts {
                    self.act(act)?;
                    // SAFETY: a stream of this library.
                    self.check("hrx_stream_execution_barrier", unsafe { (self.functions.barrier)(self.stream) })?;
                }
            }
        }
        // SAFETY: a stream of this library.
        self.check("hrx_stream_flush", unsafe { (self.functions.flush)(self.stream) })?;
        let mut point = TimelinePoint::default();
        // SAFETY: a place for the point.
        self.check("hrx_stream_get_timeline_position", unsafe { (self.functions.point)(self.stream, &raw mut point) })?;
        Ok(Mark { point, submitted: self.began.elapsed() })
    }

    fn wait(&mut self, mark: Mark, most: Duration) -> Result<Times, Failure> {
        let TimelinePoint { semaphore, value } = mark.point;
        let nanoseconds = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the stream's semaphore, which lives as long as the stream.
        self.check("hrx_semaphore_wait", unsafe { (self.functions.wait)(semaphore, value, nanoseconds) })?;
        Ok(Times { began: mark.submitted, ended: self.began.elapsed() })
    }

    fn end(&mut self) {
        // SAFETY: nothing uses it any more.
        unsafe { (self.functions.release_stream)(self.stream) };
    }
}
