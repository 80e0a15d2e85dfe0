//! The drivers of real devices, over libraries that stand in for AMD's and have the emulator run what they are given: loading, arguments,
//! lists, memory, and everything that can fail.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod evidence;

use evidence::Outcome;
use onebit_gpu::{
    ARCHITECTURE, Gpu,
    driver::{Buffer, Command, Driver, DriverError, Place, SimOptions, hip, hrx, probe::probe},
    kernels::object,
};
use onebit_plan::{Batch, Device, DeviceError, Executable, Span};
use onebit_reference::check;
use onebit_standin::{Counts, Fault, Settings, install};
use std::{path::PathBuf, time::Duration};

/// A copy of the stand-in with settings of its own.
struct Copy {
    folder: tempfile::TempDir,
    kind: Kind,
}

/// What it stands in for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Hip(i32),
    Hrx { formats: bool },
}

const KINDS: [Kind; 4] = [Kind::Hip(6), Kind::Hip(7), Kind::Hrx { formats: true }, Kind::Hrx { formats: false }];

/// The functions that only later HRX has.
const GRAPHS: [&str; 1] = ["hrx_graph_create"];

fn library() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libonebit_standin.so")
}

impl Copy {
    fn new(kind: &Kind, settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copy = Self { folder, kind: kind.clone() };
        let mut settings = settings;
        match kind {
            Kind::Hip(major) => settings.version[0] = *major,
            Kind::Hrx { formats } => {
                (settings.version, settings.formats) = ([0, 3, 0], *formats);
                if *formats {
                    settings.without.extend(GRAPHS.map(String::from));
                }
            }
        }
        settings.counts = Some(copy.folder.path().join("counts.json"));
        install(&library(), &copy.path(), &settings).unwrap();
        copy
    }

    fn with_fault(kind: &Kind, call: &str, after: u64, code: i32) -> Self {
        let fault = Fault { call: call.into(), after, times: u64::MAX, code };
        Self::new(kind, Settings { faults: vec![fault], ..Settings::default() })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(if matches!(self.kind, Kind::Hip(_)) { "libamdhip64.so.7" } else { "libhrx.so" })
    }

    fn gpu(&self) -> Gpu {
        let gpu = if matches!(self.kind, Kind::Hip(_)) { Gpu::hip(Some(self.path())) } else { Gpu::hrx(Some(self.path())) };
        gpu.without_matrices().with_patience(Duration::from_secs(5))
    }

    fn session(&self) -> Result<Box<dyn Driver>, DriverError> {
        match self.kind {
            Kind::Hip(_) => hip::Hip::open(&hip::search(Some(self.path()), &|_| None))?.session(ARCHITECTURE),
            Kind::Hrx { .. } => hrx::Hrx::open(&hrx::search(Some(self.path()), &|_| None))?.session(ARCHITECTURE),
        }
    }

    fn counts(&self) -> Counts {
        serde_json::from_slice(&std::fs::read(self.folder.path().join("counts.json")).unwrap()).unwrap()
    }
}

fn at(buffer: Buffer) -> Place {
    Place { buffer, offset: 0 }
}

/// `scale`: y = 3 x for `count` numbers in buffers of 256.
fn tripled(driver: &mut dyn Driver, count: u32) -> Result<(Command, Place), DriverError> {
    let x = driver.allocate_shared(1024, "x")?;
    let y = driver.allocate(1024, "y")?;
    let bytes: Vec<u8> = (0..256u16).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    driver.write(at(x), &bytes)?;
    let kernel = driver.kernel("elementwise", object("elementwise").unwrap().bytes, "scale")?;
    let numbers = vec![count, 3f32.to_bits()];
    Ok((Command::Dispatch { kernel, grid: [count.div_ceil(256), 1, 1], pointers: vec![at(x), at(y)], numbers }, at(y)))
}

/// Everything once: memory, a kernel, a list of one command, a list of several, results.
fn all_calls(driver: &mut dyn Driver) -> Result<(), DriverError> {
    let (command, y) = tripled(driver, 256)?;
    let z = driver.allocate(1024, "z")?;
    driver.write(at(z), &[0; 1024])?;
    let copy = Command::Copy { from: y, to: at(z), bytes: 1024 };
    let Command::Dispatch { kernel, grid, numbers, .. } = command.clone() else { unreachable!() };
    let again = Command::Dispatch { kernel, grid, pointers: vec![at(z), at(z)], numbers };
    for commands in [vec![command.clone()], vec![copy.clone()], vec![command, copy, again]] {
        let list = driver.record(&commands)?;
        for _ in 0..2 {
            let ticket = driver.submit(list)?;
            let times = driver.wait(ticket, Duration::from_secs(5))?;
            assert!(times.ended >= times.began);
        }
        driver.forget(list);
    }
    for (place, factor) in [(y, 3.0), (at(z), 9.0)] {
        let mut out = [0; 1024];
        driver.read(place, &mut out)?;
        assert_eq!(f32::from_le_bytes(out[800..804].try_into().unwrap()), 200.0 * factor);
    }
    driver.free(z);
    Ok(())
}

