//! What there is on this machine: for each driver the device that it reaches, or why it reaches none.

use super::{DeviceInfo, Driver, DriverError, hip::Hip, hrx::Hrx, library::Search};

/// What a driver reaches, or why it reaches nothing.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The driver.
    pub driver: &'static str,
    /// The device and what drives it, where there is one.
    pub device: Option<DeviceInfo>,
    /// Bytes of its memory that can still be had.
    pub available: Option<usize>,
    /// Why it cannot be used, if so.
    pub fault: Option<String>,
}

/// An open library: the devices that it sees, and how to begin a session.
type Open = (Vec<DeviceInfo>, Box<dyn FnOnce() -> Result<Box<dyn Driver>, DriverError>>);

/// Opens the libraries and asks them for a device of this architecture.
#[must_use]
pub fn probe(hrx: &Search, hip: &Search, architecture: &'static str) -> Vec<Probe> {
    let with_hrx = Hrx::open(hrx).map(|hrx| -> Open { (hrx.devices.clone(), Box::new(move || hrx.session(architecture))) });
    let with_hip = Hip::open(hip)
        .map(|hip| -> Open { (hip.devices.iter().map(|d| d.info.clone()).collect(), Box::new(move || hip.session(architecture))) });
    vec![one(hrx.driver, with_hrx), one(hip.driver, with_hip)]
}

fn one(driver: &'static str, opened: Result<Open, DriverError>) -> Probe {
    let (devices, session) = match opened {
        Ok(opened) => opened,
        Err(error) => return Probe { driver, device: None, available: None, fault: Some(error.to_string()) },
    };
    match session() {
        Ok(session) => Probe { driver, device: Some(session.device().clone()), available: Some(session.available()), fault: None },
        Err(error) => Probe { driver, device: devices.into_iter().next(), available: None, fault: Some(error.to_string()) },
    }
}
