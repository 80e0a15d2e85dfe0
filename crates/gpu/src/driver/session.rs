//! What the drivers of real devices have in common: which buffers, kernels and lists there are, and what of a call is refused before the
//! device's library sees it.

use super::{Buffer, Command, CommandList, DeviceInfo, Driver, DriverError, Kernel, Place, Ticket, Times};
use rdna::{CodeObject, LoadError};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// A call of a library that has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The function.
    pub(super) call: &'static str,
    /// What the library says.
    pub(super) why: String,
    /// What it means.
    pub(super) kind: Kind,
}

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is not enough memory.
    Memory,
    /// The code is broken, or for another device.
    Code,
    /// The device does not answer any more.
    Lost,
    /// It has not finished in time.
    Late,
    /// Anything else.
    Other,
}

/// Memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// What the library calls it: an address, or a handle.
    pub(super) handle: usize,
    /// Where the host sees it, if it does.
    pub(super) host: Option<usize>,
    /// How large it is.
    pub(super) bytes: usize,
}

/// A place in memory, and how many bytes there are from it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) memory: Memory,
    pub(super) offset: usize,
}

/// A command, with what the library calls its parts.
#[derive(Debug, Clone)]
pub(super) enum Act<F> {
    Dispatch { function: F, grid: [u32; 3], threads: u32, pointers: Vec<Span>, numbers: Vec<u32> },
    Copy { from: Span, to: Span, bytes: usize },
}

/// The calls that a session makes of a library.
pub(super) trait Calls: Send {
    /// A loaded code object.
    type Code: Send;
    /// A kernel.
    type Function: Clone + Send;
    /// Recorded commands.
    type List: Send;
    /// A submission.
    type Mark: Send;

    /// The driver's name.
    fn name(&self) -> &'static str;
    /// The library: path and version.
    fn library(&self) -> &str;
    /// Bytes that can still be had.
    fn free_bytes(&self) -> Result<usize, Failure>;
    /// Takes memory; `shared`: such that the host can write it without a copy, where there is such.
    fn allocate(&mut self, bytes: usize, shared: bool) -> Result<Memory, Failure>;
    /// Gives memory back.
    fn free(&mut self, memory: Memory);
    /// Copies to the device, before all that is submitted later.
    fn write(&mut self, to: Span, bytes: &[u8]) -> Result<(), Failure>;
    /// Copies from the device, after all that was submitted before.
    fn read(&mut self, from: Span, bytes: &mut [u8]) -> Result<(), Failure>;
    /// Loads a code object.
    fn load(&mut self, object: &str, code: &[u8]) -> Result<Self::Code, Failure>;
    /// Gives a code object back.
    fn unload(&mut self, code: Self::Code);
    /// A kernel of a code object.
    fn function(&mut self, code: &Self::Code, kernel: &str) -> Result<Self::Function, Failure>;
    /// Records commands.
    fn record(&mut self, acts: Vec<Act<Self::Function>>) -> Result<Self::List, Failure>;
    /// Gives a list back.
    fn forget(&mut self, list: Self::List);
    /// Has a list run.
    fn submit(&mut self, list: &Self::List) -> Result<Self::Mark, Failure>;
    /// Waits for a submission; [`Kind::Late`] when it takes longer than that.
    fn wait(&mut self, mark: Self::Mark, most: Duration) -> Result<Times, Failure>;
    /// Gives back what is left.
    fn end(&mut self);
}

/// A kernel, and how many threads its workgroups have.
struct Loaded<F> {
    function: F,
    threads: u32,
}

/// A device that a library serves.
pub(super) struct Session<C: Calls> {
    calls: C,
    info: DeviceInfo,
    buffers: HashMap<Buffer, Memory>,
    codes: HashMap<String, (C::Code, CodeObject)>,
    kernels: Vec<Loaded<C::Function>>,
    by_name: HashMap<(String, String), Kernel>,
    lists: HashMap<CommandList, C::List>,
    marks: BTreeMap<Ticket, C::Mark>,
    next: u32,
    lost: Option<DriverError>,
}