#[test]
fn each_library_serves() {
    for kind in &KINDS {
        let copy = Copy::new(kind, Settings::default());
        let mut driver = copy.session().unwrap();
        let before = driver.available();
        all_calls(driver.as_mut()).unwrap();
        let info = driver.device();
        assert_eq!((info.architecture.as_str(), info.memory), ("gfx1151", 8 << 30), "{kind:?}");
        let version = match kind {
            Kind::Hip(major) => format!("HIP {major}.2.0"),
            Kind::Hrx { formats } => format!("HRX 0.3.0{}", if *formats { "" } else { ", with graphs" }),
        };
        assert_eq!(info.driver, format!("{version}, {}", copy.path().display()));
        assert!(driver.available() < before, "{kind:?}");
    }
}

/// A whole model gives the bits that it gives in the emulator, however it is fed, and takes no more memory than was planned.
#[test]
fn a_model_has_the_same_bits_through_each_library() -> Outcome {
    let (Some(model), Some(expected)) = (evidence::model("llama")?, evidence::expected("llama")?) else { return Ok(()) };
    let limits = evidence::limits();
    let logits = |gpu: &Gpu| -> Outcome<Vec<f32>> {
        let mut executable = gpu.load(model.clone(), &limits, &mut |_| {})?;
        let pages: Vec<u32> = (0..expected.long.len().div_ceil(limits.page) as u32).collect();
        let span = Span { len: expected.long.len(), start: 0, pages: &pages, slot: 0, outputs: expected.long.len() };
        Ok(executable.step(&Batch::text(&expected.long, &[span]))?.to_vec())
    };
    let own = logits(&Gpu::sim(SimOptions::default()).without_matrices())?;
    for kind in &KINDS {
        let copy = Copy::new(kind, Settings::default());
        let gpu = copy.gpu();
        assert_eq!(logits(&gpu)?, own, "{kind:?}");
        let report = check::fixture(&gpu, model.clone(), &expected, &limits)?;
        report.hold(0.01)?;
        let (counts, planned) = (copy.counts(), gpu.memory(&model, &limits).total() as u64);
        let most = counts.most_device + counts.most_shared;
        assert!(most > planned / 2, "{kind:?}: {most} of {planned} planned");
        // The two parts that copies go through are not the model's.
        assert!(most <= planned + planned / 10 + (8 << 20), "{kind:?}: {most} of {planned} planned");
        assert!(counts.dispatches > counts.submissions || matches!(kind, Kind::Hrx { formats: true }), "{counts:?}");
    }
    Ok(())
}

/// The functions that a driver calls, by what its source names.
fn called(source: &str, prefix: &str) -> Vec<String> {
    let names =
        source.split('"').filter(|s| s.starts_with(prefix) && s.len() > 5 && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    let mut names: Vec<_> = names.map(String::from).collect();
    names.sort();
    names.dedup();
    names
}

fn functions(kind: &Kind) -> Vec<String> {
    match kind {
        Kind::Hip(_) => called(concat!(include_str!("../src/driver/hip.rs"), include_str!("../src/driver/streams.rs")), "hip"),
        Kind::Hrx { formats } => {
            let mut names = called(include_str!("../src/driver/hrx.rs"), "hrx_");
            if *formats {
                names.retain(|n| !n.starts_with("hrx_graph") && n != "hrx_buffer_get_device_ptr");
            }
            names
        }
    }
}

/// What works without: lists are submitted command by command, and free memory is counted by ourselves.
fn is_optional(name: &str) -> bool {
    name.starts_with("hipGraph") || name.starts_with("hipStream") && name.ends_with("Capture") || name == "hrx_device_memory_info"
}

#[test]
fn a_missing_function_is_named() {
    for kind in [Kind::Hip(7), Kind::Hrx { formats: false }] {
        let names = functions(&kind);
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            let copy = Copy::new(&kind, Settings { without: vec![name.clone()], ..Settings::default() });
            match copy.session() {
                Ok(mut driver) => {
                    // Without graphs it is the older generation, whose code objects are loaded in another way.
                    assert!(is_optional(&name) || GRAPHS.contains(&name.as_str()), "{name} is not missed");
                    if is_optional(&name) {
                        all_calls(driver.as_mut()).unwrap();
                    }
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(!is_optional(&name), "{told}");
                    assert!(told.contains(&name) && told.contains(&copy.path().display().to_string()), "{told}");
                    assert!(told.contains("HIP 7.2.0") || told.contains("HRX 0.3.0") || told.contains("version unknown"), "{told}");
                }
            }
        }
    }
}

