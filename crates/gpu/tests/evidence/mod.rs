//! Runs a fixture on the CPU and in the emulator.
#![allow(dead_code, clippy::print_stdout)] // not all tests use all of it

use onebit_cpu::Cpu;
use onebit_formats::Checkpoint;
use onebit_gpu::{Gpu, driver::SimOptions};
use onebit_models::load;
use onebit_plan::{ActivationKind, KvType, Limits, Model, Refused};
use onebit_reference::check::{self, Expected, Report};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// As the tests of other devices have it, in the precision that the kernels have.
pub(crate) fn limits() -> Limits {
    Limits { kv: KvType::F16, activations: ActivationKind::Int8, ..check::limits() }
}

pub(crate) fn model(name: &str) -> Outcome<Option<Model>> {
    Ok(check::folder(name).map(|folder| Checkpoint::open(&folder)).transpose()?.map(|checkpoint| load(&checkpoint)).transpose()?)
}

pub(crate) fn expected(name: &str) -> Outcome<Option<Expected>> {
    Ok(check::folder(name).map(|folder| Expected::open(&folder)).transpose()?)
}

/// What no kernel serves of a fixture, or how far the emulator and the CPU are from the expected logits.
pub(crate) enum Found {
    Refused(Vec<Refused>),
    Ran { gpu: Report, cpu: Report },
}

/// `None` where the fixture is not here.
pub(crate) fn run(name: &str) -> Outcome<Option<Found>> {
    let (Some(model), Some(expected)) = (model(name)?, expected(name)?) else { return Ok(None) };
    let refused = Gpu::refusals(&model, &limits());
    if !refused.is_empty() {
        return Ok(Some(Found::Refused(refused)));
    }
    let cpu = check::fixture(&Cpu::new(Some(1)), model.clone(), &expected, &limits())?;
    let gpu = check::fixture(&Gpu::sim(SimOptions::default()).without_matrices(), model, &expected, &limits())?;
    Ok(Some(Found::Ran { gpu, cpu }))
}

/// The emulator may be off from the expected logits by what the CPU is off in the same precision (keys and values in f16), and a little more.
pub(crate) fn bar(cpu: &Report) -> f64 {
    2.0 * cpu.worst() + 1e-3
}

/// Cases that have other bits than the prompt in one step.
pub(crate) fn differing(report: &Report) -> Vec<&str> {
    report.cases.iter().filter(|c| !c.identical && !c.name.ends_with("short")).map(|c| c.name.as_str()).collect()
}

/// The fixture runs, is near, and all ways of feeding give the same bits.
pub(crate) fn holds(name: &str) -> Outcome {
    match run(name)? {
        None => Ok(()),
        Some(Found::Refused(refused)) => Err(format!("{name} is refused: {refused:?}").into()),
        Some(Found::Ran { gpu, cpu }) => {
            println!("{name} on the CPU\n{cpu}in the emulator\n{gpu}");
            gpu.hold(bar(&cpu))?;
            assert!(differing(&gpu).is_empty(), "not the bits of the whole prompt: {:?}", differing(&gpu));
            Ok(())
        }
    }
}