impl<C: Calls> Session<C> {
    pub(super) fn new(calls: C, info: DeviceInfo) -> Self {
        Self {
            calls,
            info,
            buffers: HashMap::new(),
            codes: HashMap::new(),
            kernels: vec![],
            by_name: HashMap::new(),
            lists: HashMap::new(),
            marks: BTreeMap::new(),
            next: 0,
            lost: None,
        }
    }

    fn id(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn alive(&self) -> Result<(), DriverError> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    fn span(&self, place: Place, bytes: usize) -> Result<Span, DriverError> {
        let Place { buffer, offset } = place;
        let memory = *self.buffers.get(&buffer).ok_or_else(|| DriverError::Misuse(format!("there is no {buffer:?}")))?;
        if offset.checked_add(bytes).is_none_or(|end| end > memory.bytes) {
            return Err(DriverError::Misuse(format!("{bytes} bytes at {offset} are outside of a buffer of {}", memory.bytes)));
        }
        Ok(Span { memory, offset })
    }

    /// What a failure is to who uses the driver. A device that is lost, late, or stopped in the middle of its commands stays so: what
    /// its memory holds is not known any more.
    fn failed(&mut self, failure: Failure, in_the_middle: bool) -> DriverError {
        let Failure { call, why, kind } = failure;
        let told = format!("{call} of {}: {why}", self.calls.library());
        let error = match kind {
            Kind::Lost => DriverError::Lost(told),
            Kind::Late => DriverError::Timeout(told),
            _ => DriverError::Failed(told),
        };
        if in_the_middle || matches!(kind, Kind::Lost | Kind::Late) {
            self.lost.get_or_insert_with(|| error.clone());
        }
        error
    }

    fn take(&mut self, bytes: usize, what: &str, shared: bool) -> Result<Buffer, DriverError> {
        self.alive()?;
        let memory = self.calls.allocate(bytes.max(1), shared).map_err(|failure| match failure.kind {
            Kind::Memory => DriverError::OutOfMemory { what: what.into(), needed: bytes, available: self.calls.free_bytes().unwrap_or(0) },
            _ => self.failed(failure, false),
        })?;
        let buffer = Buffer(self.id());
        self.buffers.insert(buffer, Memory { bytes, ..memory });
        Ok(buffer)
    }

    fn code(&mut self, object: &str, code: &[u8]) -> Result<(), DriverError> {
        if self.codes.contains_key(object) {
            return Ok(());
        }
        let broken = |why: String| DriverError::Code { object: object.into(), why };
        let read = CodeObject::read(code).map_err(|e| match e {
            LoadError::Unsupported(made_for) => {
                DriverError::Architecture { object: object.into(), made_for, device: self.info.architecture.clone() }
            }
            other => broken(other.to_string()),
        })?;
        let loaded = self.calls.load(object, code).map_err(|failure| match failure.kind {
            Kind::Code => broken(format!("{} of {}: {}", failure.call, self.calls.library(), failure.why)),
            _ => self.failed(failure, false),
        })?;
        self.codes.insert(object.into(), (loaded, read));
        Ok(())
    }
}

impl<C: Calls> Driver for Session<C> {
    fn name(&self) -> &'static str {
        self.calls.name()
    }

    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn available(&self) -> usize {
        self.calls.free_bytes().unwrap_or(0)
    }

    fn allocate(&mut self, bytes: usize, what: &str) -> Result<Buffer, DriverError> {
        self.take(bytes, what, false)
    }

    fn allocate_shared(&mut self, bytes: usize, what: &str) -> Result<Buffer, DriverError> {
        self.take(bytes, what, true)
    }

    fn free(&mut self, buffer: Buffer) {
        if let Some(memory) = self.buffers.remove(&buffer) {
            self.calls.free(memory);
        }
    }

    fn write(&mut self, to: Place, bytes: &[u8]) -> Result<(), DriverError> {
        self.alive()?;
        let span = self.span(to, bytes.len())?;
        self.calls.write(span, bytes).map_err(|failure| self.failed(failure, false))
    }