#[test]
fn other_versions_and_devices_are_refused() {
    let of = |kind: &Kind, settings: Settings| Copy::new(kind, settings).session().err().unwrap().to_string();
    let told = of(&Kind::Hip(5), Settings::default());
    assert!(told.contains("HIP 5.2; 6 and 7 can be used"), "{told}");
    for kind in &KINDS {
        let told = of(kind, Settings { architecture: "gfx1100".into(), ..Settings::default() });
        assert!(told.contains("made for gfx1151") && told.contains("(gfx1100)"), "{told}");
        let told = of(kind, Settings { devices: 0, ..Settings::default() });
        assert!(told.contains("sees no device"), "{told}");
    }
}

#[test]
fn a_library_that_is_none_or_not_there_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libamdhip64.so.7");
    let told = |given: PathBuf| hip::Hip::open(&hip::search(Some(given), &|_| None)).err().unwrap().to_string();
    assert!(told(path.clone()).contains("there is no such file"));
    std::fs::write(&path, b"not a library").unwrap();
    let refused = told(folder.path().to_path_buf());
    assert!(refused.contains(&path.display().to_string()) && refused.starts_with("hip is not available"), "{refused}");
    // A folder of the environment, where nobody gives one.
    let list = |name: &str| (name == "LD_LIBRARY_PATH").then(|| folder.path().as_os_str().to_owned());
    let refused = hrx::Hrx::open(&hrx::search(None, &list)).err().unwrap().to_string();
    assert!(refused.contains(&format!("no libhrx.so was found in {}", folder.path().display())), "{refused}");
    let copy = Copy::new(&Kind::Hip(7), Settings::default());
    let list = |name: &str| (name == "LD_LIBRARY_PATH").then(|| copy.folder.path().as_os_str().to_owned());
    assert!(hip::Hip::open(&hip::search(None, &list)).is_ok());
}

#[test]
fn probes_tell_of_both_drivers() {
    let (good, bad) =
        (Copy::new(&Kind::Hip(7), Settings::default()), Copy::with_fault(&Kind::Hrx { formats: false }, "hrx_stream_create", 0, 13));
    let found = probe(&hrx::search(Some(bad.path()), &|_| None), &hip::search(Some(good.path()), &|_| None), ARCHITECTURE);
    assert_eq!(found.iter().map(|p| p.driver).collect::<Vec<_>>(), ["hrx", "hip"]);
    assert!(found[0].device.is_some() && found[0].fault.as_ref().unwrap().contains("hrx_stream_create"), "{:?}", found[0]);
    assert!(found[1].fault.is_none() && found[1].available == Some(8 << 30), "{:?}", found[1]);
}

/// Each function of each library fails when it is called first, and then when it is called again: the error names it, and nothing hangs
/// or panics.
#[test]
fn each_call_may_fail() {
    for kind in &KINDS {
        for name in functions(kind) {
            for after in [0, 1] {
                let code = if matches!(kind, Kind::Hip(_)) { 1 } else { 13 };
                let copy = Copy::with_fault(kind, &name, after, code);
                let done = copy.session().and_then(|mut driver| all_calls(driver.as_mut()));
                // What tells of errors cannot fail, what gives back is not asked, and what is called once at most cannot fail twice.
                if let Err(error) = done {
                    let told = error.to_string();
                    assert!(told.contains(&name), "{name}: {told}");
                    assert!(
                        matches!(error, DriverError::Unavailable { .. } | DriverError::Failed(_) | DriverError::Code { .. }),
                        "{error:?}"
                    );
                } else if after == 0 {
                    let silent =
                        ["Error", "Free", "Destroy", "status", "release", "allocator", "version", "MemGetInfo", "memory_info", "Unload"];
                    let unused = name == "hrx_buffer_get_device_ptr" || name == "hrx_graph_create";
                    assert!(unused || silent.iter().any(|s| name.contains(s)), "{name} of {kind:?} failed unnoticed");
                }
            }
        }
    }
}

