//! Devices that are reached through streams, events and captured graphs. HIP and the CUDA driver have the same functions for that, with
//! the same arguments and nearly the same numbers of errors, so both are one table here: `hip` and `cuda` fill it.

use super::{
    DriverError, Times,
    library::Library,
    session::{Act, Calls, Failure, Kind, Memory, Span},
};
use std::{
    collections::VecDeque,
    ffi::{CString, c_char, c_void},
    time::{Duration, Instant},
};

/// Which of the two a table is filled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Hip,
    #[cfg(feature = "cuda-dev")]
    Cuda,
}

macro_rules! table {
    ($(#[$doc:meta])* $table:ident: $($field:ident($($arg:ty),*) $hip:literal $cuda:literal;)*) => {
        $(#[$doc])*
        pub(super) struct $table { $($field: (unsafe extern "C" fn($($arg),*) -> i32, &'static str),)* }

        impl $table {
            /// The functions of a library.
            pub(super) fn of(library: &Library, family: Family, version: &str) -> Result<Self, DriverError> {
                let (driver, cuda) = match family {
                    Family::Hip => ("hip", false),
                    #[cfg(feature = "cuda-dev")]
                    Family::Cuda => ("cuda", true),
                };
                $(let name = if cuda { $cuda } else { $hip };
                // SAFETY: the types are those of hip_runtime_api.h of HIP 6 and 7, and of cuda.h of CUDA 12, with handles and
                // addresses as numbers of the same size.
                let $field = (unsafe { library.function::<unsafe extern "C" fn($($arg),*) -> i32>(driver, version, name)? }, name);)*
                Ok(Self { $($field),* })
            }
        }
    };
}

table! {
    /// What every such library has.
    Table:
    memory(*mut usize, *mut usize) "hipMemGetInfo" "cuMemGetInfo_v2";
    allocate(*mut usize, usize) "hipMalloc" "cuMemAlloc_v2";
    free(usize) "hipFree" "cuMemFree_v2";
    allocate_host(*mut usize, usize, u32) "hipHostMalloc" "cuMemHostAlloc";
    free_host(usize) "hipHostFree" "cuMemFreeHost";
    to_device(usize, usize, usize, usize) "hipMemcpyHtoDAsync" "cuMemcpyHtoDAsync_v2";
    to_host(usize, usize, usize, usize) "hipMemcpyDtoHAsync" "cuMemcpyDtoHAsync_v2";
    on_device(usize, usize, usize, usize) "hipMemcpyDtoDAsync" "cuMemcpyDtoDAsync_v2";
    load(*mut usize, *const c_void) "hipModuleLoadData" "cuModuleLoadData";
    function(*mut usize, usize, *const c_char) "hipModuleGetFunction" "cuModuleGetFunction";
    launch(usize, u32, u32, u32, u32, u32, u32, u32, usize, *mut *mut c_void, *mut *mut c_void) "hipModuleLaunchKernel" "cuLaunchKernel";
    stream(*mut usize, u32) "hipStreamCreateWithFlags" "cuStreamCreate";
    event(*mut usize, u32) "hipEventCreateWithFlags" "cuEventCreate";
    mark(usize, usize) "hipEventRecord" "cuEventRecord";
    passed(usize) "hipEventQuery" "cuEventQuery";
    elapsed(*mut f32, usize, usize) "hipEventElapsedTime" "cuEventElapsedTime";
    unload(usize) "hipModuleUnload" "cuModuleUnload";
    drop_event(usize) "hipEventDestroy" "cuEventDestroy_v2";
    drop_stream(usize) "hipStreamDestroy" "cuStreamDestroy_v2";
}

table! {
    /// What a library needs for lists that are submitted with one call; without it their commands are submitted one by one.
    Graphs:
    begin(usize, i32) "hipStreamBeginCapture" "cuStreamBeginCapture_v2";
    end(usize, *mut usize) "hipStreamEndCapture" "cuStreamEndCapture";
    instantiate(*mut usize, usize, u64) "hipGraphInstantiateWithFlags" "cuGraphInstantiateWithFlags";
    launch(usize, usize) "hipGraphLaunch" "cuGraphLaunch";
    drop_graph(usize) "hipGraphDestroy" "cuGraphDestroy";
    drop_instance(usize) "hipGraphExecDestroy" "cuGraphExecDestroy";
}

/// `hipStreamNonBlocking`, `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// `hipStreamCaptureModeRelaxed`, `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: i32 = 2;
/// `hipErrorOutOfMemory`, `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// `hipErrorNotReady`, `CUDA_ERROR_NOT_READY`.
const NOT_READY: i32 = 600;
/// Errors of code: invalid image, no binary for the device, invalid PTX, invalid kernel file, not found.
const OF_CODE: [i32; 5] = [200, 209, 218, 301, 500];
/// Errors after which nothing works any more: no device, an address that is not mapped, time-out of a launch, context destroyed, a failed
/// launch, and the unknown.
const OF_LOSS: [i32; 8] = [46, 100, 214, 700, 702, 709, 719, 999];

/// Bytes that are on their way at once: two such parts take turns.
const PART: usize = 4 << 20;
/// How long a copy may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// For how long the host asks without a pause whether something is done: a step takes some milliseconds, and a pause costs a
/// twentieth of one.
const EAGER: Duration = Duration::from_millis(20);
/// How long it then pauses.
const PAUSE: Duration = Duration::from_micros(50);

/// What is loaded for the code object of a name, or why there is no such.
pub(super) type OtherCode = Box<dyn Fn(&str) -> Result<Vec<u8>, String> + Send>;

/// What differs between the two libraries beside names.
pub(super) struct Host {
    /// Makes the device that of the calling thread.
    pub(super) enter: Box<dyn Fn() -> i32 + Send>,
    /// What an error is called.
    pub(super) describe: Box<dyn Fn(i32) -> String + Send>,
    /// What is to be loaded for a code object, where it is not the object itself.
    pub(super) code: Option<OtherCode>,
    /// Whether the device reads the host's memory as fast as its own.
    pub(super) unified: bool,
}

/// A stream of a device.
pub(super) struct Streams {
    family: Family,
    library: String,
    table: Table,
    graphs: Option<Graphs>,
    host: Host,
    stream: usize,
    began: usize,
    /// Events that are free.
    events: Vec<usize>,
    staging: [Staging; 2],
    turn: usize,
}

/// Memory of the host that the device copies from and to.
#[derive(Default)]
struct Staging {
    address: usize,
    /// What it is waiting for, if something.
    busy: Option<usize>,
}

/// Recorded commands.
pub(super) struct List {
    acts: Vec<Act<usize>>,
    /// Graph and instance.
    graph: Option<(usize, usize)>,
}

/// Events before and after a submission.
pub(super) struct Mark {
    before: usize,
    after: usize,
}

impl Streams {
    /// A stream, whose commands run in order.
    pub(super) fn new(family: Family, library: &Library, version: &str, host: Host) -> Result<Self, DriverError> {
        let table = Table::of(library, family, version)?;
        let graphs = Graphs::of(library, family, version).ok();
        let name = format!("{} ({version})", library.path().display());
        let mut this =
            Self { family, library: name, table, graphs, host, stream: 0, began: 0, events: vec![], staging: Default::default(), turn: 0 };
        let made = this.begin();
        made.map_err(|failure| {
            let why = format!("{} of {}: {}", failure.call, this.library, failure.why);
            DriverError::Unavailable { driver: this.name(), why }
        })?;
        Ok(this)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.enter()?;
        let mut stream = 0;
        // SAFETY: a place for the handle.
        self.check(self.table.stream.1, unsafe { (self.table.stream.0)(&raw mut stream, NON_BLOCKING) })?;
        self.stream = stream;
        self.began = self.event()?;
        // SAFETY: both are handles of this library.
        self.check(self.table.mark.1, unsafe { (self.table.mark.0)(self.began, self.stream) })
    }

    fn check(&self, call: &'static str, code: i32) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        let kind = match code {
            OUT_OF_MEMORY => Kind::Memory,
            code if OF_CODE.contains(&code) => Kind::Code,
            code if OF_LOSS.contains(&code) => Kind::Lost,
            _ => Kind::Other,
        };
        Err(Failure { call, why: format!("error {code}: {}", (self.host.describe)(code)), kind })
    }

    /// Devices are chosen thread by thread, and sessions go from one thread to another.
    fn enter(&self) -> Result<(), Failure> {
        let call = match self.family {
            Family::Hip => "hipSetDevice",
            #[cfg(feature = "cuda-dev")]
            Family::Cuda => "cuCtxSetCurrent",
        };
        self.check(call, (self.host.enter)())
    }

    fn event(&mut self) -> Result<usize, Failure> {
        if let Some(event) = self.events.pop() {
            return Ok(event);
        }
        let mut event = 0;
        // SAFETY: a place for the handle.
        self.check(self.table.event.1, unsafe { (self.table.event.0)(&raw mut event, 0) })?;
        Ok(event)
    }

    /// An event that comes when all that was submitted so far is done.
    fn mark(&mut self) -> Result<usize, Failure> {
        let event = self.event()?;
        // SAFETY: both are handles of this library.
        self.check(self.table.mark.1, unsafe { (self.table.mark.0)(event, self.stream) })?;
        Ok(event)
    }

    fn wait_for(&self, event: usize, most: Duration) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            // SAFETY: a handle of this library.
            match unsafe { (self.table.passed.0)(event) } {
                NOT_READY => {}
                code => return self.check(self.table.passed.1, code),
            }
            let waited = began.elapsed();
            if waited > most {
                let why = format!("nothing was done for {} s", most.as_secs_f32());
                return Err(Failure { call: self.table.passed.1, why, kind: Kind::Late });
            }
            if waited > EAGER {
                std::thread::sleep(PAUSE);
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// A part of the staging memory that nothing uses.
    fn staging(&mut self) -> Result<usize, Failure> {
        self.turn = 1 - self.turn;
        if let Some(event) = self.staging[self.turn].busy.take() {
            let done = self.wait_for(event, PATIENCE);
            self.events.push(event);
            done?;
        }
        if self.staging[self.turn].address == 0 {
            let mut address = 0;
            // SAFETY: a place for the address.
            self.check(self.table.allocate_host.1, unsafe { (self.table.allocate_host.0)(&raw mut address, PART, 0) })?;
            self.staging[self.turn].address = address;
        }
        Ok(self.staging[self.turn].address)
    }

    /// Submits a command.
    fn act(&self, act: &Act<usize>) -> Result<(), Failure> {
        match act {
            Act::Copy { from, to, bytes } => {
                let (from, to) = (from.memory.handle + from.offset, to.memory.handle + to.offset);
                // SAFETY: the session has checked that both lie within their buffers.
                self.check(self.table.on_device.1, unsafe { (self.table.on_device.0)(to, from, *bytes, self.stream) })
            }
            Act::Dispatch { function, grid: [x, y, z], threads, pointers, numbers } => {
                let mut addresses: Vec<usize> = pointers.iter().map(|p| p.memory.handle + p.offset).collect();
                let mut numbers = numbers.clone();
                let pointers = addresses.iter_mut().map(|a| (&raw mut *a).cast::<c_void>());
                let mut arguments: Vec<*mut c_void> = pointers.chain(numbers.iter_mut().map(|n| (&raw mut *n).cast())).collect();
                let (args, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
                let call = self.table.launch.0;
                // SAFETY: the kernel takes these pointers and numbers, which the library copies before it returns; the plan's own
                // checks hold that they are those of the kernel, and tests that each kernel stays within its buffers.
                let code = unsafe { call(*function, *x, *y, *z, *threads, 1, 1, 0, self.stream, args, none) };
                self.check(self.table.launch.1, code)
            }
        }
    }

    /// A graph of commands, and its instance.
    fn capture(&self, graphs: &Graphs, acts: &[Act<usize>]) -> Result<(usize, usize), Failure> {
        // SAFETY: a handle of this library; the capture is ended below in any case.
        self.check(graphs.begin.1, unsafe { (graphs.begin.0)(self.stream, RELAXED) })?;
        let recorded = acts.iter().try_for_each(|act| self.act(act));
        let (mut graph, mut instance) = (0, 0);
        // SAFETY: a place for the handle.
        let ended = self.check(graphs.end.1, unsafe { (graphs.end.0)(self.stream, &raw mut graph) });
        let made = recorded.and(ended).and_then(|()| {
            // SAFETY: a graph of this library, and a place for the handle.
            self.check(graphs.instantiate.1, unsafe { (graphs.instantiate.0)(&raw mut instance, graph, 0) })
        });
        if made.is_err() && graph != 0 {
            // SAFETY: nothing uses the graph.
            unsafe { (graphs.drop_graph.0)(graph) };
        }
        made.map(|()| (graph, instance))
    }
}

impl Calls for Streams {
    type Code = usize;
    type Function = usize;
    type List = List;
    type Mark = Mark;

    fn name(&self) -> &'static str {
        match self.family {
            Family::Hip => "hip",
            #[cfg(feature = "cuda-dev")]
            Family::Cuda => "cuda",
        }
    }

    fn library(&self) -> &str {
        &self.library
    }

    fn free_bytes(&self) -> Result<usize, Failure> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: places for both numbers.
        self.check(self.table.memory.1, unsafe { (self.table.memory.0)(&raw mut free, &raw mut total) })?;
        Ok(free)
    }

    fn allocate(&mut self, bytes: usize, shared: bool) -> Result<Memory, Failure> {
        self.enter()?;
        let shared = shared && self.host.unified;
        let mut address = 0;
        if shared {
            // SAFETY: a place for the address.
            self.check(self.table.allocate_host.1, unsafe { (self.table.allocate_host.0)(&raw mut address, bytes, 0) })?;
        } else {
            // SAFETY: a place for the address.
            self.check(self.table.allocate.1, unsafe { (self.table.allocate.0)(&raw mut address, bytes) })?;
        }
        Ok(Memory { handle: address, host: shared.then_some(address), bytes })
    }

    fn free(&mut self, memory: Memory) {
        let call = if memory.host.is_some() { self.table.free_host.0 } else { self.table.free.0 };
        if self.enter().is_ok() {
            // SAFETY: the session gives each of its buffers back once. What fails here has failed before.
            unsafe { call(memory.handle) };
        }
    }

    fn write(&mut self, to: Span, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(host) = to.memory.host {
            // SAFETY: the session has checked the bounds, and its user promises that no submission uses the place.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (host + to.offset) as *mut u8, bytes.len()) };
            return Ok(());
        }
        self.enter()?;
        let mut at = to.memory.handle + to.offset;
        for part in bytes.chunks(PART) {
            let room = self.staging()?;
            // SAFETY: the room has PART bytes, and the device is done with it.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), room as *mut u8, part.len()) };
            // SAFETY: the session has checked the bounds; the room stays until the event below has come.
            self.check(self.table.to_device.1, unsafe { (self.table.to_device.0)(at, room, part.len(), self.stream) })?;
            self.staging[self.turn].busy = Some(self.mark()?);
            at += part.len();
        }
        Ok(())
    }

    fn read(&mut self, from: Span, bytes: &mut [u8]) -> Result<(), Failure> {
        self.enter()?;
        let mut at = from.memory.handle + from.offset;
        for part in bytes.chunks_mut(PART) {
            let room = self.staging()?;
            // SAFETY: the room has PART bytes; the session has checked the bounds of the other.
            self.check(self.table.to_host.1, unsafe { (self.table.to_host.0)(room, at, part.len(), self.stream) })?;
            let event = self.mark()?;
            let done = self.wait_for(event, PATIENCE);
            self.events.push(event);
            done?;
            // SAFETY: the device has written the room, and is done with it.
            unsafe { std::ptr::copy_nonoverlapping(room as *const u8, part.as_mut_ptr(), part.len()) };
            at += part.len();
        }
        Ok(())
    }

    fn load(&mut self, object: &str, code: &[u8]) -> Result<usize, Failure> {
        self.enter()?;
        let (call, name) = self.table.load;
        let other = match &self.host.code {
            Some(code) => Some(code(object).map_err(|why| Failure { call: name, why, kind: Kind::Code })?),
            None => None,
        };
        let mut module = 0;
        // SAFETY: a place for the handle, and a code object, whose headers say how long it is (or text with a zero at its end).
        self.check(name, unsafe { call(&raw mut module, other.as_deref().unwrap_or(code).as_ptr().cast()) })?;
        Ok(module)
    }

    fn function(&mut self, code: &usize, kernel: &str) -> Result<usize, Failure> {
        self.enter()?;
        let (call, name) = self.table.function;
        let kernel = CString::new(kernel).map_err(|e| Failure { call: name, why: e.to_string(), kind: Kind::Code })?;
        let mut function = 0;
        // SAFETY: a place for the handle, a module of this library, and a name that ends with a zero.
        self.check(name, unsafe { call(&raw mut function, *code, kernel.as_ptr()) })?;
        Ok(function)
    }

    fn unload(&mut self, code: usize) {
        if self.enter().is_ok() {
            // SAFETY: the session gives each back once, and uses none of its kernels any more.
            unsafe { (self.table.unload.0)(code) };
        }
    }

    fn record(&mut self, acts: Vec<Act<usize>>) -> Result<List, Failure> {
        self.enter()?;
        let graph = match &self.graphs {
            Some(graphs) if acts.len() > 1 => Some(self.capture(graphs, &acts)?),
            _ => None,
        };
        Ok(List { acts: if graph.is_some() { vec![] } else { acts }, graph })
    }

    fn forget(&mut self, list: List) {
        if let (Some((graph, instance)), Some(graphs), Ok(())) = (list.graph, &self.graphs, self.enter()) {
            // SAFETY: no submission uses them any more.
            unsafe { (graphs.drop_instance.0)(instance) };
            // SAFETY: as above.
            unsafe { (graphs.drop_graph.0)(graph) };
        }
    }

    fn submit(&mut self, list: &List) -> Result<Mark, Failure> {
        self.enter()?;
        let before = self.mark()?;
        match (list.graph, &self.graphs) {
            (Some((_, instance)), Some(graphs)) => {
                // SAFETY: an instance and a stream of this library.
                self.check(graphs.launch.1, unsafe { (graphs.launch.0)(instance, self.stream) })?;
            }
            _ => list.acts.iter().try_for_each(|act| self.act(act))?,
        }
        Ok(Mark { before, after: self.mark()? })
    }

    fn wait(&mut self, mark: Mark, most: Duration) -> Result<Times, Failure> {
        self.enter()?;
        self.wait_for(mark.after, most)?;
        let mut spans = VecDeque::new();
        for (from, to) in [(self.began, mark.before), (mark.before, mark.after)] {
            let mut milliseconds = 0.0;
            // SAFETY: a place for the number, and events that have come.
            self.check(self.table.elapsed.1, unsafe { (self.table.elapsed.0)(&raw mut milliseconds, from, to) })?;
            spans.push_back(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default());
        }
        self.events.extend([mark.before, mark.after]);
        Ok(Times { began: spans[0], ended: spans[0] + spans[1] })
    }

    fn end(&mut self) {
        if self.enter().is_err() {
            return;
        }
        let busy = self.staging.iter_mut().filter_map(|s| s.busy.take());
        let events: Vec<usize> = busy.chain(self.events.drain(..)).chain([self.began]).collect();
        for event in events {
            // SAFETY: a handle of this library that is used no more.
            unsafe { (self.table.drop_event.0)(event) };
        }
        // SAFETY: as above.
        unsafe { (self.table.drop_stream.0)(self.stream) };
        for staging in self.staging.iter().filter(|s| s.address != 0) {
            // SAFETY: as above; the stream's copies have ended with it.
            unsafe { (self.table.free_host.0)(staging.address) };
        }
    }
}