    fn read(&mut self, from: Place, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.alive()?;
        let span = self.span(from, bytes.len())?;
        self.calls.read(span, bytes).map_err(|failure| self.failed(failure, false))
    }

    fn kernel(&mut self, object: &str, code: &[u8], kernel: &str) -> Result<Kernel, DriverError> {
        self.alive()?;
        let key = (object.to_string(), kernel.to_string());
        if let Some(known) = self.by_name.get(&key) {
            return Ok(*known);
        }
        self.code(object, code)?;
        let (loaded, read) = &self.codes[object];
        let broken = |why: String| DriverError::Code { object: object.into(), why };
        let threads = read.kernel(kernel).map_err(|e| broken(e.to_string()))?.max_workgroup;
        let function = match self.calls.function(loaded, kernel) {
            Ok(function) => function,
            Err(failure) if failure.kind == Kind::Code => {
                return Err(broken(format!("kernel {kernel}: {}: {}", failure.call, failure.why)));
            }
            Err(failure) => return Err(self.failed(failure, false)),
        };
        let id = Kernel(self.kernels.len() as u32);
        self.kernels.push(Loaded { function, threads });
        self.by_name.insert(key, id);
        Ok(id)
    }

    fn record(&mut self, commands: &[Command]) -> Result<CommandList, DriverError> {
        self.alive()?;
        let mut acts = vec![];
        for command in commands {
            acts.push(match command {
                Command::Dispatch { kernel, grid, pointers, numbers } => {
                    let loaded = self.kernels.get(kernel.0 as usize).filter(|_| !grid.contains(&0));
                    let Some(Loaded { function, threads }) = loaded else {
                        return Err(DriverError::Misuse(format!("{kernel:?} with a grid of {grid:?} workgroups")));
                    };
                    let pointers = pointers.iter().map(|place| self.span(*place, 0)).collect::<Result<_, _>>()?;
                    Act::Dispatch { function: function.clone(), grid: *grid, threads: *threads, pointers, numbers: numbers.clone() }
                }
                Command::Copy { from, to, bytes } => {
                    Act::Copy { from: self.span(*from, *bytes)?, to: self.span(*to, *bytes)?, bytes: *bytes }
                }
            });
        }
        acts.retain(|act| !matches!(act, Act::Copy { bytes: 0, .. }));
        let recorded = self.calls.record(acts).map_err(|failure| self.failed(failure, false))?;
        let list = CommandList(self.id());
        self.lists.insert(list, recorded);
        Ok(list)
    }

    fn forget(&mut self, list: CommandList) {
        if let Some(list) = self.lists.remove(&list) {
            self.calls.forget(list);
        }
    }

    fn submit(&mut self, list: CommandList) -> Result<Ticket, DriverError> {
        self.alive()?;
        let recorded = self.lists.get(&list).ok_or_else(|| DriverError::Misuse(format!("there is no {list:?}")))?;
        let mark = match self.calls.submit(recorded) {
            Ok(mark) => mark,
            Err(failure) => return Err(self.failed(failure, true)),
        };
        let ticket = Ticket(self.id());
        self.marks.insert(ticket, mark);
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket, most: Duration) -> Result<Times, DriverError> {
        self.alive()?;
        let mark = self.marks.remove(&ticket);
        let mark = mark.ok_or_else(|| DriverError::Misuse(format!("nobody has submitted {ticket:?}, or it was waited for")))?;
        self.calls.wait(mark, most).map_err(|failure| self.failed(failure, true))
    }
}

impl<C: Calls> Drop for Session<C> {
    fn drop(&mut self) {
        // What a lost device was given cannot be taken back from it: its library could wait for ever.
        if self.lost.is_some() {
            return;
        }
        for (_, list) in self.lists.drain() {
            self.calls.forget(list);
        }
        for (_, memory) in self.buffers.drain() {
            self.calls.free(memory);
        }
        for (_, (code, _)) in self.codes.drain() {
            self.calls.unload(code);
        }
        self.calls.end();
    }
}