#[test]
fn memory_that_is_not_there_is_told() -> Outcome {
    for kind in &KINDS {
        let copy = Copy::new(kind, Settings { memory: 10_000, ..Settings::default() });
        let mut driver = copy.session()?;
        driver.allocate(9000, "a")?;
        let refused = driver.allocate(2000, "the cache").unwrap_err();
        assert_eq!(refused, DriverError::OutOfMemory { what: "the cache".into(), needed: 2000, available: 1000 }, "{kind:?}");
        // A model that does not fit is refused before it is loaded; one whose memory goes to others meanwhile, when that shows.
        let Some(model) = evidence::model("llama")? else { continue };
        assert!(matches!(copy.gpu().load(model.clone(), &evidence::limits(), &mut |_| {}), Err(DeviceError::Memory { .. })));
        let (call, code) = match kind {
            Kind::Hip(_) => ("hipMalloc", 2),
            Kind::Hrx { .. } => ("hrx_allocator_allocate_buffer", 8),
        };
        for after in 0..12 {
            let copy = Copy::with_fault(kind, call, after, code);
            match copy.gpu().load(model.clone(), &evidence::limits(), &mut |_| {}) {
                Err(DeviceError::Memory { what, needed, .. }) => assert!(!what.is_empty() && needed > 0),
                other => panic!("{kind:?}, allocation {after}: {:?}", other.err()),
            }
        }
    }
    Ok(())
}

/// A device that is lost in the middle of a token, or does not answer: told by who waits, and from then on.
#[test]
fn a_lost_device_stays_lost() -> Outcome {
    let Some(model) = evidence::model("llama")? else { return Ok(()) };
    for kind in &KINDS {
        let faults = match kind {
            Kind::Hip(_) => [("hipEventQuery", 719), ("hipEventQuery", 600)],
            Kind::Hrx { .. } => [("hrx_semaphore_wait", 10), ("hrx_semaphore_wait", 4)],
        };
        for (call, code) in faults {
            let mut executable = Copy::new(kind, Settings::default()).gpu().load(model.clone(), &evidence::limits(), &mut |_| {})?;
            let step = |executable: &mut dyn Executable| {
                let span = Span { len: 2, start: 0, pages: &[0], slot: 0, outputs: 1 };
                executable.step(&Batch::text(&[1, 2], &[span])).map(<[f32]>::len)
            };
            step(executable.as_mut())?;
            // How often it is asked before: in the load and one step.
            let before = if matches!(kind, Kind::Hip(_)) { 40 } else { 1 };
            let copy = Copy::with_fault(kind, call, before, code);
            let gpu = copy.gpu().with_patience(Duration::from_millis(200));
            let mut executable = match gpu.load(model.clone(), &evidence::limits(), &mut |_| {}) {
                Ok(executable) => executable,
                Err(error) => panic!("{kind:?}: {error}"),
            };
            let failed = (0..60).find_map(|_| step(executable.as_mut()).err()).ok_or("it does not fail")?;
            assert!(matches!(&failed, DeviceError::Failed(why) if why.contains(call)), "{failed}");
            let again = step(executable.as_mut()).unwrap_err();
            assert_eq!(again.to_string(), failed.to_string());
        }
    }
    Ok(())
}

#[test]
fn a_kernel_that_leaves_its_buffers_loses_the_device() {
    for kind in &KINDS {
        let copy = Copy::new(kind, Settings::default());
        let mut driver = copy.session().unwrap();
        let (command, y) = tripled(driver.as_mut(), 100_000).unwrap();
        let list = driver.record(&[command]).unwrap();
        let ticket = driver.submit(list).unwrap();
        assert!(matches!(driver.wait(ticket, Duration::from_secs(1)), Err(DriverError::Lost(_))), "{kind:?}");
        assert!(matches!(driver.read(y, &mut [0]), Err(DriverError::Lost(_))), "{kind:?}");
        assert!(matches!(driver.submit(list), Err(DriverError::Lost(_))), "{kind:?}");
    }
}

#[test]
fn code_that_is_broken_is_told() {
    for kind in &KINDS {
        let copy = Copy::new(kind, Settings::default());
        let mut driver = copy.session().unwrap();
        let code = object("norm").unwrap().bytes;
        for end in [0, 40, code.len() / 2] {
            assert!(matches!(driver.kernel("norm", &code[..end], "norm"), Err(DriverError::Code { .. })), "{kind:?}, {end}");
        }
        assert!(matches!(driver.kernel("norm", code, "nothing"), Err(DriverError::Code { why, .. }) if why.contains("round_columns")));
        assert!(driver.kernel("norm", code, "norm").is_ok());
        // What the plan and the kernel disagree on never reaches the device.
        if matches!(kind, Kind::Hrx { .. }) {
            let (command, _) = tripled(driver.as_mut(), 256).unwrap();
            let Command::Dispatch { kernel, grid, mut pointers, numbers } = command else { unreachable!() };
            pointers.pop();
            let refused = driver.record(&[Command::Dispatch { kernel, grid, pointers, numbers }]).unwrap_err().to_string();
            assert!(refused.contains("kernel scale has 2 bindings and 8 bytes of constants there, and 1 and 8 here"), "{refused}");
        }
    }
}
