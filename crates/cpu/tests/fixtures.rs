//! Whole models against the logits that another implementation computed, in every way in which an engine feeds a model.

use onebit_cpu::Cpu;
use onebit_formats::Checkpoint;
use onebit_models::load;
use onebit_plan::Limits;
use onebit_reference::check::{self, Expected, ExpectedStates};
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

/// Exact arithmetic stays within the bar, and feeding in chunks, batches, forks and after a rollback gives the same bits.
fn holds(name: &str, limits: &Limits, threads: usize) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    let model = load(&Checkpoint::open(&folder)?)?;
    let report = check::fixture(&Cpu::new(Some(threads)), model, &Expected::open(&folder)?, limits)?;
    eprintln!("{name}\n{report}");
    report.hold(check::BAR)?;
    let differ: Vec<_> = report.cases.iter().filter(|c| !c.identical && !c.name.ends_with("short")).collect();
    assert!(differ.is_empty(), "not the bits of the whole prompt: {differ:?}");
    Ok(())
}

/// Pages that hold no whole number of sixteens, and pages that do.
fn fixture(name: &str) -> Outcome {
    holds(name, &check::limits(), 2)?;
    holds(name, &Limits { page: 32, pages: 8, ..check::limits() }, 3)
}

macro_rules! tests {
    ($($name:ident: $form:ident,)*) => { $(#[test] fn $name() -> Outcome { fixture(stringify!($name)) })* };
}
onebit_reference::fixtures!(tests);

/// What sees the whole text, encoders and models of masked diffusion: alone, and in batches with another text, whose presence changes no bit.
fn encoder(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    let expected = ExpectedStates::open(&folder)?;
    for (page, threads) in [(8, 2), (32, 3)] {
        let model = load(&Checkpoint::open(&folder)?)?;
        let report = check::encoder(&Cpu::new(Some(threads)), model, &expected, &Limits { page, ..check::limits() })?;
        eprintln!("{name}\n{report}");
        report.hold(check::BAR)?;
        assert!(report.cases.iter().all(|c| c.identical), "not the bits of the text alone: {report}");
    }
    Ok(())
}

mod encoders {
    macro_rules! tests {
        ($($name:ident: $form:ident,)*) => { $(#[test] fn $name() -> super::Outcome { super::encoder(stringify!($name)) })* };
    }
    onebit_reference::encoders!(tests);
    onebit_reference::denoisers!(tests);
}
